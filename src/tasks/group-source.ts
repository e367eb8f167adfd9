// The reading half of the group task: what groups have committed at the source for mirrored topics,
// under the names that they have at the destination. Owns filters, names and kinds of groups;
// refuses to know the destination's offsets. Invariants: a group that could not be read is a
// problem, never a group without offsets. Offsets are read by the source topic's name: whether it
// is the mirrored one is for who takes them over to confirm.

import { ErrorCode, errorName } from '../../protocol/index.ts';
import { grantCommand } from '../cluster/grant-command.ts';
import type { LinkContext } from '../link/context.ts';
import type { LinkRuntime } from '../link/link.ts';
import type { MirrorTopics } from '../link/mirror/mirror-topics.ts';
import { forEachLimited } from '../link/signal.ts';
import type { MirrorState, TopicRecord } from '../state/records.ts';
import type { TaskProblem } from './back-offs.ts';
import { chunks } from './chunks.ts';
import { isGroupIncluded } from './group-filters.ts';
import { type GroupKind, type ListedGroup, listGroups } from './group-listing.ts';
import { type GroupRead, readGroups } from './group-offsets.ts';
import type { SourceCommit } from './group-writer.ts';

export interface SourceQuery {
  /** Only these destination topics; null: all mirrored ones. */
  readonly topics: ReadonlySet<string> | null;
  /** Only this group, by its name at the source; null: all that the filters match. */
  readonly group: string | null;
  readonly requireStable: boolean;
}

export type Concerns = ReadonlyMap<TaskProblem, ReadonlySet<string>>;

export interface SourceFindings {
  /** By the group's name at the destination. */
  readonly commits: ReadonlyMap<string, readonly SourceCommit[]>;
  /** Groups that were asked for, by their name at the source. */
  readonly groups: ReadonlyMap<string, ListedGroup>;
  readonly problems: readonly TaskProblem[];
  /** Problems that concern these destination topics only. */
  readonly concerns: Concerns;
  /** Mirrors that were asked for, as they were then, by their topic's name at the source. */
  readonly mirrors: Mirrors;
  /** Everything that was asked for has been read: what is not there is not at the source. */
  readonly isWhole: boolean;
}

const nothing: SourceFindings = {
  commits: new Map(),
  groups: new Map(),
  problems: [],
  concerns: new Map(),
  mirrors: new Map(),
  isWhole: true,
};

type Mirrors = ReadonlyMap<string, readonly TopicRecord[]>;

interface Round {
  readonly mirrors: Mirrors;
  readonly query: SourceQuery;
  readonly problems: TaskProblem[];
  readonly concerns: Map<TaskProblem, ReadonlySet<string>>;
}

export interface GroupSourceParts {
  readonly context: LinkContext;
  readonly topics: MirrorTopics;
  readonly link: LinkRuntime;
}

export class GroupSource {
  readonly #context: LinkContext;
  readonly #topics: MirrorTopics;
  readonly #link: LinkRuntime;

  constructor(parts: GroupSourceParts) {
    this.#context = parts.context;
    this.#topics = parts.topics;
    this.#link = parts.link;
  }

  /** What a group of the source is called at the destination. */
  nameHere(group: string): string {
    const { offsetSync, prefix } = this.#link.settings;
    return offsetSync.isPrefixed ? `${prefix}${group}` : group;
  }

  /** @throws ClusterError */
  async read(query: SourceQuery): Promise<SourceFindings> {
    const mirrors = this.#mirrors(query.topics);
    if (mirrors.size === 0) return nothing;
    const { groups, failures } = await listGroups(this.#link.cluster);
    const problems: TaskProblem[] = failures.map(({ nodeId, cause }) => ({
      code: 'INTERNAL_ERROR',
      message: `groups of source broker ${nodeId} cannot be listed: ${cause}`,
    }));
    const wanted = this.#wanted(groups, query.group);
    const commits = new Map<string, readonly SourceCommit[]>();
    const concerns = new Map<TaskProblem, ReadonlySet<string>>();
    const { groupBatch, requestsInFlight } = this.#context.limits;
    const batches = batchesOf(wanted, groupBatch);
    await forEachLimited(batches, requestsInFlight, async (batch) => {
      const found = await this.#readBatch(batch, { mirrors, query, problems, concerns });
      for (const [group, positions] of found) commits.set(this.nameHere(group), positions);
    });
    const isWhole = problems.length === 0;
    if (wanted.size === 0 && query.group === null) problems.push(...this.#nothing(groups.size));
    return { commits, groups: wanted, problems, concerns, mirrors, isWhole };
  }

  /** Groups that we may not describe are not listed: nothing at all may be a missing right. */
  #nothing(groupsCount: number): readonly TaskProblem[] {
    const setting = 'consumer.offset.group.filters';
    if (groupsCount === 0 && this.#link.settings.offsetSync.filters === null) return [];
    const message =
      groupsCount > 0
        ? `${setting} matches none of the source's ${groupsCount} groups`
        : `${setting} matches none: the source lists no groups, or none that we may describe; ` +
          'grant it with kafka-acls --add --group NAME --operation Describe';
    return [{ code: 'MISCONFIGURATION_ERROR', message, isHarmless: true }];
  }

  #wanted(
    groups: ReadonlyMap<string, ListedGroup>,
    only: string | null,
  ): ReadonlyMap<string, ListedGroup> {
    const { filters } = this.#link.settings.offsetSync;
    const isWanted = (group: string): boolean =>
      (only === null || group === only) && isGroupIncluded(filters, group);
    return new Map([...groups].filter(([group]) => isWanted(group)));
  }

  /** Mirrored topics whose groups are ours to keep, by source name. */
  #mirrors(only: ReadonlySet<string> | null): Mirrors {
    const bySource = new Map<string, TopicRecord[]>();
    for (const { record } of this.#topics.all) {
      const { link, name, state, sourceTopic } = record;
      if (link !== this.#link.name || only?.has(name) === false) continue;
      if (!keptStates.has(state)) continue;
      const others = bySource.get(sourceTopic);
      if (others) others.push(record);
      else bySource.set(sourceTopic, [record]);
    }
    return bySource;
  }

  async #readBatch(
    batch: { readonly nodeId: number; readonly groups: readonly string[] },
    round: Round,
  ): Promise<ReadonlyMap<string, readonly SourceCommit[]>> {
    const { mirrors, query } = round;
    const found = new Map<string, readonly SourceCommit[]>();
    const reads = await readGroups(this.#link.cluster, batch.groups, {
      nodeId: batch.nodeId,
      requireStable: query.requireStable,
      topicsOf: query.requireStable ? () => partitionsOf(mirrors) : null,
    });
    for (const [group, read] of reads) {
      noteProblem(group, read, round);
      const { errorCode, offsets } = read;
      if (errorCode !== ErrorCode.NONE) continue;
      const commits = [...offsets.values()].flatMap(({ topic, partition, offset, metadata }) =>
        (mirrors.get(topic) ?? []).map((mirror) => ({
          topic: mirror.name,
          topicId: mirror.topicId,
          partition,
          position: { offset, metadata },
        })),
      );
      if (commits.length > 0) found.set(group, commits);
    }
    return found;
  }
}

/** Of a paused mirror too: its groups go on at the source. */
const keptStates: ReadonlySet<MirrorState> = new Set(['ACTIVE', 'PENDING_STOPPED', 'PAUSED']);

/** Kinds whose offsets can be read and written. */
const offsetKinds: ReadonlySet<GroupKind> = new Set(['classic', 'consumer', 'streams', 'simple']);

function batchesOf(groups: ReadonlyMap<string, ListedGroup>, size: number) {
  const byNode = new Map<number, string[]>();
  for (const [group, { nodeId, kind }] of groups) {
    if (!offsetKinds.has(kind)) continue;
    const members = byNode.get(nodeId);
    if (members) members.push(group);
    else byNode.set(nodeId, [group]);
  }
  return [...byNode].flatMap(([nodeId, members]) =>
    chunks(members, size).map((part) => ({ nodeId, groups: part })),
  );
}

function partitionsOf(mirrors: Mirrors) {
  return [...mirrors].map(([topic, [mirror]]) => ({
    topic,
    partitions: mirror?.partitions.map((_, partition) => partition) ?? [],
  }));
}

/** A partition's own error is no problem of other topics. */
function noteProblem(
  group: string,
  { errorCode, partitionErrors }: GroupRead,
  { mirrors, problems, concerns }: Round,
): void {
  const whole = errorCode !== ErrorCode.NONE;
  const code = whole ? errorCode : partitionErrors[0]?.errorCode;
  if (code === undefined) return;
  const problem = readProblem(group, code);
  problems.push(problem);
  if (whole) return;
  const names = partitionErrors.flatMap(({ topic }) => mirrors.get(topic) ?? []);
  concerns.set(problem, new Set(names.map(({ name }) => name)));
}

function readProblem(group: string, code: number): TaskProblem {
  if (code === ErrorCode.UNSTABLE_OFFSET_COMMIT) {
    const message = `group '${group}' has a transaction that is about to commit offsets`;
    return { code: 'GROUP_OFFSETS_UNSTABLE', message };
  }
  const isDenied = code === ErrorCode.GROUP_AUTHORIZATION_FAILED;
  const remedy = isDenied ? `; grant it with ${grantCommand({ group }, 'Describe')}` : '';
  return {
    code: isDenied ? 'AUTHORIZATION_ERROR' : 'INTERNAL_ERROR',
    message:
      `offsets of group '${group}' cannot be read at the source: ` + `${errorName(code)}${remedy}`,
  };
}

// Where the source's share groups are in mirrored topics. Nothing is committed for them at the
// destination, where they begin at S once a topic is promoted; what they had at the source is
// recorded, so that it can be seen after the source is gone. Owns the reading and the record;
// refuses to know other kinds of groups. Invariants: it is read every half minute and before a
// promotion, and written only when it has changed; what could not be read, or not be confirmed to
// be of the mirrored topic, keeps its last value; no trouble with it ever stands in the way of a
// promotion.

import {
  createDescribeShareGroupOffsetsRequest,
  createDescribeShareGroupOffsetsRequestGroup,
} from '../../protocol/generated/describe-share-group-offsets-request.ts';
import type { DescribeShareGroupOffsetsResponseGroup } from '../../protocol/generated/describe-share-group-offsets-response.ts';
import { ErrorCode, errorName } from '../../protocol/index.ts';
import { describeShareGroupOffsetsApi } from '../cluster/apis.ts';
import { ClusterError } from '../cluster/cluster.ts';
import { grantCommand } from '../cluster/grant-command.ts';
import type { LinkContext } from '../link/context.ts';
import type { LinkRuntime } from '../link/link.ts';
import type { TopicChanges } from '../link/mirror/topic-changes.ts';
import type { GroupStatus } from '../link/service.ts';
import { unconfirmedSources } from '../link/source-identity.ts';
import type { ShareGroupOffset, TopicRecord } from '../state/records.ts';
import type { TaskProblem } from './back-offs.ts';
import type { SourceFindings } from './group-source.ts';

const readMs = 30_000;
/** Of one link: bounds its record in the state. */
const offsetsMax = 2_000;

interface Reading {
  /** Of these mirrors. */
  readonly topics: ReadonlySet<string>;
  readonly offsets: readonly ShareGroupOffset[];
  /** Groups whose offsets are known now. */
  readonly groups: ReadonlySet<string>;
  readonly problems: readonly TaskProblem[];
}

function keyOf({ group, topic, partition }: ShareGroupOffset): string {
  return JSON.stringify([group, topic, partition]);
}

function problem(message: string, code = 'INTERNAL_ERROR'): TaskProblem {
  return { code, message, isHarmless: true };
}

function refusal({ groupId, errorCode }: DescribeShareGroupOffsetsResponseGroup): TaskProblem {
  const isDenied = errorCode === ErrorCode.GROUP_AUTHORIZATION_FAILED;
  const remedy = isDenied ? `; grant it with ${grantCommand({ group: groupId }, 'Describe')}` : '';
  return problem(
    `share group '${groupId}' cannot be read at the source: ${errorName(errorCode)}${remedy}`,
    isDenied ? 'AUTHORIZATION_ERROR' : 'INTERNAL_ERROR',
  );
}

export class SharePositions {
  readonly #context: LinkContext;
  readonly #link: LinkRuntime;
  readonly #changes: TopicChanges;
  #readAtMs = Number.NEGATIVE_INFINITY;
  #problems: readonly TaskProblem[] = [];

  constructor(parts: { context: LinkContext; link: LinkRuntime; changes: TopicChanges }) {
    this.#context = parts.context;
    this.#link = parts.link;
    this.#changes = parts.changes;
  }

  rows(nameHere: (sourceGroup: string) => string): readonly GroupStatus[] {
    return this.#recorded().map(({ group, topic, partition, startOffset }) => ({
      group: nameHere(group),
      sourceGroup: group,
      kind: 'share',
      topic,
      partition,
      sourceOffset: startOffset,
      destinationOffset: -1n,
      held: 'share',
    }));
  }

  /** What is wrong is shown until the next look. @throws StateError */
  async look(
    found: SourceFindings,
    topics: ReadonlySet<string> | null,
  ): Promise<readonly TaskProblem[]> {
    const nowMs = this.#context.clock.monotonicMs();
    if (topics === null && nowMs - this.#readAtMs < readMs) return this.#problems;
    const names = [...found.groups].filter(([, { kind }]) => kind === 'share');
    if (names.length === 0 && this.#recorded().length === 0) return [];
    const reading = await this.#confirmed(found, await this.#read(found, names));
    this.#problems = reading.problems;
    if (topics === null) this.#readAtMs = nowMs;
    await this.#record(this.#merged(found, reading));
    return this.#problems;
  }

  /** Start offsets are read by name too: without those of topics that may be others by now. */
  async #confirmed(found: SourceFindings, reading: Reading): Promise<Reading> {
    const changed = changedTopics(this.#recorded(), this.#merged(found, reading));
    const mirrors = [...found.mirrors.values()].flat().filter(({ name }) => changed.has(name));
    let left: (topic: string) => string | null;
    try {
      const unconfirmed = await unconfirmedSources(this.#link, mirrors);
      left = (topic) => unconfirmed.get(topic)?.cause ?? null;
    } catch (error) {
      if (!(error instanceof ClusterError)) throw error;
      left = (topic) => (changed.has(topic) ? error.message : null);
    }
    const problems = [...changed].flatMap((topic) => {
      const cause = left(topic);
      if (cause === null) return [];
      return [problem(`share groups in '${topic}' are shown as they were: ${cause}`)];
    });
    return {
      groups: reading.groups,
      topics: new Set([...reading.topics].filter((topic) => left(topic) === null)),
      offsets: reading.offsets.filter(({ topic }) => left(topic) === null),
      problems: [...reading.problems, ...problems],
    };
  }

  #recorded(): readonly ShareGroupOffset[] {
    return this.#context.state.view.shareGroups.get(this.#link.name)?.offsets ?? [];
  }

  async #read(
    found: SourceFindings,
    names: readonly (readonly [string, { readonly nodeId: number }])[],
  ): Promise<Reading> {
    const offsets: ShareGroupOffset[] = [];
    const groups = new Set<string>();
    const problems: TaskProblem[] = [];
    for (const nodeId of new Set(names.map(([, listed]) => listed.nodeId))) {
      const own = names.filter(([, listed]) => listed.nodeId === nodeId);
      const asked = own.map(([groupId]) =>
        createDescribeShareGroupOffsetsRequestGroup({ groupId, topics: null }),
      );
      try {
        const answer = await this.#link.cluster.send(
          { kind: 'node', nodeId },
          describeShareGroupOffsetsApi,
          createDescribeShareGroupOffsetsRequest({ groups: asked }),
        );
        for (const group of answer.groups) {
          if (group.errorCode !== ErrorCode.NONE) problems.push(refusal(group));
          else {
            groups.add(group.groupId);
            offsets.push(...offsetsOf(group, found.mirrors));
          }
        }
      } catch (error) {
        if (!(error instanceof ClusterError)) throw error;
        const message = `share groups of source broker ${nodeId} cannot be read: ${error.message}`;
        problems.push(problem(message));
      }
    }
    const topics = new Set([...found.mirrors.values()].flat().map(({ name }) => name));
    return { topics, offsets, groups, problems };
  }

  /** What was read, and what is known of topics and groups that could not be read or are over. */
  #merged(
    found: SourceFindings,
    { topics, offsets, groups }: Reading,
  ): readonly ShareGroupOffset[] {
    const { view } = this.#context.state;
    const isKept = ({ group, topic }: ShareGroupOffset): boolean => {
      if (view.topics.get(topic)?.link !== this.#link.name) return false;
      if (!topics.has(topic)) return true;
      const isUnread = found.groups.get(group)?.kind === 'share' && !groups.has(group);
      return isUnread || !(found.isWhole || groups.has(group));
    };
    const all = new Map(
      this.#recorded()
        .filter(isKept)
        .map((one) => [keyOf(one), one]),
    );
    for (const one of offsets) all.set(keyOf(one), one);
    const sorted = [...all].sort(([left], [right]) => (left < right ? -1 : 1));
    return sorted.map(([, one]) => one);
  }

  async #record(offsets: readonly ShareGroupOffset[]): Promise<void> {
    if (offsets.length > offsetsMax) {
      const message = `share groups have ${offsets.length} offsets; ${offsetsMax} are recorded`;
      this.#problems = [...this.#problems, problem(message)];
    }
    const kept = offsets.slice(0, offsetsMax);
    const before = new Map(this.#recorded().map((one) => [keyOf(one), one.startOffset]));
    const isSame = kept.every((one) => before.get(keyOf(one)) === one.startOffset);
    if (isSame && before.size === kept.length) return;
    const { name } = this.#link;
    const { state } = this.#context;
    if (!state.view.links.has(name) || !state.lease.isValid()) return;
    await this.#changes.commit([{ put: { kind: 'share-groups', link: name, offsets: kept } }]);
  }
}

/** Topics of which not the same is known. */
function changedTopics(
  before: readonly ShareGroupOffset[],
  after: readonly ShareGroupOffset[],
): ReadonlySet<string> {
  const left = new Map(before.map((one) => [keyOf(one), one]));
  const changed = new Set<string>();
  for (const one of after) {
    const key = keyOf(one);
    if (left.get(key)?.startOffset !== one.startOffset) changed.add(one.topic);
    left.delete(key);
  }
  for (const { topic } of left.values()) changed.add(topic);
  return changed;
}

/** A start of -1 says that the group has read nothing of the partition yet. */
function offsetsOf(
  group: DescribeShareGroupOffsetsResponseGroup,
  mirrors: ReadonlyMap<string, readonly TopicRecord[]>,
): ShareGroupOffset[] {
  return group.topics.flatMap(({ topicName, partitions }) =>
    (mirrors.get(topicName) ?? []).flatMap(({ name: topic }) =>
      partitions
        .filter(({ errorCode, startOffset }) => errorCode === ErrorCode.NONE && startOffset >= 0n)
        .map(({ partitionIndex, startOffset }) => ({
          group: group.groupId,
          topic,
          partition: partitionIndex,
          startOffset,
        })),
    ),
  );
}

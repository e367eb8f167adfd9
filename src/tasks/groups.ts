// The group task of a link: committed offsets of groups on the source go to the destination every
// second, for mirrored topics only, paused ones too. Owns the rounds; refuses to read
// (group-source.ts), to remember (group-commits.ts), to decide (group-diff.ts) and to write
// (group-writer.ts). Invariants (R5, R9, R12, R16): nothing is written without a valid lease, nor
// above a mirror's durable end, nor to a live group, nor what was read of a source topic that was
// not confirmed to be the mirrored one afterwards; one writer at a time, but reading the source,
// which may hang, holds up nobody.
import { Serial } from '../../storage/disk/serial.ts';
import { partitionKey } from '../cluster/partition-key.ts';
import type { LinkContext } from '../link/context.ts';
import type { LinkRuntime } from '../link/link.ts';
import { LinkError } from '../link/link-error.ts';
import { brokerConfig } from '../link/mirror/cluster-configs.ts';
import { isMirror } from '../link/mirror/mirror-state.ts';
import type { MirrorTopics } from '../link/mirror/mirror-topics.ts';
import type { TopicChanges } from '../link/mirror/topic-changes.ts';
import type { GroupPosition, GroupStatus, TaskPlan } from '../link/service.ts';
import { forEachLimited, messageOf, Signal } from '../link/signal.ts';
import { type Unconfirmed, unconfirmedSources } from '../link/source-identity.ts';
import { openNativeExtent } from '../timeline/timeline.ts';
import type { TaskProblem } from './back-offs.ts';
import { GroupCommits, type GroupsCommits, type Reading } from './group-commits.ts';
import type { Commit } from './group-entries.ts';
import { type GroupKind, hasMembers, type ListedGroup, listGroups } from './group-listing.ts';
import {
  type Concerns,
  GroupSource,
  type SourceFindings,
  type SourceQuery,
} from './group-source.ts';
import { GroupWriter, type Planned, type SourceCommit, type WriteOptions } from './group-writer.ts';
import { shareGroupsBehind } from './share-groups.ts';
import { SharePositions } from './share-positions.ts';
import { problemOf, type TaskRound, type TaskWork } from './sync-task.ts';

const retentionKey = 'offsets.retention.minutes';
const retentionDefaultMs = 7 * 24 * 3600 * 1000;
const retentionReadMs = 300_000;
const retentionRetryMs = 10_000;
const problemsMax = 10;
const plannedMax = 10_000;

interface Known {
  readonly sourceGroup: string;
  readonly kind: GroupKind;
}

/** What has become of one group: for who waits for its last commit. */
export interface GroupLook {
  /** As the source lists it; null when it does not. */
  readonly listed: ListedGroup | null;
  readonly problems: readonly TaskProblem[];
  /** Offsets that are not, or not wholly, what the source has. */
  readonly behind: readonly { readonly topic: string; readonly partition: number }[];
  readonly isLiveHere: boolean;
}

export interface GroupSyncParts {
  readonly context: LinkContext;
  readonly topics: MirrorTopics;
  readonly link: LinkRuntime;
  readonly changes: TopicChanges;
}

export class GroupSync implements TaskWork {
  readonly name = 'ConsumerOffsetSync';
  readonly #context: LinkContext;
  readonly #topics: MirrorTopics;
  readonly #link: LinkRuntime;
  readonly #source: GroupSource;
  readonly #writer: GroupWriter;
  readonly #shares: SharePositions;
  readonly #writes = new Serial();
  readonly #commits = new GroupCommits();
  /** Topics of commands that are under way. */
  readonly #switching = new Set<ReadonlySet<string>>();
  #known: ReadonlyMap<string, Known> = new Map();
  /** By topic, Unix ms of the last reading that counts of all its groups. */
  readonly #readAtMs = new Map<string, number>();
  #retentionReadAtMs = Number.NEGATIVE_INFINITY;
  #retentionProblems: readonly TaskProblem[] = [];

  constructor(parts: GroupSyncParts) {
    this.#context = parts.context;
    this.#topics = parts.topics;
    this.#link = parts.link;
    this.#source = new GroupSource(parts);
    this.#shares = new SharePositions(parts);
    this.#writer = new GroupWriter({ context: parts.context, retentionMs: retentionDefaultMs });
  }

  get isEnabled(): boolean {
    return this.#link.settings.offsetSync.enabled;
  }

  get periodMs(): number {
    return this.#link.settings.offsetSync.periodMs;
  }

  /** Of all topics, or of some. */
  status(topics: ReadonlySet<string> | null = null): readonly GroupStatus[] {
    const rows = topics === null ? this.#writer.rows() : this.#writer.rowsIn(topics);
    return rows.map((row) => {
      const known = this.#known.get(row.group);
      const { sourceGroup = row.group, kind = 'classic' } = known ?? {};
      return { ...row, sourceGroup, kind };
    });
  }

  /** What the source and the destination had last of each offset, also of one not compared yet. */
  positions(topics: ReadonlySet<string>): readonly GroupPosition[] {
    if (!this.isEnabled) return [];
    return [...this.#commits.known].flatMap(([group, all]) => {
      const commits = all.filter(({ topic }) => topics.has(topic));
      if (commits.length === 0) return [];
      const rows = new Map(this.#writer.rowsOf(group).map((row) => [keyOf(row), row] as const));
      return commits.map(({ topic, partition, position }) => {
        const row = rows.get(keyOf({ topic, partition }));
        const { destinationOffset = -1n, held = null } = row ?? {};
        return { group, topic, partition, sourceOffset: position.offset, destinationOffset, held };
      });
    });
  }

  /** When all groups of the source were read for a topic, Unix ms; -1 when never, or not synced. */
  readTimeMs(topic: string): number {
    if (!this.isEnabled) return -1;
    return this.#readAtMs.get(topic) ?? -1;
  }

  /** Share groups of the source: nothing is committed for them here. */
  shareGroups(): readonly GroupStatus[] {
    return this.#shares.rows((group) => this.nameHere(group));
  }

  async round(): Promise<TaskRound> {
    const query = { topics: null, group: null, requireStable: false };
    const { found, problems, unconfirmed, written } = await this.#sync(query);
    const rows = this.#writer.rows();
    // That one is gone, or another, is told where the source is looked at.
    const waiting = [...unconfirmed].map(([topic, doubt]) => {
      return { ...heldBack(topic, doubt), isHarmless: doubt.kind !== 'unreadable' };
    });
    return {
      problems: [...problems, ...waiting].slice(0, problemsMax),
      counts: {
        groups: found.commits.size,
        offsets: rows.length,
        written,
        held: rows.filter(({ held }) => held !== null).length,
      },
    };
  }

  async plan(): Promise<Omit<TaskPlan, 'task'>> {
    const query = { topics: null, group: null, requireStable: false };
    const found = await this.#source.read(query);
    const unconfirmed = await this.#unconfirmed(found, readingOf(found, query));
    await this.#readRetention();
    const sure = [...found.commits].map(([group, commits]) => {
      return [group, commits.filter(({ topic }) => !unconfirmed.has(topic))] as const;
    });
    const planned = await this.#writer.plan(new Map(sure), this.#options());
    const changes = planned.flatMap((one) => planRow(one, this.#writer.isLive(one.group)));
    const waiting = [...unconfirmed].map(([topic, doubt]) => heldBack(topic, doubt));
    return { changes: changes.slice(0, plannedMax), problems: [...found.problems, ...waiting] };
  }

  /**
   * A whole round for some topics, with stable offsets only; what it returns of each stands in its
   * way.
   */
  async finalRound(
    topics: ReadonlySet<string>,
  ): Promise<ReadonlyMap<string, readonly TaskProblem[]>> {
    if (!this.isEnabled) return new Map();
    const query = { topics, group: null, requireStable: true };
    const { found, problems, concerns, unconfirmed, postponed } = await this.#sync(query);
    const behind = new Map<string, readonly TaskProblem[]>();
    await forEachLimited([...topics], this.#context.limits.requestsInFlight, async (topic) => {
      behind.set(topic, await this.#shareGroupsBehind(topic, found));
    });
    // A filter that matches nothing leaves nothing to be exact about.
    const real = problems.filter(({ isHarmless }) => isHarmless !== true);
    const problemsOf = (topic: string): readonly TaskProblem[] => {
      const own = real.filter((problem) => concerns.get(problem)?.has(topic) ?? true);
      const groups = [...postponed].filter((group) =>
        found.commits.get(group)?.some((commit) => commit.topic === topic),
      );
      const shares = behind.get(topic) ?? [];
      const doubt = unconfirmed.get(topic);
      const waiting = doubt === undefined ? [] : [heldBack(topic, doubt)];
      return [...own, ...waiting, ...unwritten(new Set(groups)), ...shares].slice(0, problemsMax);
    };
    return new Map([...topics].map((topic) => [topic, problemsOf(topic)]));
  }

  async #shareGroupsBehind(
    name: string,
    { groups }: SourceFindings,
  ): Promise<readonly TaskProblem[]> {
    const topic = this.#topics.byName(name);
    if (topic === undefined) return [];
    const ends = topic.partitions.map(({ log }) => log?.end ?? 0n);
    const { sourceTopic } = topic.record;
    return shareGroupsBehind(this.#link.cluster, groups, { sourceTopic, ends });
  }

  /** One group now, by its name at the source, with stable offsets only. @throws ClusterError */
  async lookAt(group: string): Promise<GroupLook> {
    const query = { topics: null, group, requireStable: true };
    const { found, read, unconfirmed, ...synced } = await this.#sync(query);
    const here = this.#source.nameHere(group);
    const topicsRead = new Set((read.get(here) ?? []).map(({ topic }) => topic));
    // What it has in a topic that is not the mirrored one any more is not for here.
    const waiting = [...unconfirmed].filter(
      ([topic, { kind }]) => kind !== 'other' && topicsRead.has(topic),
    );
    const problems = [
      ...synced.problems.filter(({ isHarmless }) => isHarmless !== true),
      ...waiting.map(([topic, doubt]) => heldBack(topic, doubt)),
    ];
    const rows = new Map(
      this.#writer.rowsOf(here).map((row) => [partitionKey(row.topic, row.partition), row]),
    );
    const behind = (found.commits.get(here) ?? []).filter(({ topic, partition, position }) => {
      const row = rows.get(partitionKey(topic, partition));
      return row?.destinationOffset !== position.offset;
    });
    const listedHere = (await listGroups(this.#context.destination)).groups.get(here);
    const isLiveHere = listedHere !== undefined && hasMembers(listedHere);
    return { listed: found.groups.get(group) ?? null, problems, behind, isLiveHere };
  }

  nameHere(sourceGroup: string): string {
    return this.#source.nameHere(sourceGroup);
  }

  /**
   * Before a switch of many topics: what is known of the first is needed yet when the last has been
   * switched. Ends with a call of what is returned.
   */
  switching(topics: readonly string[]): () => void {
    const own = new Set(topics);
    this.#switching.add(own);
    return () => this.#switching.delete(own);
  }

  /**
   * After a switch: offsets clamped to an older end are written again, from what is known of the
   * source, which may be dead: what was confirmed while it lived counts.
   */
  async finish(topics: readonly string[], limitMs: number): Promise<void> {
    if (!this.isEnabled) return;
    const wanted = new Set(topics);
    const byGroup = new Map<string, readonly SourceCommit[]>();
    for (const [group, commits] of this.#commits.known) {
      const own = commits.filter(({ topic }) => wanted.has(topic));
      if (own.length > 0) byGroup.set(group, own);
    }
    const limit = new Signal();
    void this.#write(byGroup)
      .catch((error: unknown) => this.#notFinished(error))
      .then(() => limit.notify());
    await limit.wait(limitMs);
  }

  #notFinished(error: unknown): void {
    const level = problemOf(error) === null ? 'error' : 'warn';
    this.#context.events.emit(
      level,
      'group_offsets_pending',
      `Link '${this.#link.name}': offsets could not be written after the switch: ` +
        messageOf(error),
      { link: this.#link.name },
    );
  }

  async #sync(query: SourceQuery): Promise<{
    /** With the commits that count. */
    readonly found: SourceFindings;
    readonly read: GroupsCommits;
    readonly problems: readonly TaskProblem[];
    readonly concerns: Concerns;
    /** By topic, why what was read of it does not count. */
    readonly unconfirmed: ReadonlyMap<string, Unconfirmed>;
    readonly written: number;
    readonly postponed: ReadonlySet<string>;
  }> {
    await this.#readRetention();
    const readAtMs = this.#context.clock.unixMs();
    const read = await this.#source.read(query);
    const reading = readingOf(read, query);
    const unconfirmed = await this.#unconfirmed(read, reading);
    const commits = this.#remember(read, { query, reading, unconfirmed, readAtMs });
    const found = { ...read, commits };
    const { problems, concerns, written, postponed } = await this.#write(commits);
    const shares = query.group === null ? await this.#shares.look(found, query.topics) : [];
    return {
      found,
      read: read.commits,
      problems: [...found.problems, ...problems, ...shares, ...this.#retentionProblems],
      concerns: new Map([...found.concerns, ...concerns]),
      unconfirmed,
      written,
      postponed,
    };
  }

  /**
   * Of topics with something new. What is as it was when it was confirmed needs no confirmation:
   * most rounds ask for a few topics, or for none.
   */
  #unconfirmed(
    { mirrors }: SourceFindings,
    reading: Reading,
  ): Promise<ReadonlyMap<string, Unconfirmed>> {
    const changed = this.#commits.changedTopics(reading);
    const asked = [...mirrors.values()].flat().filter(({ name }) => changed.has(name));
    return unconfirmedSources(this.#link, asked);
  }

  /**
   * Only a round that has read everything says what is not there any more. Returns the commits
   * that count, of what was asked for.
   */
  #remember(
    { groups, isWhole }: SourceFindings,
    round: {
      readonly query: SourceQuery;
      readonly reading: Reading;
      readonly unconfirmed: ReadonlyMap<string, Unconfirmed>;
      readonly readAtMs: number;
    },
  ): GroupsCommits {
    const { query, reading, unconfirmed, readAtMs } = round;
    const isAll = query.topics === null && reading.isWhole;
    const commits = this.#commits.take(reading, {
      isHeldBack: (topic) => unconfirmed.has(topic),
      isKept: (commit) => !isAll || this.#isMirrorStill(commit),
    });
    if (query.group !== null || !isWhole) return commits;
    this.#known = new Map(
      [...groups].map(([sourceGroup, { kind }]) => [
        this.#source.nameHere(sourceGroup),
        { sourceGroup, kind },
      ]),
    );
    for (const topic of reading.topics) {
      if (!unconfirmed.has(topic)) this.#readAtMs.set(topic, readAtMs);
    }
    if (isAll) {
      for (const topic of this.#readAtMs.keys()) {
        if (this.#topics.byName(topic) === undefined) this.#readAtMs.delete(topic);
      }
      this.#writer.retain(this.#commits.known);
    }
    return commits;
  }

  /** Also of one that has failed: a failover goes on from what is known of it. */
  #isMirrorStill({ topic, topicId }: SourceCommit): boolean {
    const mirror = this.#topics.byName(topic);
    if (mirror === undefined || mirror.topicId !== topicId) return false;
    const isSwitching = [...this.#switching].some((topics) => topics.has(topic));
    return mirror.record.link === this.#link.name && (isSwitching || isMirror(mirror.record.state));
  }

  #write(wanted: ReadonlyMap<string, readonly SourceCommit[]>) {
    return this.#writes.run(() => this.#writer.write(wanted, this.#options()));
  }

  #options(): WriteOptions {
    return {
      mayAct: () => this.#context.state.lease.isValid(),
      endOf: (commit) => this.#endOf(commit),
    };
  }

  /** The mirror's durable end, or S once it was switched; null when it is not known. */
  #endOf({ topic, topicId, partition }: SourceCommit): bigint | null {
    const mirror = this.#topics.byName(topic);
    const view = mirror?.topicId === topicId ? mirror.partition(partition) : undefined;
    if (view === undefined) return null;
    return openNativeExtent(view.timeline)?.start ?? view.log?.visibleEnd ?? null;
  }

  async #readRetention(): Promise<void> {
    const nowMs = this.#context.clock.monotonicMs();
    if (nowMs - this.#retentionReadAtMs < retentionReadMs) return;
    const { destination } = this.#context;
    const nodeId = (destination.brokers[0] ?? (await destination.metadata([])).brokers[0])?.nodeId;
    if (nodeId === undefined) return;
    const minutes = await this.#retentionMinutes(nodeId);
    const isUnread = this.#retentionProblems.length > 0;
    this.#retentionReadAtMs = nowMs - (isUnread ? retentionReadMs - retentionRetryMs : 0);
    this.#writer.retentionMs = minutes > 0 ? minutes * 60_000 : retentionDefaultMs;
  }

  /** Offsets are synchronised all the same when it may not be read; 0: Kafka's default is taken. */
  async #retentionMinutes(nodeId: number): Promise<number> {
    this.#retentionProblems = [];
    try {
      return Number(await brokerConfig(this.#context.destination, nodeId, retentionKey));
    } catch (error) {
      if (!(error instanceof LinkError)) throw error;
      const message = `${retentionKey} of the destination is taken to be 7 days: ${error.message}`;
      const isDenied = error.code === 'SOURCE_UNAUTHORIZED';
      const code = isDenied ? 'BROKER_AUTHORIZATION_ERROR' : 'INTERNAL_ERROR';
      this.#retentionProblems = [{ code, message, isHarmless: true }];
      return 0;
    }
  }
}

function keyOf({ topic, partition }: Commit): string {
  return partitionKey(topic, partition);
}

function readingOf({ commits, mirrors, isWhole }: SourceFindings, { group }: SourceQuery): Reading {
  const topics = new Set([...mirrors.values()].flat().map(({ name }) => name));
  return { commits, topics, isWhole: isWhole && group === null };
}

function heldBack(topic: string, { kind, cause }: Unconfirmed): TaskProblem {
  const code = kind === 'unreadable' ? 'INTERNAL_ERROR' : 'UNKNOWN_TOPIC_OR_PARTITION_ERROR';
  return { code, message: `offsets of groups in '${topic}' are left as they are: ${cause}` };
}

/** A switch after which a group goes on from an older offset would not be exact. */
function unwritten(postponed: ReadonlySet<string>): readonly TaskProblem[] {
  const [first] = postponed;
  if (first === undefined) return [];
  const message =
    `the last offsets of ${postponed.size} groups ('${first}' first) are not here yet: their ` +
    'coordinators do not answer';
  return [{ code: 'GROUPS_UNREADABLE', message }];
}

function planRow(planned: Planned, isLive: boolean): readonly TaskPlan['changes'][number][] {
  const { group, commit, actual, decision } = planned;
  const subject = `group ${group}`;
  const here = actual === null ? 'none' : String(actual.offset);
  const place = `${commit.topic}-${commit.partition}`;
  switch (decision.kind) {
    case 'in-step':
      return [];
    case 'moved':
    case 'deleted': {
      const detail = `${place}: ${here}, the source has ${commit.position.offset}`;
      return [{ action: 'keep', subject, detail: `${detail}: ${decision.kind}` }];
    }
    case 'commit': {
      const detail = `${place}: ${here} -> ${decision.position.offset} (${decision.why})`;
      if (isLive) return [{ action: 'wait', subject, detail: `${detail}: it is live` }];
      return [{ action: 'set', subject, detail }];
    }
  }
}

// The writing half of the group task: reads what the destination has, decides per partition,
// commits, reads back, and keeps what was written last and why a group is left alone. Refuses to
// know sources. Invariants: no request that changes something without a valid lease; the offsets
// compared with are at most 100 ms old; a live group is named and not tried again for a while.
import { ErrorCode, errorName } from '../../protocol/index.ts';
import { grantCommand } from '../cluster/grant-command.ts';
import { partitionKey } from '../cluster/partition-key.ts';
import type { LinkContext } from '../link/context.ts';
import { forEachLimited } from '../link/signal.ts';
import type { TaskProblem } from './back-offs.ts';
import { chunks } from './chunks.ts';
import { type Decision, decide, desiredOffset, isClamped, type Position } from './group-diff.ts';
import { type Commit, GroupEntries, type GroupEntry, type GroupRow } from './group-entries.ts';
import { GroupsWithMembers } from './group-members.ts';
import {
  CoordinatorMap,
  commitGroup,
  type GroupRead,
  liveGroupErrors,
  movedCoordinatorErrors,
  type OffsetToCommit,
  readGroups,
  type TopicPartitions,
} from './group-offsets.ts';

const readAgeMaxMs = 100;
const liveRetryMs = 5_000;
/** One more than is promised, so that a round that comes late keeps the promise. */
const renewalsPerRetention = 5;

export interface SourceCommit extends Commit {
  /** Of the destination's topic: offsets belong to an id, not to a name. */
  readonly topicId: string | null;
  readonly position: Position;
}

export interface WriteOptions {
  readonly mayAct: () => boolean;
  /** Null: nothing is to be written, also because the topic is another one by now. */
  readonly endOf: (commit: SourceCommit) => bigint | null;
}

export interface WriteResult {
  readonly problems: readonly TaskProblem[];
  /** Problems that concern these topics only. */
  readonly concerns: ReadonlyMap<TaskProblem, ReadonlySet<string>>;
  /** Partitions whose offsets were written, renewals included. */
  readonly written: number;
  /** Groups whose offsets were to be compared and are not: their coordinator is not to be had. */
  readonly postponed: ReadonlySet<string>;
}

/** What a round would do with one offset. */
export interface Planned {
  readonly group: string;
  readonly commit: SourceCommit;
  readonly actual: Position | null;
  readonly decision: Decision;
}

function keyOf({ topic, partition }: Commit): string {
  return partitionKey(topic, partition);
}

interface Due {
  readonly group: string;
  readonly commits: readonly SourceCommit[];
}

interface Work extends Due {
  readonly nodeId: number;
  readonly read: { readonly actual: GroupRead | undefined; readonly atMs: number };
}

/** By group, what the destination has taken. */
type Written = Map<string, readonly OffsetToCommit[]>;

interface Round {
  readonly options: WriteOptions;
  readonly problems: TaskProblem[];
  readonly postponed: Set<string>;
  readonly concerns: Map<TaskProblem, ReadonlySet<string>>;
  written: number;
}

export class GroupWriter {
  retentionMs: number;
  readonly #context: LinkContext;
  readonly #coordinators: CoordinatorMap;
  readonly #entries = new GroupEntries();
  readonly #withMembers: GroupsWithMembers;
  readonly #liveUntilMs = new Map<string, number>();
  /** Since when a group is postponed round after round. */
  readonly #postponedSinceMs = new Map<string, number>();

  constructor(parts: { context: LinkContext; retentionMs: number }) {
    this.#context = parts.context;
    this.retentionMs = parts.retentionMs;
    this.#coordinators = new CoordinatorMap(parts.context.destination);
    this.#withMembers = new GroupsWithMembers(parts.context);
  }

  get #renewalMs(): number {
    return this.retentionMs / renewalsPerRetention;
  }

  get #nowMs(): number {
    return this.#context.clock.monotonicMs();
  }

  rows(): readonly GroupRow[] {
    return this.#entries.rows();
  }

  rowsIn(topics: ReadonlySet<string>): readonly GroupRow[] {
    return this.#entries.rowsIn(topics);
  }

  rowsOf(group: string): readonly GroupRow[] {
    return this.#entries.rowsOf(group);
  }

  isLive(group: string): boolean {
    return (this.#liveUntilMs.get(group) ?? 0) > this.#nowMs;
  }

  /** Forgets groups and partitions that are not ours to keep any more. */
  retain(wanted: ReadonlyMap<string, readonly SourceCommit[]>): void {
    for (const group of this.#entries.retain(wanted)) {
      this.#liveUntilMs.delete(group);
      this.#postponedSinceMs.delete(group);
      this.#coordinators.forget(group);
    }
  }

  /** @throws ClusterError when the destination does not answer */
  async write(
    wanted: ReadonlyMap<string, readonly SourceCommit[]>,
    options: WriteOptions,
  ): Promise<WriteResult> {
    const round: Round = {
      options,
      problems: [],
      postponed: new Set(),
      concerns: new Map(),
      written: 0,
    };
    const due: Due[] = [];
    for (const [group, commits] of wanted) {
      if (this.isLive(group)) continue;
      const changed = commits.filter((commit) => this.#isDue(group, commit, options));
      if (changed.length > 0) due.push({ group, commits: changed });
    }
    if (due.length === 0) return round;
    for (const { group } of due) round.postponed.add(group);
    const { groupRecheckMs } = this.#context.limits;
    if (!(await this.#withMembers.refresh(groupRecheckMs))) {
      round.problems.push({ code: 'INTERNAL_ERROR', message: this.#withMembers.problem });
    }
    const { requestsInFlight } = this.#context.limits;
    await this.#eachRead(due, options, async (works) => {
      const written: Written = new Map();
      try {
        await forEachLimited(works, requestsInFlight, (work) => this.#one(work, round, written));
      } finally {
        await this.#confirm(works[0]?.nodeId ?? -1, written);
      }
    });
    this.#notePostponed(due, round);
    return round;
  }

  /** A coordinator that moves is nothing to tell; one that stays away is. */
  #notePostponed(due: readonly Due[], { postponed, problems }: Round): void {
    const lasting: string[] = [];
    for (const { group } of due) {
      if (!postponed.has(group)) {
        this.#postponedSinceMs.delete(group);
        continue;
      }
      const sinceMs = this.#postponedSinceMs.get(group) ?? this.#nowMs;
      this.#postponedSinceMs.set(group, sinceMs);
      if (this.#nowMs - sinceMs >= this.#context.limits.sampleAgeMaxMs) lasting.push(group);
    }
    const [first] = lasting;
    if (first === undefined) return;
    const message = `the coordinators of ${lasting.length} groups ('${first}' first) do not answer`;
    problems.push({ code: 'INTERNAL_ERROR', message });
  }

  /** What `write` would do with every offset. Changes nothing. @throws ClusterError */
  async plan(
    wanted: ReadonlyMap<string, readonly SourceCommit[]>,
    options: WriteOptions,
  ): Promise<readonly Planned[]> {
    const planned: Planned[] = [];
    const all = [...wanted].map(([group, commits]) => ({ group, commits }));
    await this.#eachRead(all, options, async (works) => {
      for (const { group, commits, read } of works) {
        const { actual } = read;
        if (actual?.errorCode !== ErrorCode.NONE) continue;
        for (const commit of commits) {
          const decision = this.#decide(group, commit, { actual, options });
          const found = actual.offsets.get(keyOf(commit)) ?? null;
          if (decision !== null) planned.push({ group, commit, actual: found, decision });
        }
      }
    });
    return planned;
  }

  /** The destination's offsets of groups, a batch at a time. */
  async #eachRead(
    due: readonly Due[],
    options: WriteOptions,
    work: (works: readonly Work[]) => Promise<void>,
  ): Promise<void> {
    const commitsOf = new Map(due.map(({ group, commits }) => [group, commits]));
    const byNode = await this.#coordinators.locate([...commitsOf.keys()]);
    for (const [nodeId, groups] of byNode) {
      for (const batch of chunks(groups, this.#context.limits.groupBatch)) {
        if (!options.mayAct()) return;
        const topicsOf = (group: string) => topicsIn(commitsOf.get(group) ?? []);
        const atMs = this.#nowMs;
        const readOptions = { nodeId, requireStable: false, topicsOf };
        const reads = await readGroups(this.#context.destination, batch, readOptions);
        const works = batch.map((group) => ({
          group,
          nodeId,
          commits: commitsOf.get(group) ?? [],
          read: { actual: reads.get(group), atMs },
        }));
        await work(works);
      }
    }
  }

  /** Whether a partition has to be compared with the destination at all in this round. */
  #isDue(group: string, commit: SourceCommit, options: WriteOptions): boolean {
    const end = options.endOf(commit);
    if (end === null) return false;
    const entry = this.#entries.of(group, commit, commit.topicId);
    if (entry?.synced == null || entry.row.held === 'error') return true;
    if (!entry.synced.isDeleted && this.#nowMs - entry.synced.atMs >= this.#renewalMs) return true;
    const isSame = entry.synced.offset === desiredOffset(commit.position, end);
    const ageMs = this.#nowMs - entry.comparedAtMs;
    const { groupRecheckMs } = this.#context.limits;
    return !(isSame && ageMs < Math.min(groupRecheckMs, this.#renewalMs / 2));
  }

  async #one(work: Work, round: Round, all: Written): Promise<void> {
    const { group, nodeId, commits } = work;
    const { options } = round;
    let { actual } = work.read;
    if (this.#nowMs - work.read.atMs > readAgeMaxMs) {
      actual = await this.#read(group, nodeId, commits);
    }
    if (actual === undefined || actual.errorCode !== ErrorCode.NONE) {
      this.#onReadError(work, actual?.errorCode ?? ErrorCode.UNKNOWN_SERVER_ERROR, round);
      return;
    }
    const toCommit = this.#compare(group, { commits, actual, options });
    if (toCommit.length > 0 && !options.mayAct()) return;
    round.postponed.delete(group);
    if (toCommit.length === 0) return;
    const { destination } = this.#context;
    const errors = await commitGroup(destination, { group, nodeId }, toCommit);
    const written = toCommit.filter((offset) => errors.get(keyOf(offset)) === ErrorCode.NONE);
    this.#onCommitErrors(group, { toCommit, errors }, round);
    round.written += written.length;
    if (written.length > 0) all.set(group, written);
  }

  async #read(
    group: string,
    nodeId: number,
    offsets: readonly Commit[],
  ): Promise<GroupRead | undefined> {
    const topicsOf = () => topicsIn(offsets);
    const options = { nodeId, requireStable: false, topicsOf };
    return (await readGroups(this.#context.destination, [group], options)).get(group);
  }

  #decide(
    group: string,
    commit: SourceCommit,
    found: { actual: GroupRead; options: WriteOptions },
  ): Decision | null {
    const { actual, options } = found;
    const mirrorEnd = options.endOf(commit);
    if (mirrorEnd === null) return null;
    const synced = this.#entries.of(group, commit, commit.topicId)?.synced ?? null;
    const nowMs = this.#nowMs;
    const isOld = synced !== null && nowMs - synced.atMs >= this.retentionMs;
    const isGone = actual.offsets.size === 0;
    return decide({
      source: commit.position,
      mirrorEnd,
      actual: actual.offsets.get(keyOf(commit)) ?? null,
      synced,
      nowMs,
      renewalMs: this.#renewalMs,
      mayHaveExpired: isOld || (isGone && this.#withMembers.had(group)),
    });
  }

  #compare(
    group: string,
    parts: { commits: readonly SourceCommit[]; actual: GroupRead; options: WriteOptions },
  ): OffsetToCommit[] {
    const toCommit: OffsetToCommit[] = [];
    for (const commit of parts.commits) {
      const { topic, topicId, partition, position } = commit;
      const decision = this.#decide(group, commit, parts);
      if (decision === null) continue;
      const { endOf } = parts.options;
      const clamped = isClamped(position, endOf(commit) ?? 0n) ? 'clamped' : null;
      const isHeld = decision.kind === 'moved' || decision.kind === 'deleted';
      const entry: GroupEntry = this.#entries.note(group, commit, {
        topicId,
        comparedAtMs: this.#nowMs,
        sourceOffset: position.offset,
        destinationOffset: parts.actual.offsets.get(keyOf(commit))?.offset ?? -1n,
        held: isHeld ? decision.kind : clamped,
      });
      if (decision.kind === 'deleted' && entry.synced !== null) {
        entry.synced = { ...entry.synced, isDeleted: true };
      }
      if (decision.kind === 'commit') {
        toCommit.push({ topic, partition, position: decision.position });
      }
    }
    return toCommit;
  }

  #onReadError({ group, commits }: Due, code: number, round: Round): void {
    this.#coordinators.forget(group);
    if (movedCoordinatorErrors.has(code)) return;
    round.postponed.delete(group);
    this.#entries.hold(group, 'error');
    tell(round, refusal(group, code, 'read'), commits);
  }

  #onCommitErrors(
    group: string,
    result: { toCommit: readonly OffsetToCommit[]; errors: ReadonlyMap<string, number> },
    round: Round,
  ): void {
    const failed = result.toCommit.flatMap((offset) => {
      const code = result.errors.get(keyOf(offset)) ?? ErrorCode.UNKNOWN_SERVER_ERROR;
      return code === ErrorCode.NONE ? [] : [{ offset, code }];
    });
    const [first] = failed;
    if (first === undefined) {
      this.#liveUntilMs.delete(group);
      return;
    }
    if (movedCoordinatorErrors.has(first.code)) {
      this.#coordinators.forget(group);
      round.postponed.add(group);
      return;
    }
    if (liveGroupErrors.has(first.code)) {
      this.#liveUntilMs.set(group, this.#nowMs + liveRetryMs);
      this.#entries.hold(group, 'live');
      return;
    }
    for (const { offset } of failed) this.#entries.hold(group, 'error', offset);
    const offsets = failed.map(({ offset }) => offset);
    tell(round, refusal(group, first.code, 'written', first.offset.topic), offsets);
  }

  /** Read back, all of a batch at once: only what is there now counts as written by us. */
  async #confirm(nodeId: number, written: Written): Promise<void> {
    if (written.size === 0) return;
    const topicsOf = (group: string) => topicsIn(written.get(group) ?? []);
    const options = { nodeId, requireStable: false, topicsOf };
    const reads = await readGroups(this.#context.destination, [...written.keys()], options);
    const atMs = this.#nowMs;
    for (const [group, offsets] of written) {
      for (const offset of offsets) {
        const found = reads.get(group)?.offsets.get(keyOf(offset));
        this.#entries.confirm(group, offset, { found: found?.offset ?? null, atMs });
      }
    }
  }
}

function tell(round: Round, problem: TaskProblem, concerned: readonly Commit[]): void {
  round.problems.push(problem);
  round.concerns.set(problem, new Set(concerned.map(({ topic }) => topic)));
}

function refusal(
  group: string,
  code: number,
  verb: 'read' | 'written',
  topic?: string,
): TaskProblem {
  const name = errorName(code);
  let remedy = '';
  if (code === ErrorCode.GROUP_AUTHORIZATION_FAILED) {
    remedy = `; grant it with ${grantCommand({ group }, 'Read')}`;
  } else if (code === ErrorCode.TOPIC_AUTHORIZATION_FAILED && topic !== undefined) {
    remedy = `; grant it with ${grantCommand({ topic }, 'Read')}`;
  }
  return {
    code: remedy === '' ? 'INTERNAL_ERROR' : 'BROKER_AUTHORIZATION_ERROR',
    message: `offsets of group '${group}' cannot be ${verb} at the destination: ${name}${remedy}`,
  };
}

function topicsIn(offsets: readonly Commit[]): readonly TopicPartitions[] {
  const topics = new Map<string, number[]>();
  for (const { topic, partition } of offsets) {
    const partitions = topics.get(topic);
    if (partitions) partitions.push(partition);
    else topics.set(topic, [partition]);
  }
  return [...topics].map(([topic, partitions]) => ({ topic, partitions }));
}

// The writing half of the group task: reads what the destination has, decides per partition,
// commits, reads back, and keeps what was written last and why a group is left alone. Refuses to
// know sources. Invariants: no request that changes something without a valid lease; the offsets
// compared with are at most 100 ms old; a live group is named and not tried again for a while.
import { ErrorCode, errorName } from '../../protocol/index.ts';
import type { LinkContext } from '../link/context.ts';
import type { GroupStatus } from '../link/service.ts';
import { forEachLimited } from '../link/signal.ts';
import { decide, desiredOffset, isClamped, type Position, type Synced } from './group-diff.ts';
import {
  CoordinatorMap,
  commitGroup,
  type GroupRead,
  movedCoordinatorErrors,
  type OffsetToCommit,
  readGroups,
  type TopicPartitions,
} from './group-offsets.ts';

const readAgeMaxMs = 100;
/** In-step offsets are looked at again so often, to see a group that moves at the destination. */
const recheckMs = 30_000;
const liveRetryMs = 5_000;

export interface SourceCommit {
  /** Destination topic. */
  readonly topic: string;
  readonly partition: number;
  readonly position: Position;
}

export interface WriteOptions {
  readonly mayAct: () => boolean;
  readonly endOf: (topic: string, partition: number) => bigint | null;
}

interface Problem {
  readonly code: string;
  readonly message: string;
}

interface Entry {
  synced: Synced | null;
  /** Monotonic ms of the last comparison with the destination. */
  comparedAtMs: number;
  status: GroupStatus;
}

const liveErrors: ReadonlySet<number> = new Set([
  ErrorCode.UNKNOWN_MEMBER_ID,
  ErrorCode.ILLEGAL_GENERATION,
  ErrorCode.REBALANCE_IN_PROGRESS,
  ErrorCode.NON_EMPTY_GROUP,
  ErrorCode.FENCED_MEMBER_EPOCH,
  ErrorCode.STALE_MEMBER_EPOCH,
  ErrorCode.FENCED_INSTANCE_ID,
]);

function keyOf({ topic, partition }: { topic: string; partition: number }): string {
  return `${topic}/${partition}`;
}

export class GroupWriter {
  renewalMs: number;
  readonly #context: LinkContext;
  readonly #coordinators: CoordinatorMap;
  readonly #groups = new Map<string, Map<string, Entry>>();
  readonly #liveUntilMs = new Map<string, number>();

  constructor(parts: { context: LinkContext; renewalMs: number }) {
    this.#context = parts.context;
    this.renewalMs = parts.renewalMs;
    this.#coordinators = new CoordinatorMap(parts.context.destination);
  }

  status(): readonly GroupStatus[] {
    return [...this.#groups.values()].flatMap((entries) =>
      [...entries.values()].map(({ status }) => status),
    );
  }

  /** Forgets groups and partitions that are not ours to keep any more. */
  retain(wanted: ReadonlyMap<string, readonly SourceCommit[]>): void {
    for (const [group, entries] of this.#groups) {
      const keys = new Set((wanted.get(group) ?? []).map(keyOf));
      for (const key of entries.keys()) if (!keys.has(key)) entries.delete(key);
      if (entries.size === 0) {
        this.#groups.delete(group);
        this.#liveUntilMs.delete(group);
        this.#coordinators.forget(group);
      }
    }
  }

  /** @throws ClusterError when the destination does not answer */
  async write(
    wanted: ReadonlyMap<string, readonly SourceCommit[]>,
    options: WriteOptions,
  ): Promise<readonly Problem[]> {
    const problems: Problem[] = [];
    const nowMs = this.#context.clock.monotonicMs();
    const due = [...wanted].flatMap(([group, commits]) => {
      if ((this.#liveUntilMs.get(group) ?? 0) > nowMs) return [];
      const changed = commits.filter((commit) => this.#isDue(group, commit, { nowMs, options }));
      return changed.length > 0 ? [{ group, commits: changed }] : [];
    });
    const commitsOf = new Map(due.map(({ group, commits }) => [group, commits]));
    const byNode = await this.#coordinators.locate([...commitsOf.keys()]);
    const { groupBatch, requestsInFlight } = this.#context.limits;
    for (const [nodeId, groups] of byNode) {
      for (let index = 0; index < groups.length; index += groupBatch) {
        if (!options.mayAct()) return problems;
        const batch = groups.slice(index, index + groupBatch);
        const topicsOf = (group: string) => topicsIn(commitsOf.get(group) ?? []);
        const readOptions = { nodeId, requireStable: false, topicsOf };
        const readAtMs = this.#context.clock.monotonicMs();
        const reads = await readGroups(this.#context.destination, batch, readOptions);
        await forEachLimited(batch, requestsInFlight, async (group) => {
          const commits = commitsOf.get(group) ?? [];
          const read = { actual: reads.get(group), atMs: readAtMs };
          await this.#one({ group, nodeId, commits, read }, options, problems);
        });
      }
    }
    return problems;
  }

  /** Whether a partition has to be compared with the destination at all in this round. */
  #isDue(
    group: string,
    commit: SourceCommit,
    { nowMs, options }: { nowMs: number; options: WriteOptions },
  ): boolean {
    const end = options.endOf(commit.topic, commit.partition);
    if (end === null) return false;
    const entry = this.#groups.get(group)?.get(keyOf(commit));
    if (entry?.synced == null || entry.status.held === 'error') return true;
    const isSame = entry.synced.offset === desiredOffset(commit.position, end);
    const isFresh = nowMs - entry.comparedAtMs < Math.min(recheckMs, this.renewalMs / 2);
    return !(isSame && isFresh);
  }

  async #one(
    work: {
      group: string;
      nodeId: number;
      commits: readonly SourceCommit[];
      read: { actual: GroupRead | undefined; atMs: number };
    },
    options: WriteOptions,
    problems: Problem[],
  ): Promise<void> {
    const { group, nodeId, commits } = work;
    let { actual } = work.read;
    if (this.#context.clock.monotonicMs() - work.read.atMs > readAgeMaxMs) {
      actual = await this.#read(group, nodeId, commits);
    }
    if (actual === undefined || actual.errorCode !== ErrorCode.NONE) {
      this.#onReadError(group, actual?.errorCode ?? ErrorCode.UNKNOWN_SERVER_ERROR, problems);
      return;
    }
    const toCommit = this.#compare(group, { commits, actual, options });
    if (toCommit.length === 0 || !options.mayAct()) return;
    const { destination } = this.#context;
    const errors = await commitGroup(destination, { group, nodeId }, toCommit);
    const written = toCommit.filter((offset) => errors.get(keyOf(offset)) === ErrorCode.NONE);
    this.#onCommitErrors(group, { toCommit, errors }, problems);
    if (written.length > 0) await this.#confirm(group, nodeId, written);
  }

  async #read(
    group: string,
    nodeId: number,
    offsets: readonly { topic: string; partition: number }[],
  ): Promise<GroupRead | undefined> {
    const topicsOf = () => topicsIn(offsets);
    const options = { nodeId, requireStable: false, topicsOf };
    return (await readGroups(this.#context.destination, [group], options)).get(group);
  }

  #compare(
    group: string,
    parts: { commits: readonly SourceCommit[]; actual: GroupRead; options: WriteOptions },
  ): OffsetToCommit[] {
    const nowMs = this.#context.clock.monotonicMs();
    const toCommit: OffsetToCommit[] = [];
    for (const commit of parts.commits) {
      const end = parts.options.endOf(commit.topic, commit.partition);
      if (end === null) continue;
      const key = keyOf(commit);
      const actual = parts.actual.offsets.get(key) ?? null;
      const synced = this.#groups.get(group)?.get(key)?.synced ?? null;
      const source = commit.position;
      const { renewalMs } = this;
      const decision = decide({ source, mirrorEnd: end, actual, synced, nowMs, renewalMs });
      const clamped = isClamped(source, end) ? 'clamped' : null;
      this.#note(group, commit, {
        destinationOffset: actual?.offset ?? -1n,
        held: decision.kind === 'moved' ? 'moved' : clamped,
      });
      if (decision.kind === 'commit') {
        const { topic, partition } = commit;
        toCommit.push({ topic, partition, position: decision.position });
      }
    }
    return toCommit;
  }

  #note(
    group: string,
    commit: SourceCommit,
    found: { destinationOffset: bigint; held: string | null },
  ): void {
    const entries = this.#groups.get(group) ?? new Map<string, Entry>();
    this.#groups.set(group, entries);
    const { topic, partition } = commit;
    const status: GroupStatus = {
      group,
      topic,
      partition,
      sourceOffset: commit.position.offset,
      ...found,
    };
    const comparedAtMs = this.#context.clock.monotonicMs();
    const synced = entries.get(keyOf(commit))?.synced ?? null;
    entries.set(keyOf(commit), { synced, comparedAtMs, status });
  }

  #onReadError(group: string, code: number, problems: Problem[]): void {
    this.#coordinators.forget(group);
    if (movedCoordinatorErrors.has(code)) return;
    this.#hold(group, 'error');
    problems.push({
      code:
        code === ErrorCode.GROUP_AUTHORIZATION_FAILED
          ? 'BROKER_AUTHORIZATION_ERROR'
          : 'INTERNAL_ERROR',
      message: `offsets of group '${group}' cannot be read at the destination: ${errorName(code)}`,
    });
  }

  #onCommitErrors(
    group: string,
    result: { toCommit: readonly OffsetToCommit[]; errors: ReadonlyMap<string, number> },
    problems: Problem[],
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
      return;
    }
    if (liveErrors.has(first.code)) {
      this.#liveUntilMs.set(group, this.#context.clock.monotonicMs() + liveRetryMs);
      this.#hold(group, 'live');
      return;
    }
    for (const { offset } of failed) this.#hold(group, 'error', keyOf(offset));
    problems.push({
      code: 'INTERNAL_ERROR',
      message: `offsets of group '${group}' cannot be written: ${errorName(first.code)}`,
    });
  }

  #hold(group: string, reason: string, key?: string): void {
    for (const [entryKey, entry] of this.#groups.get(group) ?? []) {
      if (key === undefined || key === entryKey) {
        entry.status = { ...entry.status, held: reason };
      }
    }
  }

  /** Read back: only what is there now counts as written by us. */
  async #confirm(group: string, nodeId: number, written: readonly OffsetToCommit[]): Promise<void> {
    const read = await this.#read(group, nodeId, written);
    const atMs = this.#context.clock.monotonicMs();
    for (const offset of written) {
      const entry = this.#groups.get(group)?.get(keyOf(offset));
      if (entry === undefined) continue;
      const found = read?.offsets.get(keyOf(offset));
      const isThere = found?.offset === offset.position.offset;
      const { status } = entry;
      if (isThere) entry.synced = { offset: offset.position.offset, atMs };
      entry.status = {
        ...status,
        destinationOffset: found?.offset ?? status.destinationOffset,
        held: isThere ? status.held : 'moved',
      };
    }
  }
}

function topicsIn(
  offsets: readonly { topic: string; partition: number }[],
): readonly TopicPartitions[] {
  const topics = new Map<string, number[]>();
  for (const { topic, partition } of offsets) {
    topics.set(topic, [...(topics.get(topic) ?? []), partition]);
  }
  return [...topics].map(([topic, partitions]) => ({ topic, partitions }));
}

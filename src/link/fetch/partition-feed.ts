// One mirror partition as its fetcher sees it: where it stands, who leads it, whether and when it
// may be fetched, why it stalls. Refuses to know requests and answers. Invariant: after `stop` has
// resolved nothing is appended to its log any more by the fetcher.
import { forEachBatch, zeroUuid } from '../../../protocol/index.ts';
import type { AppendResult, MirrorLog } from '../../../storage/mirror-log.ts';
import { backOffMs } from '../../tasks/back-offs.ts';
import type { LinkClock } from '../context.ts';
import type { LagTracker } from './lag.ts';

const backoffMaxMs = 5_000;
/** Answers of one partition that wait to be appended; beyond it the partition is not fetched. */
const waitingMax = 2;
/** A cause is shown once it has lasted; a single lost answer is nothing that stalls. */
const causeShownAfter = 3;

export interface FetchPosition {
  readonly offset: bigint;
  /** Leader epoch of the batch before it. */
  readonly epoch: number;
}

export class PartitionFeed {
  readonly topic: string;
  readonly sourceTopic: string;
  readonly sourceTopicId: string;
  readonly partition: number;
  readonly log: MirrorLog;
  readonly lag: LagTracker;
  leaderId = -1;
  leaderEpoch = -1;
  /** A replica that the leader has sent us to (KIP-392), and since when; null: the leader. */
  #near: { readonly nodeId: number; readonly sinceMs: number } | null = null;
  retryAtMs = 0;
  /** When a quota of the source left an answer empty last: of this partition it says nothing. */
  heldBackAtMs = Number.NEGATIVE_INFINITY;
  /** Something is being found out (a range, a truncation): not fetched meanwhile. */
  isSuspended = false;
  #isProved: boolean;
  #unprovedAtMs: number;
  /** The source's own epoch history no longer reaches our last epoch: sent as -1 once. */
  omitsLastEpoch = false;
  /**
   * An empty log whose source starts inside a batch: fetched from here, although the batch begins
   * lower.
   */
  startOverride: bigint | null = null;
  /** Nothing below is part of the mirror, whatever the source has. */
  readonly #firstOffset: bigint;
  /** The source deletes superseded records of the topic. */
  readonly isCompacted: () => boolean;
  /**
   * The source had cleaned something away when we came to read it, so long after we last had
   * everything (infinite: we do not know); null when it had not.
   */
  unseenCleaningMs: number | null;
  readonly #clock: LinkClock;
  readonly #startedMs: number;
  /** The first reading of what is already there, where nothing can have been missed. */
  #isFirstReading: boolean;
  /** Where fetching goes on while answers wait to be appended; null: where the log ends. */
  #ahead: FetchPosition | null = null;
  #waitingCount = 0;
  #taking: Promise<void> = Promise.resolve();
  #failures = 0;
  #cause: string | null = null;
  #isStopped = false;
  #busy: Promise<void> = Promise.resolve();
  #busyCount = 0;
  readonly #unsubscribe: () => void;
  /** Ends what was begun for the feed beside its fetching. */
  endRepairs: () => void = () => undefined;

  constructor(parts: {
    topic: string;
    sourceTopic: string;
    sourceTopicId: string;
    partition: number;
    log: MirrorLog;
    lag: LagTracker;
    clock: LinkClock;
    isCompacted: () => boolean;
    firstOffset?: bigint;
    /** It was so before a restart, and is to be made good still. */
    isCleaningUnseen?: boolean;
  }) {
    const { log, lag, clock } = parts;
    this.topic = parts.topic;
    this.sourceTopic = parts.sourceTopic;
    this.sourceTopicId = parts.sourceTopicId;
    this.partition = parts.partition;
    this.log = log;
    this.lag = lag;
    this.isCompacted = parts.isCompacted;
    this.#firstOffset = parts.firstOffset ?? 0n;
    this.unseenCleaningMs = parts.isCleaningUnseen === true ? Number.POSITIVE_INFINITY : null;
    this.#clock = clock;
    this.#startedMs = clock.monotonicMs();
    this.#isFirstReading = log.lastEpoch < 0;
    // It gets a leader by metadata that have its id.
    this.#isProved = this.hasTopicId || this.#isFirstReading;
    this.#unprovedAtMs = this.#startedMs;
    this.#unsubscribe = log.onAdvance(() => {
      lag.observeMirror(log.visibleEnd, clock.monotonicMs());
    });
  }

  get isStopped(): boolean {
    return this.#isStopped;
  }

  get failures(): number {
    return this.#failures;
  }

  get stallCause(): string | null {
    return this.#failures >= causeShownAfter ? this.#cause : null;
  }

  /** Monotonic ms of the last answer for the partition; of the start, while there was none. */
  get heardAtMs(): number {
    return Math.max(this.#startedMs, this.lag.sampledAtMs);
  }

  /** Without one (brokers before 2.8) only records can tell topics of one name apart. */
  get hasTopicId(): boolean {
    return this.sourceTopicId !== zeroUuid;
  }

  /** The source topic is the one that was mirrored: its id tells, or its records have. */
  get isProved(): boolean {
    return this.#isProved;
  }

  noteProved(): void {
    this.#isProved = true;
  }

  /** Metadata that were asked for at `askedAtMs` (monotonic) have the topic with its id. */
  noteIdSeen(askedAtMs: number): void {
    if (this.hasTopicId && askedAtMs >= this.#unprovedAtMs) this.#isProved = true;
  }

  /** Another topic may have this name now. */
  unprove(): void {
    this.#isProved = !this.hasTopicId && this.log.lastEpoch < 0;
    this.#unprovedAtMs = this.#clock.monotonicMs();
  }

  /** What the log needs next. */
  get position(): bigint {
    return this.startOverride ?? this.log.end;
  }

  get fetchOffset(): bigint {
    return this.#ahead?.offset ?? this.position;
  }

  get fetchEpoch(): number {
    return this.#ahead?.epoch ?? (this.omitsLastEpoch ? -1 : this.log.lastEpoch);
  }

  /** Answers wait to be appended. */
  get isAppending(): boolean {
    return this.#waitingCount > 0;
  }

  isReady(nowMs: number): boolean {
    if (this.#isStopped || this.isSuspended || this.leaderId < 0) return false;
    return nowMs >= this.retryAtMs && this.#waitingCount < waitingMax;
  }

  /**
   * Works off one answer after those that came before it. `ahead` is where fetching may go on
   * meanwhile, if the answer is the one that is waited for and leads on; whoever works it off has
   * to look whether the log has come that far.
   */
  take(
    answer: { readonly from: bigint; readonly ahead: FetchPosition | null },
    work: () => Promise<void>,
  ): Promise<void> {
    const { from, ahead } = answer;
    // After an answer that was not appended, those behind it lead away from where the log stands.
    if (ahead !== null && from === this.fetchOffset && ahead.offset > from) this.#ahead = ahead;
    this.#waitingCount++;
    const run = this.#taking.then(work).finally(() => {
      this.#waitingCount--;
      if (this.#waitingCount === 0) this.#ahead = null;
    });
    this.#taking = run.catch(() => undefined);
    return run;
  }

  /** Resolves when what was taken has been worked off. */
  settled(): Promise<void> {
    return this.#taking;
  }

  /** Moves to another leader; an older epoch than the known one is stale news. */
  follow(leaderId: number, leaderEpoch: number): boolean {
    if (leaderEpoch < this.leaderEpoch) return false;
    const isChange = leaderId !== this.leaderId || leaderEpoch !== this.leaderEpoch;
    if (isChange) this.#near = null;
    this.leaderId = leaderId;
    this.leaderEpoch = leaderEpoch;
    if (isChange) {
      this.retryAtMs = 0;
      if (!this.hasTopicId) this.unprove();
    }
    return isChange;
  }

  /** Where the mirror starts when the source starts at `sourceStart`. */
  logStartFor(sourceStart: bigint): bigint {
    const isBelow = sourceStart < this.#firstOffset;
    return isBelow ? this.#firstOffset : sourceStart;
  }

  /** Appends whole batches to the log. */
  async append(records: Buffer): Promise<void> {
    const from = this.log.end;
    this.#noteAppended(records, from, await this.log.append(records));
  }

  /** As `append`, before it returns. False: nothing was done, something has to be waited for. */
  appendNow(records: Buffer): boolean {
    const isFree = this.#waitingCount === 0 && this.#busyCount === 0;
    if (!isFree || this.#isStopped || this.isSuspended) return false;
    const from = this.log.end;
    const appended = this.log.appendNow(records);
    if (appended !== null) this.#noteAppended(records, from, appended);
    return appended !== null;
  }

  #noteAppended(records: Buffer, from: bigint, { bytes, end }: AppendResult): void {
    if (this.unseenCleaningMs === null && this.isCompacted()) this.#noteCleaning(records, from);
    this.lag.observeAppended(bytes, Number(end - from));
    this.startOverride = null;
    this.omitsLastEpoch = false;
  }

  #noteCleaning(records: Buffer, from: bigint): void {
    const { completeAtMs } = this.lag;
    if (completeAtMs !== null) this.#isFirstReading = false;
    if (this.#isFirstReading || isDense(records, from)) return;
    const since = completeAtMs ?? Number.NEGATIVE_INFINITY;
    this.unseenCleaningMs = this.#clock.monotonicMs() - since;
  }

  /** Who is asked for records. */
  get readNodeId(): number {
    return this.#near?.nodeId ?? this.leaderId;
  }

  get isReadNear(): boolean {
    return this.#near !== null;
  }

  /** The leader knows a replica that is nearer to us. */
  readNear(nodeId: number, nowMs: number): void {
    this.#near = nodeId === this.leaderId ? null : { nodeId, sinceMs: nowMs };
  }

  /** Back to the leader, which may send us to a replica again. False: that is where we are. */
  readAtLeader(nearSinceMsMax = Number.POSITIVE_INFINITY): boolean {
    if (this.#near === null || this.#near.sinceMs > nearSinceMsMax) return false;
    this.#near = null;
    return true;
  }

  succeed(): void {
    this.#failures = 0;
    this.#cause = null;
    this.retryAtMs = 0;
  }

  /** Its broker did not answer; whoever asks for many partitions at once waits for all of them. */
  gotNoAnswer(cause: string): void {
    this.#failures++;
    this.#cause = cause;
  }

  /** Tried again after a growing delay. */
  fail(cause: string, nowMs: number, delayMs = 50): void {
    this.#failures++;
    this.#cause = cause;
    this.#ahead = null;
    this.retryAtMs = nowMs + backOffMs(this.#failures, delayMs, Math.max(backoffMaxMs, delayMs));
  }

  /** One after the other, and waited for by `stop`. */
  async exclusively(work: () => Promise<void>): Promise<void> {
    const before = this.#busy;
    this.#busyCount++;
    const run = (async () => {
      await before;
      if (!this.#isStopped) await work();
    })().finally(() => {
      this.#busyCount--;
    });
    this.#busy = run.catch(() => undefined);
    await run;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.endRepairs();
    await this.#busy;
    this.#unsubscribe();
  }
}

/** The batches hold every offset from `end` on: nothing of them was cleaned away. */
export function isDense(records: Buffer, end: bigint): boolean {
  let next = end;
  let isWhole = true;
  forEachBatch(records, ({ baseOffset, lastOffsetDelta, recordsCount }) => {
    if (baseOffset > next || recordsCount <= lastOffsetDelta) isWhole = false;
    next = baseOffset + BigInt(lastOffsetDelta) + 1n;
    return isWhole;
  });
  return isWhole;
}

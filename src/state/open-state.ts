// The State of state.ts over the state topic: fence, replay, then act under a lease that is renewed
// every second; after a fence of somebody else only read on, for good. Owns the order of everything
// that touches the topic (one queue). Refuses to know what records are for.
// Invariants: the view holds committed records only; nothing is committed without a valid lease; a
// commit whose answer was lost blocks the queue until its outcome is known and the topic has been
// read to its end.
import { randomUUID } from 'node:crypto';
import { pauseMs } from '../cluster/pause.ts';
import { formatExport } from './export-file.ts';
import { FencedError } from './fenced.ts';
import { InstanceLease, waitBeforeActingMs } from './lease.ts';
import { checkLimits, type StateLimits, stateLimitsDefault } from './limits.ts';
import { StateNotices, text } from './notices.ts';
import type { OpenedState, StateOptions } from './options.ts';
import { ownProcess } from './own-process.ts';
import { OwnTopic } from './own-topic.ts';
import type { KeyValue } from './partition-writer.ts';
import { checkRecordSize } from './partition-writer.ts';
import { awaitSilence, isGoneHere, lastRenewedMs, type Watch } from './predecessor.ts';
import { decodeRecord, encodeRecord } from './record-format.ts';
import { type LeaseRecord, stateKey } from './records.ts';
import { SnapshotWriter } from './snapshot.ts';
import { type Lease, type StateChange, StateError, type StateView } from './state.ts';
import { asUnavailable } from './state-topic.ts';
import { TopicReader } from './topic-reader.ts';
import { TransactionWriter } from './transaction-writer.ts';
import { changeKey, RecordView } from './view.ts';
import { WaitingCommits } from './waiting-commits.ts';

const leaseKey = 'lease';
const topicPrefix = 'topic/';
const successorPauseMs = 100;

class StateService implements OpenedState {
  readonly lease: Lease;
  readonly #lease: InstanceLease;
  readonly #options: StateOptions;
  readonly #limits: StateLimits;
  readonly #own: OwnTopic;
  readonly #view = new RecordView();
  readonly #closing = new AbortController();
  readonly #reader: TopicReader;
  readonly #writer: TransactionWriter;
  readonly #snapshots: SnapshotWriter;
  readonly #notices: StateNotices;
  readonly #inDoubtKeys = new Set<string>();
  /** Of the commit that is being written. */
  #keysInFlight: readonly string[] = [];
  #leaseBefore: LeaseRecord | undefined;
  readonly #commits = new WaitingCommits();
  #queue: Promise<unknown> = Promise.resolve();
  #loop: Promise<void> = Promise.resolve();
  /** Who wrote the last lease record before us. */
  #predecessorId: string | undefined;
  #isClosed = false;
  #isFenced = false;
  #isWatching = false;
  #acquired: Promise<void> = Promise.resolve();

  constructor(options: StateOptions) {
    this.#options = options;
    this.#limits = { ...stateLimitsDefault, ...options.limits };
    checkLimits(this.#limits);
    this.#notices = new StateNotices(options.events);
    const { cluster, clock } = options;
    const now = (): number => clock.now();
    this.#lease = new InstanceLease({
      instanceId: options.instanceId ?? randomUUID(),
      leaseMs: this.#limits.leaseMs,
      now,
    });
    this.lease = this.#lease;
    this.#snapshots = new SnapshotWriter({
      directory: options.snapshotDirectory,
      whole: () => this.#export(),
      onFault: (error) => this.#notices.snapshotFailed(error),
    });
    const { signal } = this.#closing;
    const { file: snapshotFile } = this.#snapshots;
    this.#own = new OwnTopic({ ...options, signal, snapshotFile });
    const common = { cluster, topic: this.#own.name, signal, now };
    this.#reader = new TopicReader(common);
    this.#writer = new TransactionWriter({
      ...common,
      transactionalId: this.#own.name,
      wallMs: () => clock.wallMs(),
      onDoubt: () => this.#enterDoubt(),
      wasAborted: () => this.#wasAborted(),
      onTakenBack: () => this.#notices.takenBack(),
    });
  }

  get view(): StateView {
    return this.#view;
  }

  get isSettled(): boolean {
    return this.#inDoubtKeys.size === 0;
  }

  isInDoubt(topic: string): boolean {
    return this.#inDoubtKeys.has(`${topicPrefix}${topic}`);
  }

  onChange(listener: (keys: readonly string[]) => void): () => void {
    return this.#notices.onChange(listener);
  }

  onOwnership(listener: (isOwner: boolean) => void): () => void {
    return this.#notices.onOwnership(listener);
  }

  async open(): Promise<void> {
    await this.#own.prepare();
    const seen = this.#options.takeOver === true ? null : await awaitSilence(this.#watch());
    await this.#writer.fence(this.#limits.openTimeoutMs);
    const fencedMs = this.#options.clock.now();
    this.#apply(await this.#reader.read({ until: 'end', timeoutMs: this.#limits.openTimeoutMs }));
    if (this.#view.isEmpty && this.#options.mirrorStorageExists)
      throw this.#own.missing('is empty');
    this.#predecessorId = this.#view.lease?.instanceId;
    const waitMs = waitBeforeActingMs(this.#view.lease, this.#limits.leaseMs);
    const actsFromMs = lastRenewedMs(seen, this.#view.lease, fencedMs) + waitMs;
    this.#lease.actFrom(actsFromMs);
    this.#acquired = this.#acquire(actsFromMs);
    this.#loop = this.#run();
  }

  #watch(): Watch {
    const timeoutMs = this.#limits.openTimeoutMs;
    return {
      name: this.#options.name,
      read: async () => this.#apply(await this.#reader.read({ until: 'stable', timeoutMs })),
      lease: () => this.#view.lease,
      leaseMs: this.#limits.leaseMs,
      now: () => this.#options.clock.now(),
      signal: this.#closing.signal,
      isDead: (lease) => isGoneHere(lease, ownProcess),
    };
  }

  async commit(changes: readonly StateChange[]): Promise<void> {
    if (changes.length === 0) return;
    const records = changes.map(toKeyValue);
    if (records.some(({ key }) => key === leaseKey)) {
      throw new StateError('CORRUPT', 'the lease is written by the state itself');
    }
    for (const record of records) checkRecordSize(record);
    await this.#acquired;
    const done = this.#commits.add(changes, records);
    const turn = this.#enqueue(() =>
      this.#commits.write(async (joint) => {
        await this.#requireLease();
        await this.#transact(joint.changes, joint.records);
      }),
    );
    // Together: it may have failed in somebody else's turn, long before this one.
    await Promise.all([done, turn]);
  }

  async owned(): Promise<void> {
    await this.#acquired;
    if (!this.#lease.isValid()) await this.#enqueue(() => this.#requireLease());
  }

  async refresh(): Promise<void> {
    if (this.#lease.isValid() && this.isSettled) return;
    await this.#enqueue(() => this.#settle());
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const mayRelease = this.#lease.isValid();
    this.#lease.end('this instance is being stopped');
    this.#notices.setOwner(false);
    if (mayRelease) await this.#enqueue(() => this.#release());
    this.#closing.abort();
    await this.#loop;
    await this.#queue;
    await this.#snapshots.flush();
  }

  /** One after the other, whatever the outcome of the one before. */
  #enqueue<Result>(work: () => Promise<Result>): Promise<Result> {
    const result = this.#queue.then(work);
    this.#queue = result.then(ignore, ignore);
    return result;
  }

  async #acquire(actsFromMs: number): Promise<void> {
    const { clock } = this.#options;
    await this.#renew();
    const { signal } = this.#closing;
    // Timers may fire a moment early.
    while (clock.now() < actsFromMs && !signal.aborted) {
      await pauseMs(actsFromMs - clock.now(), signal);
    }
    this.#beginOwnership();
  }

  /** Once, when the lease is valid for the first time. */
  #beginOwnership(): void {
    if (this.#notices.isOwner || !this.#lease.isValid()) return;
    this.#notices.leaseAcquired(this.#options.name, this.#lease.instanceId);
    this.#notices.setOwner(true);
  }

  /** Until closed: renews while the lease is ours, reads on after it was taken. */
  async #run(): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      const isHeld = this.#lease.isHeld;
      await pauseMs(isHeld ? this.#limits.renewMs : this.#limits.tailMs, signal);
      if (signal.aborted || this.#isClosed) return;
      if (this.#lease.isHeld) await this.#renew();
      else await this.#enqueue(() => this.#tail());
    }
  }

  /** Never throws: a renewal that fails leaves the lease to run out. */
  async #renew(): Promise<void> {
    try {
      await this.#enqueue(async () => {
        if (!this.#lease.isHeld) return;
        this.#watchTopicId();
        await this.#transact([], []);
      });
      this.#notices.reachable();
    } catch (error) {
      this.#sayUnreachable(error);
    }
  }

  /** Never throws: what could not be read now is read by the next call. Inside the queue only. */
  async #tail(): Promise<void> {
    try {
      await this.#settle();
      this.#notices.reachable();
    } catch (error) {
      this.#sayUnreachable(error);
    }
  }

  /** Beside the renewal, which must not wait for it. */
  #watchTopicId(): void {
    if (this.#isWatching) return;
    this.#isWatching = true;
    this.#checkTopicId()
      .catch((error) => this.#sayUnreachable(error))
      .finally(() => {
        this.#isWatching = false;
      });
  }

  async #checkTopicId(): Promise<void> {
    const replaced = await this.#own.replaced();
    if (replaced === null) return;
    this.#notices.topicReplaced(replaced.message, replaced.topicId);
    this.#lease.end(replaced.message);
    this.#closing.abort();
    this.#notices.setOwner(false);
  }

  async #requireLease(): Promise<void> {
    if (!this.#lease.isHeld || this.#lease.isValid()) return this.#lease.check();
    try {
      await this.#checkTopicId();
      await this.#transact([], []);
    } catch (error) {
      if (!(error instanceof StateError) || error.code !== 'IN_DOUBT') throw error;
      const message = `the lease could not be renewed, nothing was written: ${error.message}`;
      throw new StateError('UNAVAILABLE', message, { cause: error });
    }
    this.#lease.check();
  }

  /** The changes and a renewal of the lease, in one transaction. */
  async #transact(changes: readonly StateChange[], records: readonly KeyValue[]): Promise<void> {
    await this.#settleEarlier();
    if (!this.#lease.isHeld) return this.#lease.check();
    const startedMs = this.#options.clock.now();
    const lease = this.#leaseRecord(false);
    this.#keysInFlight = records.map(({ key }) => key);
    this.#leaseBefore = this.#view.lease;
    let next: bigint;
    try {
      const all = [...records, { key: leaseKey, value: encodeRecord(lease) }];
      next = await this.#writer.commit(all, this.#limits.commitTimeoutMs);
    } catch (error) {
      return await this.#onTransactFault(error);
    } finally {
      this.#keysInFlight = [];
    }
    this.#lease.confirm(startedMs);
    if (this.isSettled) this.#reader.skipTo(next);
    for (const change of changes) this.#view.apply(change);
    this.#view.apply({ put: lease });
    this.#beginOwnership();
    this.#tell(records);
    if (!this.isSettled) await this.#tail();
  }

  /** What is to be written next must not meet a doubt. */
  async #settleEarlier(): Promise<void> {
    if (!this.#writer.isInDoubt && this.isSettled) return;
    try {
      await this.#settle();
    } catch (error) {
      const message = `an earlier commit is in doubt, nothing was written: ${text(error)}`;
      throw new StateError('UNAVAILABLE', message, { cause: error });
    }
  }

  async #onTransactFault(error: unknown): Promise<never> {
    if (!(error instanceof FencedError)) throw asUnavailable(error);
    this.#onFenced(error);
    const message = error.wasInDoubt
      ? 'fenced while a commit was in doubt: read the state again'
      : `not the owner any more: ${error.message}`;
    throw new StateError(error.wasInDoubt ? 'IN_DOUBT' : 'NOT_OWNER', message, { cause: error });
  }

  #enterDoubt(): void {
    for (const key of this.#keysInFlight) this.#inDoubtKeys.add(key);
    if (this.#keysInFlight.length > 0) this.#notices.inDoubt(this.#keysInFlight.length);
  }

  /** Every commit has a lease record: one that is not there was aborted. Inside the queue only. */
  async #wasAborted(): Promise<boolean> {
    const timeoutMs = this.#limits.commitTimeoutMs;
    this.#apply(await this.#reader.read({ until: 'end', timeoutMs }));
    return this.#view.lease === this.#leaseBefore;
  }

  /** Finds out how a doubt ended, then reads to the end. */
  async #settle(): Promise<void> {
    try {
      if (this.#writer.isInDoubt) await this.#writer.resolve(this.#limits.commitTimeoutMs);
    } catch (error) {
      if (!(error instanceof FencedError)) throw asUnavailable(error);
      this.#onFenced(error);
    }
    const until = this.isSettled ? 'stable' : 'end';
    const timeoutMs = this.#limits.commitTimeoutMs;
    try {
      this.#apply(await this.#reader.read({ until, timeoutMs }));
    } catch (error) {
      throw asUnavailable(error);
    }
    if (this.isSettled) return;
    this.#inDoubtKeys.clear();
    this.#notices.settled();
  }

  /** Stop acting first, then say so. */
  #onFenced(error: FencedError): void {
    if (this.#isFenced) return;
    this.#isFenced = true;
    this.#lease.end(`not the owner any more: ${error.message}`);
    this.#notices.setOwner(false);
    this.#enqueue(() => this.#nameSuccessor()).catch((fault) => this.#sayUnreachable(fault));
  }

  /** The successor writes its lease record as soon as it has read the state: give it a moment. */
  async #nameSuccessor(): Promise<void> {
    const known = [this.#predecessorId, this.#lease.instanceId];
    const isOther = (): boolean => !known.includes(this.#view.lease?.instanceId);
    const { signal } = this.#closing;
    for (let waitedMs = 0; waitedMs < this.#limits.tailMs; waitedMs += successorPauseMs) {
      await this.#tail();
      if (isOther() || signal.aborted) break;
      await pauseMs(successorPauseMs, signal);
    }
    this.#notices.leaseLost(this.#lease.instanceId, isOther() ? this.#view.lease : undefined);
  }

  async #release(): Promise<void> {
    try {
      if (this.#writer.isInDoubt) await this.#settle();
      const value = encodeRecord(this.#leaseRecord(true));
      await this.#writer.commit([{ key: leaseKey, value }], this.#limits.leaseMs);
    } catch (error) {
      this.#notices.leaseNotReleased(error);
    }
  }

  #leaseRecord(isReleased: boolean): LeaseRecord {
    return {
      kind: 'lease',
      instanceId: this.#lease.instanceId,
      ...ownProcess,
      renewedTimeMs: Math.round(this.#options.clock.wallMs()),
      released: isReleased,
    };
  }

  #apply(records: ReadonlyMap<string, string | null>): void {
    const changes: StateChange[] = [];
    for (const [key, value] of records) {
      changes.push(value === null ? { delete: key } : { put: decodeRecord(key, value) });
    }
    for (const change of changes) this.#view.apply(change);
    this.#tell([...records].flatMap(([key, value]) => (key === leaseKey ? [] : [{ key, value }])));
  }

  #tell(records: readonly KeyValue[]): void {
    if (records.length === 0) return;
    if (this.#lease.isHeld) this.#snapshots.add(records);
    else this.#snapshots.invalidate();
    this.#notices.changed(records.map(({ key }) => key));
  }

  #export(): string {
    const { name, clock } = this.#options;
    const head = {
      name,
      clusterId: this.#own.clusterId,
      writtenTimeMs: Math.round(clock.wallMs()),
    };
    return formatExport(head, this.#view.records());
  }

  /** While we are stopping nobody needs to know. */
  #sayUnreachable(error: unknown): void {
    if (this.#lease.isHeld || this.#isFenced) this.#notices.unreachable(error);
  }
}

function toKeyValue(change: StateChange): KeyValue {
  const key = changeKey(change);
  if ('delete' in change) return { key, value: null };
  return { key: stateKey(change.put), value: encodeRecord(change.put) };
}

function ignore(): void {
  // The caller has the promise itself; the queue only needs to know that it ended.
}

/**
 * Fences whoever wrote before, reads the whole state and returns. Ownership begins in the
 * background: at once when nobody had a lease, else one lease later; commits wait for it.
 * @throws StateError MISSING, CORRUPT, UNAVAILABLE
 */
export async function openState(options: StateOptions): Promise<OpenedState> {
  const service = new StateService(options);
  try {
    await service.open();
  } catch (error) {
    throw asUnavailable(error);
  }
  return service;
}

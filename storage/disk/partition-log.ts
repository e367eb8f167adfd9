// The mirror log of one partition on local files: the generation that readers see, and one that may
// be under construction.
//
// Owns: the order of operations on one log (one append or cut at a time, reads at any time), the
// change from one generation to the next, and the listeners. What each operation does is in the
// file of its name. Invariant: see MirrorLog.

import { StorageError } from '../errors.ts';
import type {
  AbortedTransaction,
  AppendResult,
  EpochEnd,
  LogDamage,
  LogId,
  LogRebuild,
  MirrorLog,
  OpenTransaction,
  ReadOptions,
  ReadResult,
  RetentionRules,
  TimestampOffset,
} from '../mirror-log.ts';
import { storageError } from './failures.ts';
import type { LogDirectories } from './log-directories.ts';
import { type GenerationListeners, LogGeneration, type LogSurroundings } from './log-generation.ts';
import { assertReplaces, DiskLogRebuild } from './log-rebuild.ts';
import type { LogState } from './log-state.ts';
import { larger } from './offsets.ts';
import type { OnReport } from './reports.ts';
import { Serial } from './serial.ts';

export interface LogPlace {
  readonly id: LogId;
  readonly name: string;
  readonly directories: LogDirectories;
}

export class DiskMirrorLog implements MirrorLog {
  readonly id: LogId;
  readonly #place: LogPlace;
  readonly #around: LogSurroundings;
  readonly #changes = new Serial();
  readonly #listeners = new Set<() => void>();
  readonly #damageListeners = new Set<() => void>();
  readonly #onReport: OnReport;
  readonly #events: GenerationListeners = {
    onChanged: (generation) => {
      if (generation === this.#current) this.#tell(this.#listeners);
    },
    onDamage: (generation) => {
      if (generation === this.#current) this.#tell(this.#damageListeners);
    },
  };
  #current: LogGeneration | null = null;
  #rebuild: DiskLogRebuild | null = null;

  private constructor(place: LogPlace, around: LogSurroundings) {
    this.id = place.id;
    this.#place = place;
    this.#around = around;
    this.#onReport = around.onReport;
  }

  static async open(place: LogPlace, around: LogSurroundings): Promise<DiskMirrorLog> {
    const log = new DiskMirrorLog(place, around);
    log.#current = await log.#openAt(place.directories.pathOf(place.name));
    return log;
  }

  get #generation(): LogGeneration {
    if (this.#current === null) throw new StorageError('CLOSED', 'the log is not open');
    return this.#current;
  }

  get #state(): LogState {
    return this.#generation.state;
  }

  get logStart(): bigint {
    return this.#state.logStart;
  }

  get end(): bigint {
    return this.#state.end;
  }

  get durableEnd(): bigint {
    return this.#state.durableEnd;
  }

  get visibleEnd(): bigint {
    return this.#state.visibleEnd;
  }

  get lastStableOffset(): bigint {
    return this.#state.lastStableOffset;
  }

  get visibleEpoch(): number {
    return this.#state.visibleEpoch;
  }

  get shownEpoch(): number {
    return this.#state.shownEpoch;
  }

  get isCut(): boolean {
    return this.#state.isCut;
  }

  get lastEpoch(): number {
    return this.#state.epochs.lastEpoch;
  }

  get sizeBytes(): number {
    return this.#state.sizeBytes;
  }

  /** Of a generation that is being built. */
  get rebuildBytes(): number {
    return this.#rebuild?.sizeBytes ?? 0;
  }

  get heldFrom(): bigint | null {
    return this.#state.hold;
  }

  append(records: Buffer): Promise<AppendResult> {
    return this.#changes.run(() => this.#generation.append(records));
  }

  appendNow(records: Buffer): AppendResult | null {
    return this.#changes.isIdle ? this.#generation.appendNow(records) : null;
  }

  flush(): Promise<void> {
    // Behind the appends that were called before, also when they have not begun to write.
    return this.#changes
      .run(async () => undefined)
      .then(() => this.#onGeneration(({ durability }) => durability.flush()));
  }

  onAdvance(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }

  read(offset: bigint, options: ReadOptions): Promise<ReadResult> {
    return this.#onGeneration(({ reader }) => reader.read(offset, options));
  }

  abortedTransactions(from: bigint, to: bigint): Promise<readonly AbortedTransaction[]> {
    return this.#onGeneration(({ state, indexes }) =>
      state.undisturbed(() => {
        const query = { from: larger(from, state.logStart), to, visibleEnd: state.visibleEnd };
        return indexes.aborted(query);
      }),
    );
  }

  get damage(): readonly LogDamage[] {
    return [...this.#state.damage.values()].map(({ from, to, bytes, reason }) => {
      return { from, to, bytes, reason };
    });
  }

  onDamage(listener: () => void): () => void {
    this.#damageListeners.add(listener);
    return () => {
      this.#damageListeners.delete(listener);
    };
  }

  repair({ from }: LogDamage, records: Buffer): Promise<void> {
    return this.#changes.run(() => {
      const { damages, durability } = this.#generation;
      return damages.repair(from, records, durability);
    });
  }

  retentionStart(rules: RetentionRules): bigint {
    return this.#state.retentionStart(rules);
  }

  openTransactions(): readonly OpenTransaction[] {
    return this.#state.transactions.open();
  }

  offsetForTimestamp(timestamp: bigint): Promise<TimestampOffset | null> {
    return this.#onGeneration(({ times }) => times.offsetForTimestamp(timestamp));
  }

  offsetOfMaxTimestamp(): Promise<TimestampOffset | null> {
    return this.#onGeneration(({ times }) => times.offsetOfMaxTimestamp());
  }

  epochEnd(epoch: number): EpochEnd {
    const { epochs, logStart, visibleEnd } = this.#state;
    return epochs.epochEnd(epoch, logStart, visibleEnd);
  }

  hold(offset: bigint | null): void {
    const { state, durability } = this.#generation;
    this.#assertOpen();
    // What was seen stays visible, also after a restart, which knows the hold and not the past.
    const hold = offset === null ? null : larger(offset, state.visibleEnd);
    if (hold === state.hold) return;
    state.hold = hold;
    durability.markHoldChanged();
    this.#generation.advance();
  }

  truncate(offset: bigint): Promise<void> {
    return this.#changes.run(() => this.#generation.cutter.truncate(offset));
  }

  deleteHead(logStart: bigint): Promise<void> {
    return this.#changes.run(() => this.#generation.cutter.deleteHead(logStart));
  }

  rebuild(logStart: bigint): Promise<LogRebuild> {
    return this.#changes.run(async () => {
      this.#assertOpen();
      if (this.#rebuild !== null) throw new StorageError('EXISTS', 'the log is being rebuilt');
      const { directories, name } = this.#place;
      await directories.removeNext(name);
      // Epochs whose records are all gone are known from the log as it is.
      const headEpoch = this.#state.epochs.epochAtOrFirst(logStart);
      const directory = await directories.begin(name, { logStart, headEpoch });
      this.#rebuild = new DiskLogRebuild({
        generation: await this.#openAt(directory),
        swap: (rebuild) => this.#changes.run(() => this.#swap(rebuild)),
        discard: (rebuild) => this.#changes.run(() => this.#discard(rebuild)),
      });
      return this.#rebuild;
    });
  }

  /** Makes everything durable, then refuses all further use. */
  async close(): Promise<void> {
    await this.#changes.run(async () => {
      await this.#abandonRebuild();
      try {
        await this.#generation.close();
      } finally {
        this.#forgetListeners();
      }
    });
  }

  /** The log is being deleted: whatever is under way ends, nothing is written any more. */
  async abandon(): Promise<void> {
    await this.#changes.run(async () => {
      await this.#abandonRebuild();
      await this.#generation.retire();
      this.#forgetListeners();
    });
  }

  async #swap(rebuild: DiskLogRebuild): Promise<void> {
    this.#assertOpen();
    if (this.#rebuild !== rebuild) throw new StorageError('CLOSED', 'the rebuild has ended');
    const next = rebuild.generation;
    const before = this.#generation;
    assertReplaces(next.state, before.state);
    await next.cutter.deleteHead(before.state.logStart);
    next.state.inheritShown(before.state);
    await next.settle();
    const { directories, name } = this.#place;
    try {
      await directories.commit(name);
    } catch (error) {
      // Which of the two a crash leaves cannot be known, so neither may grow.
      this.#rebuild = null;
      await next.retire();
      throw before.durability.fail(error);
    }
    this.#rebuild = null;
    this.#current = next;
    await before.retire();
    this.#tell(this.#listeners);
    try {
      await directories.removePrevious(name);
    } catch (error) {
      // The next start removes it.
      this.#onReport({ kind: 'generation-left', id: this.id, error });
    }
  }

  async #discard(rebuild: DiskLogRebuild): Promise<void> {
    if (this.#rebuild !== rebuild) return;
    await this.#abandonRebuild();
    const { directories, name } = this.#place;
    await directories.removeNext(name);
  }

  /** Its files are removed by whoever needs their place, or by the next start. */
  async #abandonRebuild(): Promise<void> {
    const rebuild = this.#rebuild;
    this.#rebuild = null;
    await rebuild?.generation.retire();
  }

  /** A question to the generation that readers see; asked again when another took its place. */
  async #onGeneration<T>(ask: (generation: LogGeneration) => Promise<T>): Promise<T> {
    for (;;) {
      const generation = this.#generation;
      try {
        return await ask(generation);
      } catch (error) {
        if (generation === this.#current) throw storageError(error);
      }
    }
  }

  #openAt(directory: string): Promise<LogGeneration> {
    return LogGeneration.open({ id: this.id, directory }, this.#around, this.#events);
  }

  #assertOpen(): void {
    if (this.#state.closed) throw new StorageError('CLOSED', 'the log is closed');
  }

  #forgetListeners(): void {
    this.#listeners.clear();
    this.#damageListeners.clear();
  }

  #tell(listeners: ReadonlySet<() => void>): void {
    for (const listener of [...listeners]) {
      try {
        listener();
      } catch (error) {
        this.#onReport({ kind: 'listener-failed', id: this.id, error });
      }
    }
  }
}

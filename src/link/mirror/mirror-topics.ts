// The gateway's TopicDirectory: every topic of the state with its open mirror logs, as synchronous
// look-ups. Owns the open logs and the in-memory phases; refuses to know links, sources and how
// states change. Invariants: the advertised epoch of a partition never goes back; a log that should
// be there and cannot be opened is null and an event, never an absence; ABORT batches of an
// uncommitted switch are never visible.
import { StorageError } from '../../../storage/errors.ts';
import type { LogId, MirrorLog, MirrorStorage } from '../../../storage/mirror-log.ts';
import type {
  PartitionView,
  TopicDirectory,
  TopicMode,
  TopicView,
} from '../../gateway/topic-directory.ts';
import type { Events } from '../../observe/events.ts';
import { logTopicIdOf, type TopicRecord } from '../../state/records.ts';
import type { State } from '../../state/state.ts';
import { type VirtualEpoch, virtualEpoch } from '../../timeline/offsets.ts';
import type { Timeline } from '../../timeline/timeline.ts';
import { forEachLimited, messageOf } from '../signal.ts';
import { closeAfterLoss, closedMirrorEnd } from './accepted-loss.ts';
import { isMirror } from './mirror-state.ts';

/** Finer than the state, in memory only. */
export type TopicPhase =
  | 'DRAINING'
  | 'OPEN_TRANSACTIONS'
  | 'FINAL_OFFSETS'
  | 'SWITCHING'
  | 'FAILING_OVER';

const opensInFlight = 32;

function logKey(id: LogId): string {
  return `${id.topicId}/${id.partition}`;
}

class MirrorPartitionView implements PartitionView {
  readonly partition: number;
  readonly timeline: Timeline;
  readonly log: MirrorLog | null;
  #highestEpoch: number;
  /**
   * The highest epoch when the log was about to be truncated; null when it never was, or is over
   * it. From then on the log knows by itself, over restarts too.
   */
  #truncatedEpoch: number | null;

  constructor(parts: {
    partition: number;
    timeline: Timeline;
    log: MirrorLog | null;
    before: MirrorPartitionView | undefined;
  }) {
    this.partition = parts.partition;
    this.timeline = parts.timeline;
    this.log = parts.log;
    this.#highestEpoch = parts.before?.advertisedEpoch ?? 0;
    this.#truncatedEpoch = parts.before?.isTruncating === true ? this.#highestEpoch : null;
  }

  get advertisedEpoch(): VirtualEpoch {
    const shown = this.log?.shownEpoch ?? -1;
    if (shown > this.#highestEpoch) this.#highestEpoch = shown;
    return virtualEpoch(this.#highestEpoch);
  }

  get isTruncating(): boolean {
    if (this.log?.isCut === true) return true;
    if (this.#truncatedEpoch === null) return false;
    if ((this.log?.visibleEpoch ?? -1) > this.#truncatedEpoch) this.#truncatedEpoch = null;
    return this.#truncatedEpoch !== null;
  }

  noteTruncation(): void {
    this.#truncatedEpoch = this.advertisedEpoch;
  }
}

export class MirrorTopic implements TopicView {
  record: TopicRecord;
  phase: TopicPhase | null = null;
  readonly #state: State;
  #partitions: readonly MirrorPartitionView[] = [];

  constructor(record: TopicRecord, state: State) {
    this.record = record;
    this.#state = state;
  }

  get name(): string {
    return this.record.name;
  }

  get topicId(): string | null {
    return this.record.topicId;
  }

  get link(): string {
    return this.record.link;
  }

  get sourceClusters(): readonly string[] {
    const source = this.#state.view.links.get(this.record.link)?.sourceClusterId;
    const origins = this.record.origins ?? [];
    return source === undefined ? origins : [...origins, source];
  }

  get mode(): TopicMode {
    if (this.#state.isInDoubt(this.record.name) || this.areCommitsMoving) return 'unavailable';
    if (!isMirror(this.record.state)) return 'promoted';
    return this.phase === 'SWITCHING' || this.phase === 'FAILING_OVER' ? 'switching' : 'mirror';
  }

  get areCommitsMoving(): boolean {
    return this.record.detaching !== undefined;
  }

  get partitionCount(): number {
    return this.#partitions.length;
  }

  partition(index: number): PartitionView | undefined {
    return this.#partitions[index];
  }

  noteTruncation(index: number): void {
    this.#partitions[index]?.noteTruncation();
  }

  get partitions(): readonly PartitionView[] {
    return this.#partitions;
  }

  /** Views are made anew when record or logs change; only the highest epoch lives on. */
  rebuild(record: TopicRecord, logOf: (id: LogId) => MirrorLog | null): void {
    const isSameTopic = record.topicId === this.record.topicId;
    const before = isSameTopic ? this.#partitions : [];
    this.record = record;
    const topicId = logTopicIdOf(record);
    this.#partitions = record.partitions.map(
      (timeline, partition) =>
        new MirrorPartitionView({
          partition,
          timeline,
          log: topicId === null ? null : logOf({ topicId, partition }),
          before: before[partition],
        }),
    );
  }
}

export class MirrorTopics implements TopicDirectory {
  readonly #state: State;
  readonly #storage: MirrorStorage;
  readonly #events: Events;
  readonly #acceptLoss: boolean;
  readonly #topics = new Map<string, MirrorTopic>();
  readonly #byId = new Map<string, MirrorTopic>();
  readonly #logs = new Map<string, MirrorLog>();
  readonly #listeners = new Set<(topic: string) => void>();
  readonly #waiting = new Map<string, Set<() => void>>();
  #mirrorsCount = 0;
  #promotedCount = 0;
  #isOpened = false;
  #unsubscribe: () => void = () => undefined;

  constructor(parts: {
    state: State;
    storage: MirrorStorage;
    events: Events;
    /** An operator's word that what is missing from a promoted copy is lost. */
    acceptLoss?: boolean;
  }) {
    this.#acceptLoss = parts.acceptLoss ?? false;
    this.#state = parts.state;
    this.#storage = parts.storage;
    this.#events = parts.events;
  }

  /** Opens the logs of all topics; until it resolves nothing is settled. */
  async start(): Promise<void> {
    this.#unsubscribe = this.#state.onChange((keys) => this.#onStateChange(keys));
    await this.#openMissing([...this.#state.view.topics.values()]);
    for (const name of this.#state.view.topics.keys()) this.#refresh(name);
    this.#isOpened = true;
  }

  close(): void {
    this.#unsubscribe();
    this.#listeners.clear();
    this.#waiting.clear();
  }

  byName(name: string): MirrorTopic | undefined {
    return this.#topics.get(name);
  }

  byId(topicId: string): MirrorTopic | undefined {
    return this.#byId.get(topicId);
  }

  get all(): Iterable<MirrorTopic> {
    return this.#topics.values();
  }

  get hasMirrors(): boolean {
    return this.#mirrorsCount > 0;
  }

  get hasPromoted(): boolean {
    return this.#promotedCount > 0;
  }

  get isSettled(): boolean {
    return this.#isOpened && this.#state.isSettled;
  }

  onChange(listener: (topic: string) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** By topic: hundreds of parked fetches are not asked about each of thousands of topics. */
  onChangeOf(topics: Iterable<string>, listener: () => void): () => void {
    const names = [...topics];
    for (const name of names) {
      const own = this.#waiting.get(name);
      if (own) own.add(listener);
      else this.#waiting.set(name, new Set([listener]));
    }
    return () => {
      for (const name of names) {
        const own = this.#waiting.get(name);
        own?.delete(listener);
        if (own?.size === 0) this.#waiting.delete(name);
      }
    };
  }

  log(id: LogId): MirrorLog | null {
    return this.#logs.get(logKey(id)) ?? null;
  }

  /**
   * Creates the log of a partition that is about to be committed, so that no view is ever without
   * it.
   */
  async createLog(id: LogId, logStart: bigint): Promise<MirrorLog> {
    const log = await this.#storage.create(id, logStart);
    this.#logs.set(logKey(id), log);
    return log;
  }

  /** In the place of one that cannot be used. Views have it from the next change on. */
  async replaceLog(id: LogId, logStart: bigint): Promise<void> {
    await this.#storage.delete(id);
    await this.createLog(id, logStart);
  }

  /** Each of them that can be, whatever becomes of the others. @throws StorageError the first */
  async deleteLogs(topicId: string): Promise<void> {
    const ids = (await this.#storage.list()).filter((id) => id.topicId === topicId);
    const failures: StorageError[] = [];
    for (const id of ids) {
      this.#logs.delete(logKey(id));
      try {
        await this.#storage.delete(id);
      } catch (error) {
        if (!(error instanceof StorageError)) throw error;
        failures.push(error);
      }
    }
    const [first] = failures;
    if (first !== undefined) throw first;
  }

  setPhase(name: string, phase: TopicPhase | null): void {
    const topic = this.#topics.get(name);
    if (topic === undefined || topic.phase === phase) return;
    topic.phase = phase;
    this.#tell(name);
  }

  /**
   * The partition's log is about to lose its tail: clients are sent away until the new epoch is
   * here.
   */
  noteTruncation(name: string, partition: number): void {
    this.#topics.get(name)?.noteTruncation(partition);
    this.#tell(name);
  }

  /**
   * For changes that the state does not announce: a commit in doubt, or one whose doubt is over.
   */
  touch(name: string): void {
    this.#tell(name);
  }

  #tell(name: string): void {
    for (const listener of this.#listeners) listener(name);
    for (const listener of [...(this.#waiting.get(name) ?? [])]) listener();
  }

  #onStateChange(keys: readonly string[]): void {
    const names = keys
      .filter((key) => key.startsWith('topic/'))
      .map((key) => key.slice('topic/'.length));
    for (const name of names) this.#refresh(name);
    const unopened = names.flatMap((name) => {
      const record = this.#state.view.topics.get(name);
      return record !== undefined && this.#missingLogs(record).length > 0 ? [record] : [];
    });
    if (unopened.length > 0 && this.#isOpened) this.#openLate(unopened);
  }

  /**
   * Records that came from elsewhere (another owner, an import): their logs are opened behind them.
   */
  #openLate(records: readonly TopicRecord[]): void {
    this.#openMissing(records)
      .then(() => {
        for (const { name } of records) this.#refresh(name);
      })
      .catch((error: unknown) => {
        this.#events.error('mirror_log_unreadable', messageOf(error));
      });
  }

  #missingLogs(record: TopicRecord): LogId[] {
    const topicId = logTopicIdOf(record);
    if (topicId === null) return [];
    return record.partitions
      .map((_, partition) => ({ topicId, partition }))
      .filter((id) => !this.#logs.has(logKey(id)));
  }

  async #openMissing(records: readonly TopicRecord[]): Promise<void> {
    const ids = records.flatMap((record) =>
      this.#missingLogs(record).map((id) => ({ id, record })),
    );
    await forEachLimited(ids, opensInFlight, async ({ id, record }) => {
      try {
        const log = await this.#storage.open(id);
        if (this.#acceptLoss) await this.#closeAfterLoss(record, id.partition, log);
        await endHold(record, log);
        this.#logs.set(logKey(id), log);
      } catch (error) {
        this.#events.error(
          'mirror_log_unreadable',
          `Mirror log of ${record.name}-${id.partition} cannot be used: ${messageOf(error)}`,
          { topic: record.name, partition: id.partition },
        );
      }
    });
  }

  /** A closed copy that ends below its extent would be an error to readers for ever. */
  async #closeAfterLoss(record: TopicRecord, partition: number, log: MirrorLog): Promise<void> {
    const end = closedMirrorEnd(record.partitions[partition]);
    if (end === null || log.end >= end) return;
    const from = log.end;
    await closeAfterLoss(log, end);
    this.#events.warn(
      'accepted_loss_closed',
      `Offsets ${from} to ${end} of promoted ${record.name}-${partition} are lost, as was accepted`,
      { topic: record.name, partition, from: String(from), end: String(end) },
    );
  }

  #refresh(name: string): void {
    const record = this.#state.view.topics.get(name);
    const before = this.#topics.get(name);
    if (before !== undefined) {
      this.#count(before, -1);
      if (before.topicId !== null) this.#byId.delete(before.topicId);
    }
    if (record === undefined) {
      this.#topics.delete(name);
    } else {
      const topic = before ?? new MirrorTopic(record, this.#state);
      topic.rebuild(record, (id) => this.log(id));
      if (!isMirror(record.state)) {
        topic.phase = null;
        // Committed, here or before a crash: what was held back for the switch is part of the log.
        for (const { log } of topic.partitions) {
          if (log !== null && log.heldFrom !== null) log.hold(null);
        }
      }
      this.#topics.set(name, topic);
      if (record.topicId !== null) this.#byId.set(record.topicId, topic);
      this.#count(topic, 1);
    }
    this.#tell(name);
  }

  #count(topic: MirrorTopic, change: 1 | -1): void {
    if (isMirror(topic.record.state)) this.#mirrorsCount += change;
    else this.#promotedCount += change;
  }
}

/**
 * What a log just opened hides. A failover under way keeps it hidden, it is undone later; one that
 * was undone has left the tail's end to us; one that was committed is seen when the view is made.
 */
async function endHold(record: TopicRecord, log: MirrorLog): Promise<void> {
  if (!isMirror(record.state)) return;
  if (record.stopping?.command === 'failover') {
    const { partition } = log.id;
    const cut = record.stopping.cuts.find((candidate) => candidate.partition === partition);
    if (cut !== undefined) log.hold(cut.offset);
    return;
  }
  const { heldFrom } = log;
  if (heldFrom === null) return;
  if (log.end > heldFrom) await log.truncate(heldFrom);
  log.hold(null);
}

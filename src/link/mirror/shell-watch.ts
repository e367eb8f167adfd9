// The regular look at the shells in the destination, and what else has to be taken up again from
// time to time: creations, promotions and failovers that a crash or a lost answer left behind.
// Refuses to know how each is done. Invariant: a mirror whose shell is gone or written to is told
// within 5 seconds; one stale answer, or brokers that do not know it yet, decide nothing.
import { ErrorCode } from '../../../protocol/index.ts';
import { ClusterError, type TopicInfo } from '../../cluster/cluster.ts';
import { logTopicIdOf, type MirrorError, type TopicRecord } from '../../state/records.ts';
import { StateError } from '../../state/state.ts';
import type { LinkContext } from '../context.ts';
import { LinkError } from '../link-error.ts';
import { Loop, messageOf } from '../signal.ts';
import { Lasting } from '../source-watch.ts';
import { isFenced, tellFenceLeft } from './fence-left.ts';
import { logRemoval } from './log-removals.ts';
import { isMirror } from './mirror-state.ts';
import { freeAtController, goneEverywhere, isGone, isReplaced } from './shell-absence.ts';
import { measureShells } from './shell-measure.ts';
import { failedWith, type TopicChanges } from './topic-changes.ts';

/**
 * A shell that the destination does not show for so long is gone. With the time between two looks
 * and what looking takes, the mirror fetches for it no longer than 5 seconds.
 */
const goneLastsMs = 1_000;
/** While one is missing that was there. */
const missingLookMs = 500;
/**
 * A promoted topic takes its copied history with it, and nothing is fetched for it; unless its name
 * has another id: then clients wait to hear which topic it is.
 */
const promotedGoneLastsMs = 8_000;
/** From then on brokers that do not show a topic have not just not heard of it. */
const isNewMs = 300_000;
/** One stale answer of the source decides nothing. */
const changedLastsMs = 3_000;

export interface ShellWatchParts {
  readonly context: LinkContext;
  readonly changes: TopicChanges;
  /** Takes up what was left behind; each failure is its own. */
  readonly takeUp: () => Promise<void>;
  readonly onFailed: (topic: string) => Promise<void>;
  /** Partitions of the source topic as last seen; null when it was not. */
  readonly sourcePartitions: (record: TopicRecord) => number | null;
}

export class ShellWatch {
  readonly #parts: ShellWatchParts;
  /** By topic id: another shell of the same name has been gone for another time. */
  readonly #gone = new Lasting();
  readonly #changed = new Lasting();
  /** Topic ids that the destination has shown. */
  readonly #shown = new Set<string>();
  /** How far each shell partition was looked through and held markers only. */
  readonly #verified = new Map<string, bigint>();
  /** Some shell seems to be gone, and it matters soon. */
  #isMissing = false;
  readonly #loop = new Loop(() => this.#turn());

  constructor(parts: ShellWatchParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#loop.start();
  }

  async close(): Promise<void> {
    await this.#loop.close();
  }

  async #turn(): Promise<number> {
    const { context } = this.#parts;
    this.#isMissing = false;
    if (context.state.lease.isValid()) {
      await this.#attempt(() => this.#parts.takeUp());
      await this.#attempt(() => this.#look());
    }
    const { shellWatchMs } = context.limits;
    return this.#isMissing ? Math.min(missingLookMs, shellWatchMs) : shellWatchMs;
  }

  async #attempt(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      const isExpected =
        error instanceof ClusterError || error instanceof StateError || error instanceof LinkError;
      const level = isExpected ? 'warn' : 'error';
      this.#parts.context.events.emit(level, 'destination_watch_failed', messageOf(error));
    }
  }

  async #look(): Promise<void> {
    const { context } = this.#parts;
    const records = [...context.state.view.topics.values()].filter(
      ({ topicId }) => topicId !== null,
    );
    this.#forgetOthers(records);
    if (records.length === 0) return;
    const { topics } = await context.destination.metadata(records.map(({ name }) => name));
    const there = records.filter((record) => isThere(record, topics.get(record.name)));
    for (const { topicId } of there) {
      this.#gone.clear(topicId ?? '');
      this.#shown.add(topicId ?? '');
    }
    const present = there.filter(({ state }) => isMirror(state));
    for (const record of present) {
      await this.#checkPartitions(record, topics.get(record.name)?.partitions.length ?? 0);
    }
    await this.#checkGone(
      records.filter((record) => isGone(record, topics.get(record.name))),
      topics,
    );
    const mirrors = present.filter(({ state }) => state !== 'FAILED');
    await this.#checkWritten(mirrors, topics);
  }

  async #checkGone(
    missing: readonly TopicRecord[],
    topics: ReadonlyMap<string, TopicInfo>,
  ): Promise<void> {
    const { context } = this.#parts;
    // Of a failed mirror nothing more is to be told.
    const asked = missing.filter(({ state }) => state !== 'FAILED');
    if (asked.length === 0) return;
    const gone = new Set(await goneEverywhere(context.destination, asked));
    for (const record of await this.#unheardOf([...gone], topics)) gone.delete(record);
    for (const record of asked) {
      const key = record.topicId ?? '';
      const isUrgent = isMirror(record.state) || isReplaced(record, topics.get(record.name));
      const lastsMs = isUrgent ? goneLastsMs : promotedGoneLastsMs;
      if (!gone.has(record)) this.#gone.clear(key);
      else if (this.#gone.note(key, context.clock.monotonicMs(), lastsMs)) {
        await this.#onGone(record);
      } else this.#isMissing ||= isUrgent;
    }
  }

  /**
   * Those that no broker has heard of yet. Brokers make the logs of some new topics before they
   * look at the next: of thousands made at a time they hear many seconds later.
   */
  async #unheardOf(
    missing: readonly TopicRecord[],
    topics: ReadonlyMap<string, TopicInfo>,
  ): Promise<readonly TopicRecord[]> {
    const unsure = missing.filter(
      (record) => this.#isNew(record) && !isReplaced(record, topics.get(record.name)),
    );
    if (unsure.length === 0) return [];
    const names = unsure.map(({ name }) => name);
    const free = await freeAtController(this.#parts.context.destination, names);
    return unsure.filter(({ name }) => !free.has(name));
  }

  #isNew({ topicId, madeTimeMs }: TopicRecord): boolean {
    if (this.#shown.has(topicId ?? '') || madeTimeMs === undefined) return false;
    return this.#parts.context.clock.unixMs() - madeTimeMs < isNewMs;
  }

  #forgetOthers(records: readonly TopicRecord[]): void {
    const ids = new Set(records.map(({ topicId }) => topicId));
    for (const lasting of [this.#gone, this.#changed]) lasting.keep((topicId) => ids.has(topicId));
    for (const topicId of this.#shown) if (!ids.has(topicId)) this.#shown.delete(topicId);
    for (const key of this.#verified.keys()) {
      if (!ids.has(key.slice(0, key.lastIndexOf('/')))) this.#verified.delete(key);
    }
  }

  async #onGone(record: TopicRecord): Promise<void> {
    if (isMirror(record.state)) {
      await this.#fail(record, {
        code: 'SHELL_TOPIC_DELETED',
        message: `The shell topic '${record.name}' was deleted or recreated in the destination`,
      });
      return;
    }
    const { changes } = this.#parts;
    await changes.locks.run(record.name, async () => {
      const now = changes.record(record.name);
      if (now === undefined || now.topicId !== record.topicId || isMirror(now.state)) return;
      const change = { delete: `topic/${record.name}` };
      // Its logs are deleted by what is taken up next.
      await changes.commit([change, ...logRemoval(logTopicIdOf(now))]);
      this.#tellGone(now);
    });
  }

  /** As the record was when it went: a denial at the source is on no other record. */
  #tellGone(record: TopicRecord): void {
    const { events } = this.#parts.context;
    const { name, link } = record;
    if (isFenced(record)) tellFenceLeft(events, record, `'${name}' is gone`);
    events.info(
      'promoted_topic_deleted',
      `Promoted topic '${name}' was deleted in the destination: its history is removed`,
      { topic: name, link },
    );
  }

  /** A partition that the source has not is one that nothing could ever be mirrored to. */
  async #checkPartitions(record: TopicRecord, shellPartitions: number): Promise<void> {
    const { name, topicId, sourceTopic, partitions, state } = record;
    const key = topicId ?? '';
    const atSource = this.#parts.sourcePartitions(record);
    const known = Math.max(partitions.length, atSource ?? shellPartitions);
    if (state === 'FAILED' || shellPartitions <= known) return this.#changed.clear(key);
    if (!this.#changed.note(key, this.#parts.context.clock.monotonicMs(), changedLastsMs)) return;
    await this.#fail(record, {
      code: 'SHELL_TOPIC_CHANGED',
      message:
        `The shell topic '${name}' was given ${shellPartitions} partitions past Causeway, ` +
        `source topic '${sourceTopic}' has ${known}`,
    });
  }

  /** R3: nothing but markers of refused transactions may be in a shell. */
  async #checkWritten(
    records: readonly TopicRecord[],
    topics: ReadonlyMap<string, TopicInfo>,
  ): Promise<void> {
    const shells = records.flatMap(({ name, topicId, partitions }) =>
      topicId === null ? [] : [{ name, topicId, partitionsCount: partitions.length }],
    );
    if (shells.length === 0) return;
    const { destination } = this.#parts.context;
    const options = { written: 'refuse', verified: this.#verified, topics } as const;
    const measures = await measureShells(destination, shells, options);
    for (const record of records) {
      const measure = measures.get(record.name);
      if (measure?.kind !== 'refused' || measure.error.code !== 'ILLEGAL_STATE') continue;
      // A promotion may have switched it meanwhile: then writing is what it is for.
      if (!isMirror(this.#parts.changes.record(record.name)?.state ?? 'STOPPED')) continue;
      await this.#fail(record, { code: 'SHELL_TOPIC_WRITTEN', message: measure.error.message });
    }
  }

  async #fail(record: TopicRecord, error: MirrorError): Promise<void> {
    const { changes } = this.#parts;
    await changes.apply(record.name, 'fail', failedWith(error), (now) =>
      isMirror(now.state) && now.state !== 'FAILED' && now.topicId === record.topicId
        ? { error }
        : null,
    );
    await this.#parts.onFailed(record.name);
  }
}

function isThere(record: TopicRecord, info: TopicInfo | undefined): boolean {
  return info?.errorCode === ErrorCode.NONE && info.topicId === record.topicId;
}

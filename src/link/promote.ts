// Promotion: a mirror becomes an ordinary topic with nothing lost. One run per topic: draining
// until lag is zero twice and no transaction is open, group offsets final, then a short switch in
// which writers are held and everything is confirmed once more. Refuses to know commands' syntax.
// Invariants: it switches only on ends read at the source after fetching has stopped; it ends by
// its deadline; a restart goes on with it.
import { ErrorCode, errorName } from '../../protocol/index.ts';
import { ClusterError } from '../cluster/cluster.ts';
import type { ReceiptRecord, TopicRecord } from '../state/records.ts';
import { StateError } from '../state/state.ts';
import type { LinkContext } from './context.ts';
import { partitionKey } from './fetch-session.ts';
import type { LinkRuntime } from './link.ts';
import type { MirrorTopic, MirrorTopics } from './mirror-topics.ts';
import type { LinkError } from './service.ts';
import { messageOf, Signal } from './signal.ts';
import { latestTimestamp, listOffsets } from './source-offsets.ts';
import { liftHolds, measureSwitch, receiptTopic, splicedPartitions } from './switch.ts';
import type { TopicChanges } from './topic-changes.ts';

const checkMs = 150;
const blockedCheckMs = 500;
/** Zero lag in so many looks in a row. */
const zeroesWanted = 2;
const confirmTimeoutMs = 2_000;

export interface Blocking {
  readonly code: string;
  readonly message: string;
}

export interface PromotionParts {
  readonly context: LinkContext;
  readonly topics: MirrorTopics;
  readonly changes: TopicChanges;
  readonly link: (name: string) => LinkRuntime | undefined;
  /**
   * Brings the groups' offsets of a topic up to the source's; what it returns stands in the way.
   */
  readonly finalGroups: (link: string, topic: string) => Promise<readonly Blocking[]>;
  readonly receiptId: () => string;
}

interface Run {
  blocking: readonly Blocking[];
  readonly signal: Signal;
  done: Promise<void>;
}

export class Promotions {
  readonly #parts: PromotionParts;
  readonly #runs = new Map<string, Run>();
  #isClosed = false;

  constructor(parts: PromotionParts) {
    this.#parts = parts;
  }

  /** What keeps a promotion from going on, as of its last look. */
  blocking(topic: string): readonly Blocking[] {
    return this.#runs.get(topic)?.blocking ?? [];
  }

  /** The record is PENDING_STOPPED for a promotion: goes on with it. Idempotent. */
  start(topic: string): void {
    if (this.#runs.has(topic) || this.#isClosed) return;
    const run: Run = { blocking: [], signal: new Signal(), done: Promise.resolve() };
    this.#runs.set(topic, run);
    this.#parts.topics.setPhase(topic, 'DRAINING');
    run.done = this.#run(topic, run)
      .catch((error: unknown) => {
        this.#parts.context.events.error('promotion_fault', messageOf(error), { topic });
      })
      .finally(() => {
        this.#runs.delete(topic);
        if (this.#parts.topics.byName(topic)?.phase === 'DRAINING') {
          this.#parts.topics.setPhase(topic, null);
        }
      });
  }

  /** Promotions that a restart has interrupted. */
  resume(): void {
    for (const record of this.#parts.context.state.view.topics.values()) {
      if (isPromoting(record)) this.start(record.name);
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const runs = [...this.#runs.values()];
    for (const run of runs) run.signal.notify();
    await Promise.all(runs.map((run) => run.done));
  }

  async #run(name: string, run: Run): Promise<void> {
    const { context, changes } = this.#parts;
    let zeroes = 0;
    while (!this.#isClosed) {
      const record = changes.record(name);
      if (record === undefined || !isPromoting(record)) return;
      try {
        if (await this.#isOverdue(record, run.blocking)) return;
        run.blocking = await this.#look(name);
        zeroes = run.blocking.length === 0 ? zeroes + 1 : 0;
        if (zeroes >= zeroesWanted) {
          run.blocking = await this.#parts.finalGroups(record.link, name);
          if (run.blocking.length === 0) {
            run.blocking = await this.#switch(name);
            if (run.blocking.length === 0) return;
          }
          zeroes = 0;
        }
      } catch (error) {
        if (!(error instanceof ClusterError || error instanceof StateError)) throw error;
        zeroes = 0;
        run.blocking = [{ code: codeOf(error), message: error.message }];
      }
      if (!context.state.lease.isValid()) zeroes = 0;
      await run.signal.wait(run.blocking.length === 0 ? checkMs : blockedCheckMs);
    }
  }

  async #isOverdue(record: TopicRecord, blocking: readonly Blocking[]): Promise<boolean> {
    const { context, changes } = this.#parts;
    const deadlineTimeMs = record.stopping?.deadlineTimeMs ?? 0;
    if (context.clock.unixMs() < deadlineTimeMs) return false;
    const reasons = blocking.map(({ code, message }) => `${code} (${message})`).join('; ');
    const why = `promotion not finished by its deadline: ${reasons || 'no time left'}`;
    await changes.apply(record.name, 'cancel', { actor: 'causeway', why }, (now) =>
      isPromoting(now) ? {} : null,
    );
    return true;
  }

  /** Fresh ends of the source against the durable ends of the mirror. */
  async #look(name: string): Promise<readonly Blocking[]> {
    const topic = this.#parts.topics.byName(name);
    const link = topic === undefined ? undefined : this.#parts.link(topic.link);
    if (topic === undefined || link === undefined) {
      return [{ code: 'LINK_NOT_FOUND_ERROR', message: 'the link is gone' }];
    }
    const lag = await this.#lag(topic, link);
    return lag.length > 0 ? lag : openTransactions(topic);
  }

  async #lag(topic: MirrorTopic, link: LinkRuntime): Promise<readonly Blocking[]> {
    const { sourceTopic } = topic.record;
    const { cluster } = link;
    const info = (await cluster.metadata([sourceTopic])).topics.get(sourceTopic);
    const partitions = topic.partitions.map(({ partition }) => ({
      topic: sourceTopic,
      partition,
      leaderId: info?.partitions.find((found) => found.partition === partition)?.leaderId ?? -1,
    }));
    if (info !== undefined && info.partitions.length > partitions.length) {
      return [{ code: 'PARTITIONS_GROWING', message: 'the source has more partitions' }];
    }
    const timeoutMs = confirmTimeoutMs;
    const ends = await listOffsets(cluster, partitions, { timestamp: latestTimestamp, timeoutMs });
    const blocking: Blocking[] = [];
    for (const { partition, log } of topic.partitions) {
      const end = ends.get(partitionKey(sourceTopic, partition));
      const place = `partition ${partition}`;
      if (log === null) {
        blocking.push({ code: 'STORAGE_ERROR', message: `${place}: the mirror log is unusable` });
      } else if (end === undefined || end.errorCode !== ErrorCode.NONE) {
        const cause = errorName(end?.errorCode ?? ErrorCode.UNKNOWN_SERVER_ERROR);
        blocking.push({ code: 'SOURCE_UNREACHABLE', message: `${place}: ${cause}` });
      } else if (end.offset !== log.durableEnd || log.end !== log.durableEnd) {
        const behind = end.offset - log.durableEnd;
        blocking.push({ code: 'MIRROR_LAG', message: `${place} is ${behind} offsets behind` });
      }
    }
    return blocking;
  }

  /** Empty: promoted. Otherwise what was in the way; writers are let go again. */
  async #switch(name: string): Promise<readonly Blocking[]> {
    const { context, topics, changes } = this.#parts;
    return changes.locks.run(name, async () => {
      const topic = topics.byName(name);
      const link = topic === undefined ? undefined : this.#parts.link(topic.link);
      if (topic === undefined || link === undefined || !isPromoting(topic.record)) return [];
      context.state.lease.check();
      const untilMs = context.clock.monotonicMs() + context.limits.switchMaxMs;
      topics.setPhase(name, 'SWITCHING');
      await link.feeds.hold(name);
      try {
        const confirm = this.#confirm(topic, link);
        return await within(confirm, untilMs - context.clock.monotonicMs());
      } finally {
        const isDone = changes.record(name)?.state === 'STOPPED';
        topics.setPhase(name, isDone ? null : 'DRAINING');
        link.release(name);
      }
    });
  }

  /** Reads only, so that it may be left behind when the time is over; `commit` is what switches. */
  async #confirm(
    topic: MirrorTopic,
    link: LinkRuntime,
  ): Promise<() => Promise<readonly Blocking[]>> {
    const { context } = this.#parts;
    const { ready, refused } = await measureSwitch(context.destination, [topic], { flush: true });
    const refusal = refused.get(topic.name);
    if (refusal !== undefined) return async () => [blockingOf(refusal)];
    const behind = await this.#lag(topic, link);
    const blocking = behind.length > 0 ? behind : openTransactions(topic);
    const measured = ready[0];
    if (blocking.length > 0 || measured === undefined) return async () => blocking;
    return async () => {
      const { record } = measured;
      const actor = record.stopping?.actor ?? 'causeway';
      const after = this.#parts.changes.next(record, 'promoted', {
        partitions: splicedPartitions(measured),
        stoppedBy: 'promote',
      });
      const receipt: ReceiptRecord = {
        kind: 'receipt',
        id: this.#parts.receiptId(),
        command: 'promote',
        actor,
        timeMs: context.clock.unixMs(),
        topics: [receiptTopic(measured, (index) => link.feeds.lag(record.name, index), true)],
      };
      await this.#parts.changes.commit([{ put: after }, { put: receipt }]);
      liftHolds(measured);
      this.#parts.topics.touch(record.name);
      this.#parts.changes.tell(record, after, { actor, why: `promoted, receipt ${receipt.id}` });
      return [];
    };
  }
}

/** The switch proper runs only when the confirmation came in time. */
async function within(
  confirm: Promise<() => Promise<readonly Blocking[]>>,
  limitMs: number,
): Promise<readonly Blocking[]> {
  const late = Symbol('late');
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<typeof late>((resolve) => {
    timer = setTimeout(() => resolve(late), Math.max(0, limitMs));
  });
  // A confirmation that fails after its time has nobody to tell.
  const outcome = confirm.then(
    (commit) => ({ commit }),
    (error: unknown) => ({ error }),
  );
  const first = await Promise.race([outcome, timeout]);
  clearTimeout(timer);
  if (first === late) {
    return [{ code: 'SWITCH_TIMEOUT', message: 'the ends could not be confirmed in time' }];
  }
  if ('error' in first) throw first.error;
  return first.commit();
}

export function isPromoting(record: TopicRecord): boolean {
  return record.state === 'PENDING_STOPPED' && record.stopping?.command === 'promote';
}

function openTransactions(topic: MirrorTopic): readonly Blocking[] {
  return topic.partitions.flatMap(({ partition, log }) =>
    (log?.openTransactions() ?? []).map(({ producerId, firstOffset }) => ({
      code: 'OPEN_TRANSACTION',
      message:
        `partition ${partition}: transaction of producer ${producerId} ` +
        `open since offset ${firstOffset}`,
    })),
  );
}

function codeOf(error: ClusterError | StateError): string {
  if (error instanceof StateError)
    return error.code === 'NOT_OWNER' ? 'NOT_OWNER' : 'STATE_UNAVAILABLE';
  return 'SOURCE_UNREACHABLE';
}

function blockingOf(error: LinkError): Blocking {
  return { code: error.code, message: error.message };
}

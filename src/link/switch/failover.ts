// Failover: topics are switched at once, from any state, without their source. Owns the order (stop
// fetching, flush, measure, record the cuts, ABORT batches, one state transaction, open) and its
// undoing. Refuses to know commands' syntax. Invariants: a topic is failed over only by the
// committed state transaction; whatever was prepared for one that was not committed is cut off
// before fetching goes on; one topic's failure never stops the others.
import { StorageError } from '../../../storage/errors.ts';
import { ClusterError } from '../../cluster/cluster.ts';
import type { ReceiptRecord, TopicRecord } from '../../state/records.ts';
import { StateError } from '../../state/state.ts';
import { weighedChunks } from '../../tasks/chunks.ts';
import type { LinkContext } from '../context.ts';
import type { LinkRuntime } from '../link.ts';
import { LinkError } from '../link-error.ts';
import { nextState } from '../mirror/mirror-state.ts';
import type { MirrorTopic, MirrorTopics } from '../mirror/mirror-topics.ts';
import type { WrittenShells } from '../mirror/shell-measure.ts';
import {
  appendAborts,
  cutsOf,
  hasMoved,
  hasOpenTransactions,
  liftHolds,
  type Measured,
  measureSwitch,
  type SwitchTopic,
  splicedPartitions,
} from '../mirror/splice.ts';
import { asLinkError, type TopicChanges } from '../mirror/topic-changes.ts';
import { forEachLimited } from '../signal.ts';
import { lostEnds, replaceLost } from './lost-logs.ts';
import { type ReceiptParts, receiptTopics } from './receipt.ts';
import { promisedGrants } from './write-grants.ts';

/** Each topic keeps its order; the others are measured while some are being committed. */
const batchesInFlight = 3;
/** Bounds a state transaction and its receipt. */
const batchPartitionsMax = 2_000;

export interface FailoverParts {
  readonly context: LinkContext;
  readonly topics: MirrorTopics;
  readonly changes: TopicChanges;
  /** Undefined when the link is gone. */
  readonly link: (name: string) => LinkRuntime | undefined;
  readonly receipts: ReceiptParts;
}

export interface FailoverResult {
  readonly errors: ReadonlyMap<string, LinkError>;
  readonly receipts: readonly ReceiptRecord[];
}

export interface FailoverRequest {
  readonly topics: readonly string[];
  readonly actor: string;
  readonly receiptId: string;
  readonly isDryRun: boolean;
  /** What becomes of records that were written into a shell past us. Default: refused. */
  readonly written?: WrittenShells;
  /** What is in mirror logs that cannot be used is given up. Default: refused. */
  readonly acceptLoss?: boolean;
}

export class Failover {
  readonly #context: LinkContext;
  readonly #topics: MirrorTopics;
  readonly #changes: TopicChanges;
  readonly #link: (name: string) => LinkRuntime | undefined;
  readonly #receipts: ReceiptParts;
  readonly #underWay = new Set<string>();
  /** Whose undoing has failed and was told. */
  readonly #undoPending = new Set<string>();

  constructor(parts: FailoverParts) {
    this.#context = parts.context;
    this.#topics = parts.topics;
    this.#changes = parts.changes;
    this.#link = parts.link;
    this.#receipts = parts.receipts;
  }

  async run(request: FailoverRequest): Promise<FailoverResult> {
    const errors = new Map<string, LinkError>();
    const receipts: (ReceiptRecord | null)[] = [];
    // Whoever cannot be failed over may be held by work that waits for a dead source: nobody is to
    // wait with it.
    const eligible = this.#eligible(request.topics, errors).map(({ name }) => name);
    const batches = [...this.#batches(eligible).entries()];
    await forEachLimited(batches, batchesInFlight, async ([index, names]) => {
      const id = index === 0 ? request.receiptId : `${request.receiptId}.${index + 1}`;
      receipts[index] = await this.#changes.locks.run(names, () =>
        request.isDryRun
          ? this.#dryRun(names, { ...request, receiptId: id }, errors)
          : this.#batch(names, { ...request, receiptId: id }, errors),
      );
    });
    return { errors, receipts: receipts.filter((receipt) => receipt !== null) };
  }

  /** Failovers that a crash or a lost destination left half done: undone, and fetching goes on. */
  async undoInterrupted(): Promise<void> {
    for (const { name, stopping } of this.#context.state.view.topics.values()) {
      if (stopping?.command !== 'failover' || this.#underWay.has(name)) continue;
      await this.#changes.locks.run(name, () => this.#tryUndo(name));
    }
  }

  /**
   * What an interrupted failover has left of a topic, before another command builds on it.
   * @throws StateError, StorageError while it cannot be undone
   */
  async undo(name: string): Promise<void> {
    if (this.#changes.record(name)?.stopping?.command !== 'failover') return;
    await this.#changes.locks.run(name, () => this.#undoRecord(name));
  }

  #batches(names: readonly string[]): string[][] {
    return weighedChunks(names, {
      itemsMax: this.#context.limits.switchBatchTopics,
      weightMax: batchPartitionsMax,
      weightOf: (name) => this.#topics.byName(name)?.partitionCount ?? 0,
    });
  }

  /** Topics that can be failed over now; the others get their error, or are done already. */
  #eligible(names: readonly string[], errors: Map<string, LinkError>): MirrorTopic[] {
    const eligible: MirrorTopic[] = [];
    for (const name of names) {
      const topic = this.#topics.byName(name);
      if (topic === undefined) {
        errors.set(name, new LinkError('MIRROR_NOT_FOUND', `There is no mirror '${name}'`));
      } else if (nextState(topic.record.state, 'failover') === null) {
        const message = `Topic '${name}' is ${topic.record.state}: it cannot be failed over`;
        errors.set(name, new LinkError('ILLEGAL_STATE', message));
      } else if (topic.record.state !== 'STOPPED') eligible.push(topic);
    }
    return eligible;
  }

  async #dryRun(
    names: readonly string[],
    request: FailoverRequest,
    errors: Map<string, LinkError>,
  ): Promise<ReceiptRecord | null> {
    const eligible = this.#eligible(names, errors);
    try {
      const { ready, refused } = await this.#measure(eligible, request);
      for (const [name, error] of refused) errors.set(name, error);
      return this.#receipt(ready, request, false);
    } catch (error) {
      const refusal = notFailedOver(error);
      for (const { name } of eligible) errors.set(name, refusal);
      return null;
    }
  }

  async #batch(
    names: readonly string[],
    request: FailoverRequest,
    errors: Map<string, LinkError>,
  ): Promise<ReceiptRecord | null> {
    const eligible = this.#eligible(names, errors);
    if (eligible.length === 0) return null;
    for (const { name } of eligible) this.#underWay.add(name);
    try {
      await this.#context.state.owned();
      await this.#close(eligible);
      const whole = await this.#undoEarlier(eligible, errors);
      const { ready, refused } = await this.#measure(whole, request);
      for (const [name, error] of refused) errors.set(name, error);
      return ready.length === 0 ? null : await this.#switch(ready, request, errors);
    } catch (error) {
      const refusal = notFailedOver(error);
      for (const { name } of eligible) {
        if (this.#changes.record(name)?.state !== 'STOPPED') errors.set(name, refusal);
      }
      this.#context.events.error('failover_failed', refusal.message, {
        topics: eligible.length,
        actor: request.actor,
      });
      return null;
    } finally {
      await this.#open(eligible);
    }
  }

  /**
   * A failover that was interrupted may have left its ABORT batches: they are not of the source,
   * and must not count as mirrored. Returns the topics without any.
   */
  async #undoEarlier(
    topics: readonly MirrorTopic[],
    errors: Map<string, LinkError>,
  ): Promise<readonly MirrorTopic[]> {
    const whole: MirrorTopic[] = [];
    for (const topic of topics) {
      if (topic.record.stopping?.command !== 'failover') {
        whole.push(topic);
        continue;
      }
      try {
        await this.#undoRecord(topic.name);
        whole.push(topic);
      } catch (error) {
        if (!(error instanceof StorageError)) throw error;
        errors.set(topic.name, notFailedOver(error));
      }
    }
    return whole;
  }

  async #measure(topics: readonly MirrorTopic[], request: FailoverRequest): Promise<Measured> {
    const { lag } = this.#receipts;
    return measureSwitch(this.#context.destination, topics, {
      flush: !request.isDryRun,
      written: request.written ?? 'refuse',
      ...(request.acceptLoss === true ? { lost: await lostEnds(this.#context, topics, lag) } : {}),
    });
  }

  /** Nothing is appended, and writers are held with a retriable error. */
  async #close(topics: readonly MirrorTopic[]): Promise<void> {
    for (const { name } of topics) this.#topics.setPhase(name, 'FAILING_OVER');
    await Promise.all(
      topics.map(async ({ name, link }) => {
        await this.#link(link)?.feeds.hold(name);
      }),
    );
  }

  async #open(topics: readonly MirrorTopic[]): Promise<void> {
    for (const { name, link } of topics) {
      const record = this.#changes.record(name);
      if (record?.stopping?.command === 'failover') await this.#tryUndo(name);
      this.#underWay.delete(name);
      this.#topics.setPhase(name, null);
      this.#link(link)?.release(name);
    }
  }

  /**
   * Cuts on record, ABORT batches behind them. Returns the topics that are ready to be committed.
   */
  async #closeTransactions(
    measured: readonly SwitchTopic[],
    actor: string,
    errors: Map<string, LinkError>,
  ): Promise<readonly SwitchTopic[]> {
    const withAborts = measured.filter(hasOpenTransactions);
    if (withAborts.length === 0) return measured;
    await this.#changes.commit(
      withAborts.map((topic) => {
        const cuts = cutsOf(topic);
        const stopping = { command: 'failover' as const, actor, deadlineTimeMs: -1, cuts };
        return { put: { ...topic.record, stopping } };
      }),
    );
    const unixMs = this.#context.clock.unixMs();
    const failed = new Set<SwitchTopic>();
    for (const topic of withAborts) {
      this.#context.state.lease.check();
      try {
        await appendAborts(topic, unixMs);
      } catch (error) {
        if (!(error instanceof StorageError)) throw error;
        errors.set(topic.record.name, notFailedOver(error));
        failed.add(topic);
      }
    }
    return measured.filter((topic) => !failed.has(topic));
  }

  /** Checked once more, since a link that was just deleted is not there to be held. */
  #isStill(topic: SwitchTopic, errors: Map<string, LinkError>): boolean {
    if (!hasMoved(topic)) return true;
    const { name } = topic.record;
    const message = `the copy of '${name}' moved while its end was measured: try again`;
    errors.set(name, notFailedOver(new LinkError('ILLEGAL_STATE', message)));
    return false;
  }

  async #switch(
    measured: readonly SwitchTopic[],
    request: FailoverRequest,
    errors: Map<string, LinkError>,
  ): Promise<ReceiptRecord | null> {
    const closed = await this.#closeTransactions(measured, request.actor, errors);
    const ready = closed.filter((topic) => this.#isStill(topic, errors));
    if (ready.length === 0) return null;
    for (const topic of ready) {
      await replaceLost(topic, { context: this.#context, topics: this.#topics });
    }
    const after = ready.map((topic) =>
      this.#changes.next(topic.record, 'failover', {
        partitions: splicedPartitions(topic),
        stoppedBy: 'failover',
      }),
    );
    const receipt = this.#receipt(ready, request, true);
    const grants = promisedGrants(this.#context.state.view, after);
    const puts = [...after, ...grants, receipt];
    await this.#changes.commit(puts.map((put) => ({ put })));
    for (const [index, topic] of ready.entries()) {
      liftHolds(topic);
      this.#topics.touch(topic.record.name);
      const record = after[index];
      if (record !== undefined) {
        const audit = { actor: request.actor, why: `failover, receipt ${request.receiptId}` };
        this.#changes.tell(topic.record, record, audit);
      }
      this.#tellLeftOut(topic.record, request);
    }
    return receipt;
  }

  /** The receipt is of the partitions that were mirrored. */
  #tellLeftOut({ name, link, partitions }: TopicRecord, request: FailoverRequest): void {
    const growth = this.#link(link)?.growth.of(name) ?? null;
    if (growth === null) return;
    const { sourcePartitions } = growth;
    this.#context.events.error(
      'failover_partitions_left_out',
      `Topic '${name}' was failed over with ${partitions.length} of the ${sourcePartitions} ` +
        'partitions of its source: what the others hold was not mirrored, and is in no receipt',
      { topic: name, link, actor: request.actor, receipt: request.receiptId, sourcePartitions },
    );
  }

  /**
   * A switch whose outcome is not known, or is no longer ours to know, may be committed: then S
   * lies above the cuts, and cutting would take from a promoted topic.
   * @throws StateError NOT_OWNER, IN_DOUBT
   */
  #checkUndoable(name: string): void {
    const { state } = this.#context;
    state.lease.check();
    if (!state.isSettled || state.isInDoubt(name)) {
      throw new StateError('IN_DOUBT', 'whether it was failed over is not known yet');
    }
  }

  /** What cannot be undone now is tried again by undoInterrupted, and holds up no other topic. */
  async #tryUndo(name: string): Promise<void> {
    try {
      await this.#undoRecord(name);
      this.#undoPending.delete(name);
    } catch (error) {
      if (!(error instanceof StateError || error instanceof StorageError)) throw error;
      // Until then the record forbids fetching (link.ts), and the log's hold hides what was
      // appended.
      if (this.#undoPending.has(name)) return;
      this.#undoPending.add(name);
      const message = `'${name}' is not undone yet: ${error.message}`;
      this.#context.events.warn('failover_undo_pending', message, { topic: name });
    }
  }

  /** Cuts what was appended for a switch that did not happen, then forgets about it. */
  async #undoRecord(name: string): Promise<void> {
    this.#checkUndoable(name);
    const record = this.#changes.record(name);
    const topic = this.#topics.byName(name);
    if (record?.stopping?.command !== 'failover' || topic === undefined) return;
    const { stopping, ...rest } = record;
    for (const { partition, offset } of stopping.cuts) {
      const log = topic.partition(partition)?.log;
      if (log === null || log === undefined) continue;
      this.#checkUndoable(name);
      if (log.end > offset) await log.truncate(offset);
    }
    const after: TopicRecord =
      record.state === 'PENDING_STOPPED' ? this.#changes.next(record, 'cancel') : { ...rest };
    await this.#changes.commit([{ put: after }]);
    for (const { log } of topic.partitions) log?.hold(null);
    this.#context.events.warn(
      'failover_undone',
      `Topic '${record.name}' was NOT failed over: its failover was interrupted; mirroring goes on`,
      { topic: record.name, link: record.link },
    );
  }

  #receipt(
    topics: readonly SwitchTopic[],
    request: FailoverRequest,
    isDone: boolean,
  ): ReceiptRecord {
    return {
      kind: 'receipt',
      id: request.receiptId,
      command: 'failover',
      actor: request.actor,
      timeMs: this.#context.clock.unixMs(),
      topics: receiptTopics(topics, this.#receipts, { command: 'failover', isDone }),
    };
  }
}

function notFailedOver(error: unknown): LinkError {
  if (error instanceof StateError || error instanceof LinkError) {
    const cause = asLinkError(error);
    return new LinkError(cause.code, `NOT FAILED OVER: ${cause.message}`, { cause: error });
  }
  if (error instanceof ClusterError) {
    return new LinkError(
      'DESTINATION_REFUSED',
      `NOT FAILED OVER: the destination does not answer: ${error.message}`,
      { cause: error },
    );
  }
  if (error instanceof StorageError) {
    return new LinkError('STORAGE_ERROR', `NOT FAILED OVER: ${error.message}`, { cause: error });
  }
  throw error;
}

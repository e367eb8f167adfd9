// promote, failover, pause, resume and cancel, as they are asked for: the checks that come before
// and the rows that come after. Refuses to know how promotion and failover work. Invariant: a
// topic's failure is in its own row, and only what is all or none stops others.
import { randomBytes } from 'node:crypto';
import { StorageError } from '../../storage/errors.ts';
import { ClusterError } from '../cluster/cluster.ts';
import type { ReceiptRecord } from '../state/records.ts';
import type { LinkTasks } from '../tasks/link-tasks.ts';
import type { LinkContext } from './context.ts';
import { LinkError } from './link-error.ts';
import type { Links } from './links.ts';
import { nextState } from './mirror/mirror-state.ts';
import type { MirrorTopic, MirrorTopics } from './mirror/mirror-topics.ts';
import { measureSwitch } from './mirror/splice.ts';
import { asLinkError, type TopicChanges } from './mirror/topic-changes.ts';
import type { MirrorStatuses } from './mirror-statuses.ts';
import type { MirrorCommandRequest, MirrorCommandResult, MirrorCommandRow } from './service.ts';
import { forEachLimited } from './signal.ts';
import type { Failover } from './switch/failover.ts';
import { isPromoting, type Promotions } from './switch/promote.ts';
import {
  hasSingleCopy,
  historyCopies,
  type ReceiptParts,
  receiptTopics,
} from './switch/receipt.ts';
import type { SourceFence } from './switch/source-fence.ts';

const groupsAfterSwitchMs = 500;
/** Topics of one command that are dealt with at once: their commits go together. */
const commandsInFlight = 64;
const deadlineMsMax = 7 * 24 * 3600 * 1000;

export interface MirrorCommandsParts {
  readonly context: LinkContext;
  readonly topics: MirrorTopics;
  readonly statuses: MirrorStatuses;
  readonly changes: TopicChanges;
  readonly links: Links<LinkTasks>;
  readonly promotions: Promotions;
  readonly failover: Failover;
  readonly fence: SourceFence;
  readonly receipts: ReceiptParts;
}

export function newReceiptId(): string {
  return randomBytes(9).toString('base64url');
}

/** Everything that a command may end with becomes a LinkError; faults of ours pass through. */
export async function asCommand<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof ClusterError) {
      throw new LinkError('DESTINATION_REFUSED', error.message, { cause: error });
    }
    if (error instanceof StorageError) {
      throw new LinkError('STORAGE_ERROR', error.message, { cause: error });
    }
    throw asLinkError(error);
  }
}

/** A receipt of several records (`ID`, `ID.2`, ...), as one, under the id of all of it. */
export function mergedReceipts(receipts: readonly ReceiptRecord[]): ReceiptRecord {
  const [first] = receipts;
  if (first === undefined) throw new TypeError('no receipt');
  const [id = first.id] = first.id.split('.');
  return { ...first, id, topics: receipts.flatMap(({ topics }) => topics) };
}

/** By the id of all of it or of a part. A part that is not there is of topics that failed. */
export function wholeReceipt(
  receipts: ReadonlyMap<string, ReceiptRecord>,
  asked: string,
): ReceiptRecord | undefined {
  const [id = asked] = asked.split('.');
  const partOf = (record: ReceiptRecord) => Number(record.id.slice(id.length + 1) || 1);
  const parts = [...receipts.values()]
    .filter((record) => record.id === id || record.id.startsWith(`${id}.`))
    .sort((one, other) => partOf(one) - partOf(other));
  return parts.length === 0 ? undefined : mergedReceipts(parts);
}

/** The topics of one request, and what is wrong with each that cannot go on. */
interface Asked {
  readonly names: readonly string[];
  readonly known: readonly string[];
  readonly errors: Map<string, LinkError>;
}

export class MirrorCommands {
  readonly #parts: MirrorCommandsParts;

  constructor(parts: MirrorCommandsParts) {
    this.#parts = parts;
  }

  async run(request: MirrorCommandRequest): Promise<MirrorCommandResult> {
    const names = [...new Set(request.topics)];
    const errors = new Map<string, LinkError>();
    const known = names.filter((name) => {
      const error = this.#parts.statuses.wrongName(name, request.link);
      if (error !== null) errors.set(name, error);
      return error === null;
    });
    const asked = { names, known, errors };
    if (request.command === 'failover') return asCommand(() => this.#failover(request, asked));
    if (request.atomic === true && request.command === 'promote') {
      return asCommand(() => this.#promoteTogether(request, asked));
    }
    await forEachLimited(known, commandsInFlight, (name) => this.#attempt(name, request, errors));
    return this.#done(request, asked);
  }

  /** A dry run of a promotion has the receipt as it would be now. */
  async #done(request: MirrorCommandRequest, asked: Asked): Promise<MirrorCommandResult> {
    if (request.command !== 'promote' || !request.validateOnly) return this.#result(asked);
    return asCommand(() => this.#previewPromotion(request, asked));
  }

  async #previewPromotion(
    request: MirrorCommandRequest,
    asked: Asked,
  ): Promise<MirrorCommandResult> {
    const { context, receipts, topics } = this.#parts;
    const mirrors = asked.known
      .filter((name) => !asked.errors.has(name))
      .flatMap((name) => topics.byName(name) ?? [])
      .filter(({ record }) => record.state !== 'STOPPED');
    if (mirrors.length === 0) return this.#result(asked);
    const { ready, refused } = await measureSwitch(context.destination, mirrors, {
      flush: false,
      written: 'refuse',
    });
    for (const [name, error] of refused) asked.errors.set(name, error);
    return this.#result(asked, {
      kind: 'receipt',
      id: newReceiptId(),
      command: 'promote',
      actor: request.actor,
      timeMs: context.clock.unixMs(),
      topics: receiptTopics(ready, receipts, { command: 'promote', isDone: false }),
    });
  }

  #result({ names, errors }: Asked, receipt: ReceiptRecord | null = null): MirrorCommandResult {
    return { rows: names.map((name) => this.#row(name, errors)), receipt };
  }

  #row(name: string, errors: ReadonlyMap<string, LinkError>): MirrorCommandRow {
    const topic = this.#parts.topics.byName(name);
    const error = errors.get(name) ?? null;
    if (topic === undefined) return { topic: name, error, state: null, partitions: [] };
    const { state, partitions } = this.#parts.statuses.of(topic);
    return { topic: name, error, state, partitions };
  }

  async #attempt(
    name: string,
    request: MirrorCommandRequest,
    errors: Map<string, LinkError>,
  ): Promise<void> {
    try {
      await asCommand(() => this.#one(name, request));
    } catch (error) {
      if (!(error instanceof LinkError)) throw error;
      errors.set(name, error);
    }
  }

  /** promote, pause, resume, cancel of one topic. */
  async #one(name: string, request: MirrorCommandRequest): Promise<void> {
    const { command, actor, validateOnly } = request;
    const topic = this.#parts.statuses.topic(name);
    if (command === 'failover') return;
    const shown = this.#parts.statuses.shown(topic);
    const next = nextState(shown, command);
    if (next === null) {
      const message = `Topic '${name}' is ${shown}: '${command}' is not possible`;
      throw new LinkError('ILLEGAL_STATE', message);
    }
    if (command === 'promote') {
      if (next === 'STOPPED' || topic.record.state === 'PENDING_STOPPED') return;
      this.#checkPromotable(topic, request);
      if (request.fenceSource === true) await this.#parts.fence.check(topic.record);
    }
    if (command === 'cancel' && topic.record.stopping?.command === 'failover') {
      throw new LinkError('ILLEGAL_STATE', `Topic '${name}' is being failed over`);
    }
    if (validateOnly || next === topic.record.state) return;
    await this.#parts.context.state.owned();
    if (command === 'cancel') {
      await this.#parts.promotions.cancel(name, { actor, why: command });
      this.#checkCancelled(name);
      return;
    }
    const stopping = command === 'promote' ? { stopping: this.#stopping(request) } : {};
    if (command === 'promote') await this.#parts.failover.undo(name);
    await this.#parts.changes.apply(name, command, { actor, why: command }, () => stopping);
    if (command === 'promote') this.#parts.promotions.start(name);
  }

  /** Its switch, or its failure, may have come first. */
  #checkCancelled(name: string): void {
    const state = this.#parts.changes.record(name)?.state;
    if (state === undefined || nextState(state, 'cancel') !== null) return;
    throw new LinkError('ILLEGAL_STATE', `Topic '${name}' is ${state}: the cancel came too late`);
  }

  #stopping(request: MirrorCommandRequest) {
    const { context } = this.#parts;
    const deadlineMs = request.deadlineMs ?? context.limits.promoteDeadlineMs;
    if (!(deadlineMs > 0 && deadlineMs <= deadlineMsMax)) {
      throw new LinkError('INVALID_CONFIG', `A deadline of ${deadlineMs} ms is not possible`);
    }
    return {
      command: 'promote' as const,
      actor: request.actor,
      deadlineTimeMs: context.clock.unixMs() + deadlineMs,
      cuts: [],
      ...(request.fenceSource === true ? { fenceSource: true as const } : {}),
    };
  }

  #checkPromotable(topic: MirrorTopic, request: MirrorCommandRequest): void {
    if (topic.partitionCount === 0) {
      throw new LinkError('ILLEGAL_STATE', `Topic '${topic.name}' has no partitions yet`);
    }
    if (request.requireReplicated !== true || !hasSingleCopy(topic)) return;
    const message =
      `Of what '${topic.name}' has below S there is ${historyCopies} copy, in the storage of ` +
      'Causeway: it would not be replicated (--require-replicated)';
    throw new LinkError('ILLEGAL_STATE', message);
  }

  /** All are taken on by one state transaction, or none is. */
  async #promoteTogether(
    request: MirrorCommandRequest,
    asked: Asked,
  ): Promise<MirrorCommandResult> {
    const { known, errors } = asked;
    for (const name of known) await this.#attempt(name, { ...request, validateOnly: true }, errors);
    const [refused] = errors.keys();
    if (refused !== undefined) {
      const message = `'${refused}' cannot be promoted, and it is all or none`;
      for (const name of known) {
        if (!errors.has(name)) errors.set(name, new LinkError('ATOMIC_REFUSED', message));
      }
      return this.#result(asked);
    }
    if (request.validateOnly) return this.#done(request, asked);
    for (const name of known) await this.#parts.failover.undo(name);
    await this.#acceptTogether(request, known);
    for (const name of known) this.#parts.promotions.start(name);
    return this.#result(asked);
  }

  async #acceptTogether(request: MirrorCommandRequest, names: readonly string[]): Promise<void> {
    const { changes, context } = this.#parts;
    if (names.length > context.limits.switchBatchTopics) {
      const message = `At most ${context.limits.switchBatchTopics} topics can go together`;
      throw new LinkError('INVALID_CONFIG', message);
    }
    await changes.locks.run(names, async () => {
      const before = names.flatMap((name) => changes.record(name) ?? []);
      const pending = before.filter(({ state }) => state !== 'STOPPED');
      if (pending.some(isPromoting)) {
        throw new LinkError('ILLEGAL_STATE', 'One of the topics is being promoted already');
      }
      await context.state.owned();
      const atomic = { id: newReceiptId(), count: pending.length };
      const stopping = { ...this.#stopping(request), atomic };
      const after = pending.map((record) => changes.next(record, 'promote', { stopping }));
      await changes.commit(after.map((put) => ({ put })));
      const audit = { actor: request.actor, why: 'promote, all or none' };
      for (const [index, record] of pending.entries()) {
        const next = after[index];
        if (next !== undefined) changes.tell(record, next, audit);
      }
    });
  }

  async #failover(request: MirrorCommandRequest, asked: Asked): Promise<MirrorCommandResult> {
    const { known, errors } = asked;
    const ends = [...this.#byLink(known)].map(([link, own]) =>
      this.#parts.links.entry(link)?.tasks.groups.switching(own),
    );
    try {
      const { errors: failures, receipts } = await this.#parts.failover.run({
        topics: known,
        actor: request.actor,
        receiptId: newReceiptId(),
        isDryRun: request.validateOnly,
        ...(request.written === undefined ? {} : { written: request.written }),
        ...(request.acceptLoss === undefined ? {} : { acceptLoss: request.acceptLoss }),
      });
      for (const [name, error] of failures) errors.set(name, error);
      if (!request.validateOnly) await this.#finishGroups(known);
      return this.#result(asked, receipts.length === 0 ? null : mergedReceipts(receipts));
    } finally {
      for (const end of ends) end?.();
    }
  }

  /**
   * Offsets that were clamped to the old end are written once more; bounded, since it is a service
   * only.
   */
  async #finishGroups(names: readonly string[]): Promise<void> {
    const { topics, links } = this.#parts;
    const switched = names.filter((name) => topics.byName(name)?.record.state === 'STOPPED');
    await Promise.all(
      [...this.#byLink(switched)].map(([link, own]) =>
        links.entry(link)?.tasks.groups.finish(own, groupsAfterSwitchMs),
      ),
    );
  }

  #byLink(names: readonly string[]): ReadonlyMap<string, readonly string[]> {
    const byLink = new Map<string, string[]>();
    for (const name of names) {
      const topic = this.#parts.topics.byName(name);
      if (topic === undefined) continue;
      const own = byLink.get(topic.link);
      if (own) own.push(name);
      else byLink.set(topic.link, [name]);
    }
    return byLink;
  }
}

// Promotion: a mirror becomes an ordinary topic with nothing lost. One run per topic, or per set of
// topics that go all or none: draining until lag is zero twice over a quiet source, open
// transactions ended, group offsets and configs final, then a short switch in which writers are
// held and everything is confirmed once more. Refuses to know commands' syntax. Invariants: it
// switches only on ends of the mirrored topic that were read at the source after fetching has
// stopped; it ends by its deadline; a set is switched by one state transaction or not at all; a
// restart goes on with it.
import { ClusterError } from '../../cluster/cluster.ts';
import type { ReceiptRecord, TopicRecord } from '../../state/records.ts';
import { StateError } from '../../state/state.ts';
import type { LinkContext } from '../context.ts';
import type { LinkRuntime } from '../link.ts';
import { isOperatingError, type LinkError } from '../link-error.ts';
import type { MirrorTopic, MirrorTopics, TopicPhase } from '../mirror/mirror-topics.ts';
import {
  liftHolds,
  type Measured,
  measureSwitch,
  type SwitchTopic,
  splicedPartitions,
} from '../mirror/splice.ts';
import type { TopicChanges } from '../mirror/topic-changes.ts';
import { forEachLimited, messageOf, Signal } from '../signal.ts';
import { type Blocking, blocking, withRemedy } from './blocking.ts';
import { openTransactions, SourceLooks, SourceQuiet, stillWriting } from './promotion-look.ts';
import { type ReceiptParts, receiptTopics } from './receipt.ts';
import type { SourceFence } from './source-fence.ts';
import { promisedGrants } from './write-grants.ts';

const checkMs = 150;
const blockedCheckMs = 500;
/** Zero lag in so many looks in a row. */
const zeroesWanted = 2;
const topicsNamed = 3;
/** Topics of a set whose final offsets are asked for at once. */
const finalsInFlight = 100;
/** With only these in the way there is no lag. */
const drainedCodes = new Set(['TRANSACTION_OPEN', 'PRODUCERS_WRITING']);

export interface PromotionParts {
  readonly context: LinkContext;
  readonly topics: MirrorTopics;
  readonly changes: TopicChanges;
  readonly link: (name: string) => LinkRuntime | undefined;
  /**
   * Brings the groups' offsets of a topic up to the source's; what it returns stands in the way.
   */
  readonly finalGroups: (
    link: string,
    topic: string,
  ) => Promise<readonly { code: string; message: string }[]>;
  readonly fence: Pick<SourceFence, 'raise'>;
  readonly receiptId: () => string;
  readonly receipts: ReceiptParts;
}

type Reasons = ReadonlyMap<string, readonly Blocking[]>;

interface Run {
  readonly names: readonly string[];
  /** Which promotion of them it is: one that was taken back and asked for again is another. */
  readonly attempt: string;
  reasons: Reasons;
  readonly quiet: ReadonlyMap<string, SourceQuiet>;
  readonly signal: Signal;
  /** Why a confirmation failed whose switch had not waited for its end. */
  lateCause: string | null;
  done: Promise<void>;
}

export class Promotions {
  readonly #parts: PromotionParts;
  /** By topic; the topics of a set share one. */
  readonly #runs = new Map<string, Run>();
  readonly #looks: SourceLooks;
  #isClosed = false;

  constructor(parts: PromotionParts) {
    this.#parts = parts;
    this.#looks = new SourceLooks({ ...parts.context, link: parts.link });
  }

  /** What keeps a promotion from going on, as of its last look. */
  blocking(topic: string): readonly Blocking[] {
    const run = this.#runs.get(topic);
    if (run === undefined) return [];
    const own = run.reasons.get(topic) ?? [];
    if (own.length > 0) return own;
    const others = run.names.filter((name) => (run.reasons.get(name)?.length ?? 0) > 0);
    if (others.length === 0) return [];
    const named = others.slice(0, topicsNamed).join(', ');
    const message = `goes only together with ${others.length} topics that are not ready (${named})`;
    return [blocking('ATOMIC_WAITING', message)];
  }

  /** The record is PENDING_STOPPED for a promotion: goes on with it. Idempotent. */
  start(topic: string): void {
    const record = this.#parts.changes.record(topic);
    if (record === undefined || !isPromoting(record) || this.#isClosed) return;
    const attempt = attemptOf(record);
    if (this.#runs.get(topic)?.attempt === attempt) return;
    const names = this.#setOf(record).map(({ name }) => name);
    const before = names.flatMap((name) => this.#runs.get(name) ?? []);
    // Those of an earlier attempt look at once, end, and begin this one.
    for (const run of before) run.signal.notify();
    if (before.length > 0) return;
    const { clock } = this.#parts.context;
    const run: Run = {
      names,
      attempt,
      reasons: new Map(),
      quiet: new Map(names.map((name) => [name, new SourceQuiet(clock)])),
      signal: new Signal(),
      lateCause: null,
      done: Promise.resolve(),
    };
    for (const name of names) this.#runs.set(name, run);
    this.#setPhase(run, 'DRAINING');
    run.done = this.#run(run)
      .catch((error: unknown) => {
        this.#parts.context.events.error('promotion_fault', messageOf(error), { topic });
      })
      .finally(() => {
        for (const name of names) this.#runs.delete(name);
        this.#setPhase(run, null);
        this.#startNext(run);
      });
  }

  /** Attempts at the same topics that were asked for while the run was ending. */
  #startNext({ names, attempt }: Run): void {
    for (const name of names) {
      const record = this.#parts.changes.record(name);
      if (record !== undefined && attemptOf(record) !== attempt) this.start(name);
    }
  }

  /** Promotions that a restart has interrupted. */
  resume(): void {
    for (const record of this.#parts.context.state.view.topics.values()) {
      if (isPromoting(record)) this.start(record.name);
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const runs = [...new Set(this.#runs.values())];
    for (const run of runs) run.signal.notify();
    await Promise.all(runs.map((run) => run.done));
  }

  /** Takes a promotion back, with all that would have gone together with it. */
  async cancel(topic: string, audit: { actor: string; why: string }): Promise<void> {
    const record = this.#parts.changes.record(topic);
    if (record === undefined) return;
    const names = this.#setOf(record).map(({ name }) => name);
    await this.#cancel({ names, attempt: attemptOf(record) }, audit);
    for (const name of names) this.#runs.get(name)?.signal.notify();
  }

  #setPhase(run: Run, phase: TopicPhase | null): void {
    for (const name of run.names) {
      const now = this.#parts.topics.byName(name)?.phase;
      // A failover that has overtaken us has a phase of its own.
      if (now !== 'FAILING_OVER') this.#parts.topics.setPhase(name, phase);
    }
  }

  /** All promotions that carry the same id, or the one. */
  #setOf(record: TopicRecord): readonly TopicRecord[] {
    const id = record.stopping?.atomic?.id;
    if (id === undefined) return [record];
    return [...this.#parts.context.state.view.topics.values()].filter(
      (other) => isPromoting(other) && other.stopping?.atomic?.id === id,
    );
  }

  /** The records that are still of this attempt. */
  #recordsOf({ names, attempt }: Pick<Run, 'names' | 'attempt'>): readonly TopicRecord[] {
    return names
      .flatMap((name) => this.#parts.changes.record(name) ?? [])
      .filter((record) => isPromoting(record) && attemptOf(record) === attempt);
  }

  async #cancel(
    run: Pick<Run, 'names' | 'attempt'>,
    audit: { actor: string; why: string },
  ): Promise<void> {
    const { changes } = this.#parts;
    await changes.locks.run(run.names, async () => {
      const before = this.#recordsOf(run);
      const after = before.map((record) => changes.next(record, 'cancel'));
      await changes.commit(after.map((put) => ({ put })));
      for (const [index, record] of before.entries()) {
        const next = after[index];
        if (next !== undefined) changes.tell(record, next, audit);
      }
    });
  }

  async #run(run: Run): Promise<void> {
    const { context } = this.#parts;
    let zeroes = 0;
    // What a final round found is shown until the next one, also while there is no lag.
    let isFinal = false;
    while (!this.#isClosed) {
      try {
        const records = await this.#stillWanted(run);
        if (records === null) return;
        const fenced = await this.#fence(records);
        const looked = isClear(fenced) ? await this.#look(run) : fenced;
        zeroes = isClear(looked) ? zeroes + 1 : 0;
        if (zeroes === 0) isFinal = false;
        if (!isFinal) run.reasons = looked;
        if (zeroes >= zeroesWanted) {
          zeroes = 0;
          isFinal = true;
          this.#setPhase(run, 'FINAL_OFFSETS');
          run.reasons = await this.#finalGroups(records);
          if (isClear(run.reasons)) {
            run.reasons = await this.#switch(run);
            if (isClear(run.reasons)) return;
          }
        }
      } catch (error) {
        if (!(error instanceof ClusterError || error instanceof StateError)) throw error;
        zeroes = 0;
        isFinal = false;
        const reason = reasonOf(error);
        run.reasons = new Map(run.names.map((name) => [name, [reason]] as const));
      }
      if (!context.state.lease.isValid()) zeroes = 0;
      this.#setPhase(run, phaseOf(run.reasons));
      await run.signal.wait(zeroes > 0 || isClear(run.reasons) ? checkMs : blockedCheckMs);
    }
  }

  /** Null: it is over, by its deadline or because one of the set has left it. */
  async #stillWanted(run: Run): Promise<readonly TopicRecord[] | null> {
    const records = this.#recordsOf(run);
    const [first] = records;
    if (first === undefined) return null;
    const wanted = first.stopping?.atomic?.count ?? 1;
    if (records.length < wanted) {
      const why = `${wanted - records.length} of the ${wanted} topics that go together have left`;
      await this.#cancel(run, { actor: 'causeway', why });
      return null;
    }
    if (!this.#isTooLate(records)) return records;
    const reasons = [...run.reasons].flatMap(([name, own]) =>
      own.map(({ code, message }) => `${code} (${wanted > 1 ? `${name}: ` : ''}${message})`),
    );
    const cause = reasons.slice(0, topicsNamed).join('; ') || 'no time left';
    const why = `promotion not finished by its deadline: ${cause}`;
    await this.#cancel(run, { actor: 'causeway', why });
    return null;
  }

  #isTooLate([first]: readonly TopicRecord[]): boolean {
    return this.#parts.context.clock.unixMs() >= (first?.stopping?.deadlineTimeMs ?? 0);
  }

  async #fence(records: readonly TopicRecord[]): Promise<Reasons> {
    const reasons = new Map<string, readonly Blocking[]>();
    for (const { name } of records) reasons.set(name, await this.#parts.fence.raise(name));
    return reasons;
  }

  async #finalGroups(records: readonly TopicRecord[]): Promise<Reasons> {
    const reasons = new Map<string, readonly Blocking[]>();
    await forEachLimited(records, finalsInFlight, async ({ link, name }) => {
      reasons.set(name, (await this.#parts.finalGroups(link, name)).map(withRemedy));
    });
    return reasons;
  }

  /** Fresh ends of the source, whether it is quiet, and transactions that are open. */
  async #look(run: Run): Promise<Reasons> {
    const topics = run.names.flatMap((name) => this.#parts.topics.byName(name) ?? []);
    const lags = await this.#looks.ask(topics, run.quiet);
    return new Map(
      topics.map((topic) => {
        const lag = lags.get(topic.name) ?? [];
        const quiet = run.quiet.get(topic.name);
        const busy = quiet === undefined ? [] : stillWriting(quiet, this.#quietMs(topic));
        // While there is lag, which transactions are open is not known yet.
        const open = lag.length > 0 ? [] : openTransactions(topic);
        return [topic.name, [...lag, ...open, ...busy]] as const;
      }),
    );
  }

  #quietMs(topic: MirrorTopic): number {
    const { limits } = this.#parts.context;
    return this.#parts.link(topic.link)?.settings.promoteQuietMs ?? limits.promoteQuietMs;
  }

  /** No reasons: promoted, or no longer wanted. Otherwise writers are let go again. */
  async #switch(run: Run): Promise<Reasons> {
    const { context, topics, changes } = this.#parts;
    return changes.locks.run(run.names, async () => {
      const members = run.names.flatMap((name) => topics.byName(name) ?? []);
      const isWhole = members.length === run.names.length;
      const records = this.#recordsOf(run);
      if (!isWhole || records.length < members.length) return new Map();
      // Waiting for groups, or for the locks, may have taken until then.
      if (this.#isTooLate(records)) return timedOut(run, 'the deadline came before the switch');
      context.state.lease.check();
      const untilMs = context.clock.monotonicMs() + context.limits.switchMaxMs;
      this.#setPhase(run, 'SWITCHING');
      // What is being appended yet is waited for, by writers no longer than by the switch.
      const limit = setTimeout(() => this.#refuseWriters(members), context.limits.switchMaxMs);
      try {
        await Promise.all(
          members.map(({ name, link }) => this.#parts.link(link)?.feeds.hold(name)),
        );
        return await this.#within(untilMs, this.#confirm(members, run), run);
      } finally {
        clearTimeout(limit);
        for (const { name, link } of members) {
          const isDone = changes.record(name)?.state === 'STOPPED';
          topics.setPhase(name, isDone ? null : 'DRAINING');
          this.#parts.link(link)?.release(name);
        }
      }
    });
  }

  /** The switch proper runs only when the confirmation came in time. */
  async #within(
    untilMs: number,
    confirm: Promise<() => Promise<Reasons>>,
    run: Run,
  ): Promise<Reasons> {
    const late = Symbol('late');
    let timer: NodeJS.Timeout | undefined;
    const limitMs = Math.max(0, untilMs - this.#parts.context.clock.monotonicMs());
    const timeout = new Promise<typeof late>((resolve) => {
      timer = setTimeout(() => resolve(late), limitMs);
    });
    const outcome = confirm.then(
      (commit) => ({ commit }),
      (error: unknown) => ({ error }),
    );
    const first = await Promise.race([outcome, timeout]);
    clearTimeout(timer);
    if (first === late) {
      void outcome.then((ended) => {
        if ('error' in ended) this.#tellLate(run, ended.error);
      });
      const before = run.lateCause === null ? '' : `; the one before: ${run.lateCause}`;
      return timedOut(run, `the ends could not be confirmed in time${before}`);
    }
    if ('error' in first) throw first.error;
    return first.commit();
  }

  /** The switch was given up, and nobody waits for its cause any more; each cause is told once. */
  #tellLate(run: Run, error: unknown): void {
    const isExpected = isOperatingError(error);
    const cause = isExpected ? `${error.code}: ${error.message}` : messageOf(error);
    if (cause === run.lateCause) return;
    run.lateCause = cause;
    const [topic = ''] = run.names;
    const more = run.names.length > 1 ? ` and ${run.names.length - 1} more` : '';
    const message =
      `The switch of '${topic}'${more} was given up when its time was over; what confirms the ` +
      `ends has failed since: ${cause}`;
    const { events } = this.#parts.context;
    if (isExpected) events.warn('promotion_switch_failed_late', message, { topic });
    else events.error('promotion_fault', message, { topic });
  }

  /** The state may take its time to say whether it is done: nobody is held for that. */
  #refuseWriters(members: readonly MirrorTopic[]): void {
    for (const { name, phase } of members) {
      if (phase === 'SWITCHING') this.#parts.topics.setPhase(name, 'DRAINING');
    }
  }

  /** Reads only, so that it may be left behind when the time is over; `commit` is what switches. */
  async #confirm(members: readonly MirrorTopic[], run: Run): Promise<() => Promise<Reasons>> {
    const measure = await this.#measure(members);
    if (measure === null) {
      const reason = blocking('DESTINATION_UNREACHABLE', 'the shell topics cannot be read');
      return async () => new Map(members.map(({ name }) => [name, [reason]] as const));
    }
    const { ready, refused } = measure;
    const reasons = new Map<string, readonly Blocking[]>(
      [...refused].map(([name, error]) => [name, [refusalOf(error)]] as const),
    );
    const measured = members.filter(({ name }) => !refused.has(name));
    for (const [name, own] of await this.#looks.last(measured, run.quiet)) reasons.set(name, own);
    for (const topic of measured) {
      const open = openTransactions(topic);
      if (open.length > 0) reasons.set(topic.name, open);
    }
    if (!isClear(reasons) || ready.length < members.length) return async () => reasons;
    return () => this.#commit(ready);
  }

  async #measure(members: readonly MirrorTopic[]): Promise<Measured | null> {
    try {
      const { destination } = this.#parts.context;
      return await measureSwitch(destination, members, { flush: true, written: 'refuse' });
    } catch (error) {
      if (!(error instanceof ClusterError)) throw error;
      return null;
    }
  }

  /** One state transaction for all topics of the run. */
  async #commit(ready: readonly SwitchTopic[]): Promise<Reasons> {
    const { changes, topics, context } = this.#parts;
    const actor = ready[0]?.record.stopping?.actor ?? 'causeway';
    const after = ready.map((measured) =>
      changes.next(measured.record, 'promoted', {
        partitions: splicedPartitions(measured),
        stoppedBy: 'promote',
      }),
    );
    const receipt: ReceiptRecord = {
      kind: 'receipt',
      id: this.#parts.receiptId(),
      command: 'promote',
      actor,
      timeMs: context.clock.unixMs(),
      topics: receiptTopics(ready, this.#parts.receipts, { command: 'promote', isDone: true }),
    };
    const grants = promisedGrants(context.state.view, after);
    await changes.commit([...after, ...grants, receipt].map((put) => ({ put })));
    for (const [index, measured] of ready.entries()) {
      liftHolds(measured);
      topics.touch(measured.record.name);
      const next = after[index];
      const audit = { actor, why: `promoted, receipt ${receipt.id}` };
      if (next !== undefined) changes.tell(measured.record, next, audit);
    }
    return new Map();
  }
}

function isClear(reasons: Reasons): boolean {
  return [...reasons.values()].every((own) => own.length === 0);
}

/** Where the one furthest behind is. */
function phaseOf(reasons: Reasons): TopicPhase {
  const codes = new Set([...reasons.values()].flat().map(({ code }) => code));
  const isDrained = [...codes].every((code) => drainedCodes.has(code));
  return isDrained && codes.has('TRANSACTION_OPEN') ? 'OPEN_TRANSACTIONS' : 'DRAINING';
}

function timedOut({ names }: Run, why: string): Reasons {
  const reason = blocking('SWITCH_TIMEOUT', why);
  return new Map(names.map((name) => [name, [reason]] as const));
}

export function isPromoting(record: TopicRecord): boolean {
  return record.state === 'PENDING_STOPPED' && record.stopping?.command === 'promote';
}

/** The same for all of a set. */
function attemptOf({ stopping, stateTimeMs }: TopicRecord): string {
  return stopping?.atomic?.id ?? `${stateTimeMs}/${stopping?.deadlineTimeMs ?? -1}`;
}

function reasonOf(error: ClusterError | StateError): Blocking {
  if (error instanceof ClusterError) return blocking('SOURCE_UNREACHABLE', error.message);
  const code = error.code === 'NOT_OWNER' ? 'NOT_OWNER' : 'STATE_UNAVAILABLE';
  return blocking(code, error.message);
}

function refusalOf(error: LinkError): Blocking {
  if (error.code === 'ILLEGAL_STATE') return blocking('SHELL_TOPIC_WRITTEN', error.message);
  if (error.code === 'DESTINATION_REFUSED') {
    return blocking('DESTINATION_UNREACHABLE', error.message);
  }
  return withRemedy({ code: error.code, message: error.message });
}

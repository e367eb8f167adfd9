// How topic records change: one change per topic at a time, decided by the state table on the
// record as it is then, committed, and told as an event with its actor. Refuses to know what
// changes mean for logs and fetchers. Invariant: a commit whose answer was lost is neither success
// nor failure until the state was read.
import type { Events } from '../../observe/events.ts';
import { encodeRecord } from '../../state/record-format.ts';
import type { MirrorError, StateRecord, TopicRecord } from '../../state/records.ts';
import { type State, type StateChange, StateError } from '../../state/state.ts';
import type { LinkClock } from '../context.ts';
import { LinkError } from '../link-error.ts';
import { NameLocks, Signal } from '../signal.ts';
import { type MirrorEvent, nextState } from './mirror-state.ts';

const doubtPollMs = 50;
/** What may happen to a topic before its interrupted failover is undone. */
const keepingCuts: ReadonlySet<MirrorEvent> = new Set(['pause', 'resume', 'fail']);

export interface Audit {
  readonly actor: string;
  readonly why: string;
}

export class TopicChanges {
  readonly locks = new NameLocks();
  readonly #state: State;
  readonly #events: Events;
  readonly #clock: LinkClock;
  readonly #touch: (topic: string) => void;
  readonly #closing = new Signal();
  #isClosed = false;

  constructor(parts: {
    state: State;
    events: Events;
    clock: LinkClock;
    /** Views of these topics are to be looked at again. */
    touch: (topic: string) => void;
  }) {
    this.#state = parts.state;
    this.#events = parts.events;
    this.#clock = parts.clock;
    this.#touch = parts.touch;
  }

  close(): void {
    this.#isClosed = true;
    this.#closing.notify();
  }

  record(topic: string): TopicRecord | undefined {
    return this.#state.view.topics.get(topic);
  }

  /** The record after `event`, ready to be put. @throws LinkError ILLEGAL_STATE */
  next(record: TopicRecord, event: MirrorEvent, edit: Partial<TopicRecord> = {}): TopicRecord {
    const state = nextState(record.state, event);
    if (state === null) {
      throw new LinkError(
        'ILLEGAL_STATE',
        `Topic '${record.name}' is ${record.state}: '${event}' is not possible`,
      );
    }
    const { stopping, creating: _creating, ...kept } = record;
    const isInterrupted = stopping?.command === 'failover';
    if (isInterrupted && event === 'promote') {
      const message = `Topic '${record.name}' has a failover that is not undone yet`;
      throw new LinkError('ILLEGAL_STATE', message);
    }
    // Where the ABORT batches of an interrupted failover begin is not to be forgotten.
    const cuts = isInterrupted && keepingCuts.has(event) ? { stopping } : {};
    return { ...kept, ...cuts, state, stateTimeMs: this.#clock.unixMs(), ...edit };
  }

  /**
   * Commits; when the answer is lost, waits until the state has been read again.
   * @throws StateError NOT_OWNER, UNAVAILABLE: certainly not committed. IN_DOUBT: while closing
   */
  async commit(changes: readonly StateChange[]): Promise<void> {
    try {
      await this.#state.commit(changes);
    } catch (error) {
      if (!(error instanceof StateError) || error.code !== 'IN_DOUBT') throw error;
      const topics = topicsOf(changes);
      for (const topic of topics) this.#touch(topic);
      await this.#untilRead(topics, error);
      for (const topic of topics) this.#touch(topic);
      if (!this.#areIn(changes)) {
        throw new StateError('UNAVAILABLE', 'The change was not committed', { cause: error });
      }
    }
  }

  /** Moves one topic on by the table and tells it. Null: the record is gone or `decide` says no. */
  async apply(
    topic: string,
    event: MirrorEvent,
    audit: Audit,
    decide: (record: TopicRecord) => Partial<TopicRecord> | null = () => ({}),
  ): Promise<TopicRecord | null> {
    return this.locks.run(topic, async () => {
      const record = this.record(topic);
      if (record === undefined) return null;
      const edit = decide(record);
      if (edit === null) return null;
      const next = this.next(record, event, edit);
      await this.commit([{ put: next }]);
      this.tell(record, next, audit);
      return next;
    });
  }

  /** Changes what a record says besides its state. Nothing happens when it is gone, or the same. */
  async edit(topic: string, change: (record: TopicRecord) => TopicRecord): Promise<void> {
    await this.locks.run(topic, async () => {
      const record = this.record(topic);
      if (record === undefined) return;
      const changed = change(record);
      if (changed !== record) await this.commit([{ put: changed }]);
    });
  }

  tell(before: TopicRecord, after: TopicRecord, audit: Audit): void {
    if (before.state === after.state) return;
    const isBad = after.state === 'FAILED';
    this.#events.emit(
      isBad ? 'error' : 'info',
      'mirror_state_changed',
      `Topic '${after.name}' went from ${before.state} to ${after.state}: ${audit.why}`,
      {
        topic: after.name,
        link: after.link,
        from: before.state,
        to: after.state,
        actor: audit.actor,
        error: after.error?.code ?? null,
      },
    );
  }

  async #untilRead(topics: readonly string[], cause: StateError): Promise<void> {
    while (!this.#state.isSettled || topics.some((topic) => this.#state.isInDoubt(topic))) {
      if (this.#isClosed) throw cause;
      await this.#closing.wait(doubtPollMs);
    }
  }

  #areIn(changes: readonly StateChange[]): boolean {
    const { view } = this.#state;
    return changes.every((change) => {
      if ('delete' in change) {
        const [kind, name = ''] = splitKey(change.delete);
        if (kind === 'topic') return !view.topics.has(name);
        return !(kind === 'topic-grants' ? view.topicGrants.has(name) : view.links.has(name));
      }
      const { put } = change;
      if (put.kind === 'topic') return isSame(view.topics.get(put.name), put);
      if (put.kind === 'link') return isSame(view.links.get(put.name), put);
      if (put.kind === 'receipt') return view.receipts.has(put.id);
      if (put.kind === 'link-acls') return isSame(view.linkAcls.get(put.link), put);
      // Promised together with its topic's switch, and kept, maybe, by now.
      if (put.kind === 'topic-grants') return true;
      if (put.kind === 'share-groups') return isSame(view.shareGroups.get(put.link), put);
      if (put.kind === 'handovers') return isSame(view.handovers.get(put.link), put);
      return true;
    });
  }
}

/** As they are stored: a field that is there and undefined is the same as none. */
function isSame(found: StateRecord | undefined, wanted: StateRecord): boolean {
  return found !== undefined && encodeRecord(found) === encodeRecord(wanted);
}

function splitKey(key: string): [string, string] {
  const slash = key.indexOf('/');
  return [key.slice(0, slash), key.slice(slash + 1)];
}

function topicsOf(changes: readonly StateChange[]): string[] {
  return changes.flatMap((change) => {
    if ('put' in change) return change.put.kind === 'topic' ? [change.put.name] : [];
    const [kind, name] = splitKey(change.delete);
    return kind === 'topic' ? [name] : [];
  });
}

/** A failed state commit as the operator sees it. */
export function asLinkError(error: unknown): LinkError {
  if (error instanceof LinkError) return error;
  if (error instanceof StateError) {
    const code =
      error.code === 'NOT_OWNER' || error.code === 'IN_DOUBT' ? error.code : 'STATE_UNAVAILABLE';
    return new LinkError(code, error.message, { cause: error });
  }
  throw error;
}

export function failedWith(error: MirrorError): Audit & { error: MirrorError } {
  return { actor: 'causeway', why: `${error.code}: ${error.message}`, error };
}

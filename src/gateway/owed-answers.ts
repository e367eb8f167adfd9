// The answers that one client connection is owed: those of forwarded requests, as they come or
// rewritten first, in the order of the queue. Owns how many rewrites are under way; refuses to know
// sockets. Invariant: each request that has an answer takes one slot, when all of it has been sent.
import type { Passage, ResponsePatch } from './handler.ts';
import type { HeldCount } from './held-bytes.ts';
import type { ResponseQueue, ResponseSlot } from './response-queue.ts';
import type { AnswerToRewrite, Expectation } from './upstream.ts';

type Forwarded = Passage & { asksUpstream?: boolean; patch?: () => ResponsePatch };
type ToRewrite = Forwarded & Required<Pick<Passage, 'rewrite'>>;

export interface OwedAnswersEvents {
  /** A rewrite that took time has been written: it should go out before anything is begun. */
  onRewritten(): void;
  onFailed(error: unknown): void;
}

export class OwedAnswers {
  readonly #queue: ResponseQueue;
  readonly #held: HeldCount;
  readonly #events: OwedAnswersEvents;
  #rewritesPending = 0;
  #askingPending = 0;

  constructor(queue: ResponseQueue, held: HeldCount, events: OwedAnswersEvents) {
    this.#queue = queue;
    this.#held = held;
    this.#events = events;
  }

  get count(): number {
    return this.#queue.length;
  }

  get heldBytes(): number {
    return this.#queue.heldBytes;
  }

  /** Rewrites under way. */
  get rewritesPending(): number {
    return this.#rewritesPending;
  }

  /** Forwarded, and to be followed by nothing until their rewrites are done. */
  get askingPending(): number {
    return this.#askingPending;
  }

  /** A rewrite is under way that may still ask the broker, or soon will be. */
  get isRewriting(): boolean {
    return this.#rewritesPending + this.#askingPending > 0;
  }

  open(): ResponseSlot {
    return this.#queue.open();
  }

  /** The connection is over: nothing more goes out. */
  close(): void {
    this.#queue.close();
  }

  write(slot: ResponseSlot, chunks: readonly Buffer[]): void {
    for (const chunk of chunks) slot.write(chunk);
    slot.finish();
  }

  /** What becomes of the answer to a forwarded request; null when there is none. */
  expectation(correlationId: number, forwarded: Forwarded): Expectation | null {
    if (forwarded.hasResponse === false) return null;
    const slot = this.open();
    if (!isToRewrite(forwarded)) return { kind: 'stream', correlationId, slot };
    if (forwarded.asksUpstream) this.#askingPending++;
    return new OwedAnswer({ owner: this, correlationId, slot, forwarded });
  }

  /** The answer has come. */
  rewrite(response: Buffer, answer: OwedAnswer): void {
    const { slot } = answer;
    const onWritten = (): void => {
      if (answer.asksUpstream) this.#askingPending--;
    };
    const rewritten = answer.rewrite(response);
    if (Array.isArray(rewritten)) {
      this.write(slot, rewritten);
      onWritten();
      return;
    }
    const settled = rewritten as Promise<readonly Buffer[]>;
    const later = this.#held.during(response.length, () => settled);
    this.#writeLater(slot, later, onWritten);
  }

  #writeLater(
    slot: ResponseSlot,
    rewritten: Promise<readonly Buffer[]>,
    onWritten: () => void,
  ): void {
    this.#rewritesPending++;
    rewritten.then(
      (chunks) => {
        this.#rewritesPending--;
        this.write(slot, chunks);
        onWritten();
        this.#events.onRewritten();
      },
      (error) => {
        this.#rewritesPending--;
        this.#events.onFailed(error);
      },
    );
  }
}

interface RewriteOptions {
  readonly owner: OwedAnswers;
  readonly correlationId: number;
  readonly slot: ResponseSlot;
  readonly forwarded: ToRewrite;
}

/**
 * No closure for each request: most of these answers pass as they are. Nothing of what was promised
 * but what the answer needs: the rest knows the names of all topics of the request (R14).
 */
class OwedAnswer implements AnswerToRewrite {
  readonly kind = 'rewrite';
  readonly correlationId: number;
  readonly slot: ResponseSlot;
  readonly rewrite: ToRewrite['rewrite'];
  readonly staysAsItIs: ToRewrite['staysAsItIs'];
  readonly patch: ToRewrite['patch'];
  readonly asksUpstream: boolean;
  readonly #owner: OwedAnswers;

  constructor({ owner, correlationId, slot, forwarded }: RewriteOptions) {
    this.#owner = owner;
    this.correlationId = correlationId;
    this.slot = slot;
    this.rewrite = forwarded.rewrite;
    this.staysAsItIs = forwarded.staysAsItIs;
    this.patch = forwarded.patch;
    this.asksUpstream = forwarded.asksUpstream === true;
  }

  deliver(frame: Buffer): void {
    this.#owner.rewrite(frame, this);
  }
}

function isToRewrite(forwarded: Forwarded): forwarded is ToRewrite {
  return forwarded.rewrite !== undefined;
}

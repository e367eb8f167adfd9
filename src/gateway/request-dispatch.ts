// What becomes of each request of one client: through as it comes, on after a look, or answered
// here. Owns the request that holds up those behind it, and what requests told of the client.
// Refuses to know sockets, and what may be read when. Invariants: one disposition at a time, so
// that order is kept (R13); nothing is judged before the broker behind the connection has told its
// versions.
import { ApiKey, decodeRequestHeader, Reader, type RequestHeader } from '../../protocol/index.ts';
import type { VersionRange } from '../cluster/cluster.ts';
import type { Disposition, Inspection, Passage, RequestContext, SessionView } from './handler.ts';
import {
  answerApiVersions,
  apiVersionsTooNew,
  type LearnedVersions,
  learnApiVersions,
  type VersionLearner,
} from './handlers/api-versions.ts';
import type { HeldCount } from './held-bytes.ts';
import { clientIdCharactersMax, heldBytesAlways } from './limits.ts';
import { framed } from './messages.ts';
import type { OwedAnswers } from './owed-answers.ts';
import { type FramePlace, PassingRequest } from './passing-request.ts';
import type { Router } from './router.ts';
import type { Upstream } from './upstream.ts';

const changedMeanwhile = 'the standing of a topic changed while a request to it was coming in';

const noVersions: ReadonlyMap<number, VersionRange> = new Map();

type Answer = Extract<Disposition, { kind: 'answer' }>;

export interface DispatchOptions {
  readonly session: SessionView & VersionLearner;
  readonly router: Pick<Router, 'route'>;
  readonly owed: OwedAnswers;
  readonly held: HeldCount;
  /** Undefined before `start`. */
  upstream(): Upstream | undefined;
  /** Makes the connection to the broker. */
  start(): Promise<void>;
  /**
   * An answer is there to be sent, and others may follow. `whenTaken`: to be called when the
   * client's socket has all of it.
   */
  onAnswered(whenTaken?: () => void): void;
  /** Does something that may bring requests, then goes on with those that wait. */
  goOn(work: () => void): void;
  /** The connection is to end once the answers that are due have been written. */
  end(reason: string): void;
  /** It is to end now. */
  close(reason: string, options: { isFault: boolean }): void;
}

export class RequestDispatch {
  readonly #options: DispatchOptions;
  readonly #passing = new PassingRequest();
  /** Of the request that passes something has gone on, and more is to come. */
  #isInParts = false;
  #upstreamVersions = noVersions;
  #isBusy = false;
  #clientId: string | null = null;
  #software: string | null = null;

  constructor(options: DispatchOptions) {
    this.#options = options;
  }

  /** A request is being dealt with that holds up those behind it. */
  get isBusy(): boolean {
    return this.#isBusy;
  }

  get upstreamVersions(): ReadonlyMap<number, VersionRange> {
    return this.#upstreamVersions;
  }

  get clientId(): string | null {
    return this.#clientId;
  }

  get software(): string | null {
    return this.#software;
  }

  /** What the first exchange told: from then on requests are checked against it. */
  learn(versions: LearnedVersions): void {
    this.#upstreamVersions = versions.ranges;
  }

  noteSoftware(name: string, version: string): void {
    this.#software = kept(version === '' ? name : `${name}/${version}`);
  }

  /** Begins a request with these bytes and says true if it goes through as the one before did. */
  beginLikeLast(bytes: Buffer, place: FramePlace): boolean {
    return this.#passing.beginLikeLast(this.#options.session, bytes, place);
  }

  /** Of a request's first bytes: null when it is wanted whole. */
  inspect(head: Buffer): Inspection | null {
    const { session, router } = this.#options;
    if (this.#options.upstream() === undefined || this.#upstreamVersions.size === 0) return null;
    return this.#passing.inspect(session, router, head);
  }

  /** The request that was inspected last goes through; `bytes`: what has come of it. */
  begin(passage: Passage, bytes: Buffer): void {
    const { clientId } = this.#passing.begin(this.#options.session, passage, bytes);
    this.#clientId = kept(clientId);
  }

  pass(bytes: Buffer, { isLast }: { isLast: boolean }): void {
    const upstream = this.#options.upstream();
    const wasInParts = this.#isInParts;
    this.#isInParts = !isLast;
    if (!isLast) {
      upstream?.pass(bytes);
      return;
    }
    const { correlationId, passage } = this.#passing;
    this.#passing.end();
    // The broker does nothing with a request that it has only a part of.
    if (wasInParts && passage.stillHolds?.() === false) this.#options.end(changedMeanwhile);
    else upstream?.passLast(bytes, this.#options.owed.expectation(correlationId, passage));
  }

  /** A whole request. */
  handle(frame: Buffer): void {
    const { session, held, end } = this.#options;
    if (held.isOver && frame.length > heldBytesAlways) {
      const detail = `${held.usedBytes} bytes are held for all clients`;
      end(`a request of ${frame.length} bytes cannot be held: ${detail}`);
      return;
    }
    const tooNew = apiVersionsTooNew(frame);
    if (tooNew !== null) {
      this.#answer({ response: Promise.resolve(tooNew) }, frame);
      return;
    }
    const reader = new Reader(frame);
    const header = decodeRequestHeader(reader);
    this.#clientId = kept(header.clientId);
    if (this.#options.upstream() === undefined) {
      this.#holdUp(this.#options.start(), frame);
      return;
    }
    if (header.apiKey !== ApiKey.ApiVersions && this.#upstreamVersions.size === 0) {
      this.#holdUp(learnApiVersions(session), frame);
      return;
    }
    const context: RequestContext = { session, header, frame, bodyOffset: reader.offset };
    if (header.apiKey === ApiKey.ApiVersions) {
      this.#answer({ response: answerApiVersions(session, context) }, frame);
      return;
    }
    const route = this.#options.router.route(header, this.#upstreamVersions);
    if (route.kind === 'refused') end(route.reason);
    else this.#dispose(header, frame, route.handler(context));
  }

  /** Does something first, then handles the frame again. */
  #holdUp(first: Promise<void>, frame: Buffer): void {
    const { held, goOn, close } = this.#options;
    this.#isBusy = true;
    held
      .during(frame.length, () => first)
      .then(
        () => {
          this.#isBusy = false;
          goOn(() => this.handle(frame));
        },
        (error) => {
          this.#isBusy = false;
          close(messageOf(error), { isFault: false });
        },
      );
  }

  #dispose(header: RequestHeader, frame: Buffer, disposition: Disposition): void {
    if (disposition.kind === 'close') this.#options.end(disposition.reason);
    else if (disposition.kind === 'answer') this.#answer(disposition, frame);
    else this.#forward(header, frame, disposition);
  }

  #forward(
    header: RequestHeader,
    frame: Buffer,
    disposition: Extract<Disposition, { kind: 'forward' }>,
  ): void {
    const chunks = disposition.request ?? framed(frame, []);
    const { correlationId } = header;
    const expectation = this.#options.owed.expectation(correlationId, disposition);
    this.#options.upstream()?.send(chunks, expectation);
    if (disposition.thenEnds !== undefined) this.#options.end(disposition.thenEnds);
  }

  #answer({ response, whenTaken }: Omit<Answer, 'kind'>, request: Buffer): void {
    const { session, owed, held, onAnswered, close } = this.#options;
    const slot = owed.open();
    this.#isBusy = true;
    const answered = held.during(request.length, () => response);
    answered.then(
      (chunks) => {
        this.#isBusy = false;
        // What has to wait is referred to until its turn.
        const isSentNow = slot.isOldest;
        owed.write(slot, chunks ?? []);
        onAnswered(isSentNow ? whenTaken : undefined);
      },
      (error) => {
        this.#isBusy = false;
        const isFault = !session.closed.aborted;
        close(`a request could not be answered: ${messageOf(error)}`, { isFault });
      },
    );
  }
}

/** What a client says of itself is kept while it is connected, for logs and our own requests. */
function kept(text: string | null): string | null {
  return text === null || text.length <= clientIdCharactersMax
    ? text
    : text.slice(0, clientIdCharactersMax);
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

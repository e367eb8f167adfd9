// One client connection and its upstream. Owns both sockets' flow (what may be read when), the
// start of the upstream, and the end of both. Refuses to know what becomes of requests
// (request-dispatch.ts). Invariants: reading one side stops while the other is full, so that memory
// is bounded (R14); what was sent is flushed before a FIN is passed on.
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { Api, VersionRange } from '../cluster/cluster.ts';
import { describeForeignBytes } from './foreign-bytes.ts';
import type { GatewayServices, ListenerRole } from './handler.ts';
import type { LearnedVersions, VersionLearner } from './handlers/api-versions.ts';
import {
  heldBytesAlways,
  heldResponseBytesMax,
  requestBytesMaxDefault,
  requestsInFlightMax,
} from './limits.ts';
import { OwedAnswers } from './owed-answers.ts';
import { notSent, sendOwnCall } from './own-call.ts';
import { type PeerMemory, PeerSocket } from './peer-socket.ts';
import { messageOf, RequestDispatch } from './request-dispatch.ts';
import { RequestIntake } from './request-intake.ts';
import { ResponseQueue } from './response-queue.ts';
import type { SessionOptions } from './session-options.ts';
import type { WatchedSession } from './session-watch.ts';
import { Upstream } from './upstream.ts';

/** Own requests are told apart by nothing but order; the ids only help to read a packet capture. */
const ownCorrelationIdFirst = 0x40000000;

export class ClientSession implements VersionLearner, WatchedSession {
  readonly role: ListenerRole;
  readonly services: GatewayServices;
  readonly scratch = new Map<symbol, unknown>();
  readonly #options: SessionOptions;
  readonly #memory: PeerMemory;
  readonly #client: PeerSocket;
  readonly #intake: RequestIntake;
  readonly #owed: OwedAnswers;
  readonly #closed = new AbortController();
  readonly #dispatch: RequestDispatch;
  #upstream: Upstream | undefined;
  #isPumping = false;
  #isFirstChunk = true;
  #isInputOver = false;
  #isUpstreamOver = false;
  /** Set when the connection is to end once the answers that are due have been written. */
  #endReason: string | null = null;
  #isFault = false;
  #isOver = false;
  #nextCorrelationId = ownCorrelationIdFirst;

  constructor(client: Socket, options: SessionOptions) {
    this.role = options.role;
    this.services = options.services;
    this.#options = options;
    const { blocks } = options;
    const held = options.services.held.account((message) => this.#onMiscount(message));
    this.#memory = { blocks, held };
    this.#intake = new RequestIntake({
      budget: options.intakeBudget,
      blocks,
      frameBytesMax: options.requestBytesMax ?? requestBytesMaxDefault,
      events: {
        mayBegin: () => this.#mayHandle(),
        beginLikeLast: (bytes, place) => this.#dispatch.beginLikeLast(bytes, place),
        inspect: (head) => this.#dispatch.inspect(head),
        onRequest: (frame) => this.#dispatch.handle(frame),
        onPassage: (passage, bytes) => this.#dispatch.begin(passage, bytes),
        onPassing: (bytes, place) => {
          if (this.#endReason === null) this.#dispatch.pass(bytes, place);
        },
      },
    });
    client.setNoDelay(true);
    this.#client = new PeerSocket(client, this.#memory, {
      onChunk: (chunk) => this.#onClientData(chunk),
      onDrain: () => this.#advance(),
      onEnd: () => this.#onClientEnd(),
      onError: (error) => this.#finish(`client: ${error.message}`),
      onClose: () => {
        this.#finish('client closed');
        options.onGone();
      },
    });
    const queue = new ResponseQueue(
      (chunk) => {
        if (!this.#isOver) this.#client.write(chunk);
      },
      (view) => blocks.owned(view),
      held,
    );
    this.#owed = new OwedAnswers(queue, held, {
      onRewritten: () => {
        this.#client.flush();
        this.#advance();
      },
      onFailed: (error) => {
        this.#isFault = true;
        // The answer is owed and cannot be given: nothing behind it may go out either.
        this.#close(`an answer could not be rewritten: ${messageOf(error)}`);
      },
    });
    this.#dispatch = this.#newDispatch();
  }

  #newDispatch(): RequestDispatch {
    return new RequestDispatch({
      session: this,
      router: this.#options.router,
      owed: this.#owed,
      held: this.#memory.held,
      upstream: () => this.#upstream,
      start: () => this.#start(),
      onAnswered: (whenTaken) => {
        this.#client.flush();
        if (whenTaken !== undefined) this.#client.whenTaken(whenTaken);
        this.#advance();
      },
      goOn: (work) => this.#pump(null, work),
      end: (reason) => this.#end(reason),
      close: (reason, { isFault }) => {
        this.#isFault ||= isFault;
        this.#close(reason);
      },
    });
  }

  get upstreamVersions(): ReadonlyMap<number, VersionRange> {
    return this.#dispatch.upstreamVersions;
  }

  get principal(): string | null {
    return this.#options.identity?.principal ?? null;
  }

  /** No whole request has come. */
  get isSilent(): boolean {
    return this.#upstream === undefined && !this.#dispatch.isBusy;
  }

  get movedBytes(): number {
    return this.#client.movedBytes + (this.#upstream?.movedBytes ?? 0);
  }

  /** Whether only the end of a peer, which may never come, would let this go on or end. */
  get waitsFor(): 'client' | 'destination' | null {
    if (this.#client.hasUnsent) return 'client';
    const isDue = this.#isInputOver || this.#upstream?.hasUnsent === true;
    return isDue && this.#upstream !== undefined ? 'destination' : null;
  }

  get closed(): AbortSignal {
    return this.#closed.signal;
  }

  get bytesFromClient(): number {
    return this.#client.socket.bytesRead;
  }

  get bytesToClient(): number {
    return this.#client.bytesWritten;
  }

  callUpstream<Request, Response>(
    api: Api<Request, Response>,
    request: Request | ((version: number) => Request),
    options: { versionMax?: number } = {},
  ): Promise<Response> {
    const send = (): Promise<Response> => this.#call(api, request, options.versionMax);
    const renewal = this.#renewal();
    return renewal === undefined ? send() : renewal.then(send);
  }

  #call<Request, Response>(
    api: Api<Request, Response>,
    request: Request | ((version: number) => Request),
    versionMax?: number,
  ): Promise<Response> {
    const upstream = this.#upstream;
    if (upstream === undefined || this.#isUpstreamOver || this.#isOver) {
      return Promise.reject(notSent('CLOSED', 'there is no connection to the destination'));
    }
    const answer = sendOwnCall(upstream, {
      api,
      request,
      versionMax,
      upstreamVersions: this.upstreamVersions,
      correlationId: this.#nextCorrelationId++,
      clientId: this.#dispatch.clientId,
    });
    if (!this.#isPumping) upstream.flush();
    return answer;
  }

  /** While the broker is told again who the client is, nothing else may go there. */
  #renewal(): Promise<void> | undefined {
    if (this.upstreamVersions.size === 0 || this.#isOver) return undefined;
    return this.#options.identity?.renewal({
      exchange: (api, request) => this.#call(api, request),
      onRenewed: () => this.#advance(),
      onFailed: ({ message }) => {
        this.#isFault = true;
        this.#close(message);
      },
    });
  }

  learn(versions: LearnedVersions): void {
    this.#dispatch.learn(versions);
  }

  noteSoftware(name: string, version: string): void {
    this.#dispatch.noteSoftware(name, version);
  }

  /** Orderly: answers that are due go out first. */
  shutdown(reason: string): void {
    this.#endReason ??= reason;
    this.#closed.abort();
    this.#advance();
  }

  abandon(reason: string): void {
    this.#isFault = true;
    this.#finish(reason);
  }

  destroy(reason: string): void {
    this.#finish(reason);
  }

  #onClientData(chunk: Buffer): void {
    if (this.#endReason !== null || this.#isOver) return;
    const foreign = this.#isFirstChunk ? describeForeignBytes(chunk) : null;
    this.#isFirstChunk = false;
    if (foreign !== null) this.#end(foreign);
    else this.#pump(chunk);
  }

  #onClientEnd(): void {
    this.#isInputOver = true;
    // Whoever half-closes is leaving: a parked long poll must not hold up what it sent before the
    // FIN.
    this.#closed.abort();
    this.#advance();
  }

  /** Handles what can be handled now, then decides what may be read. Safe to call at any time. */
  #advance(): void {
    this.#pump(null);
  }

  /** `chunk`: what has come; null: what waits goes on. */
  #pump(chunk: Buffer | null, before?: () => void): void {
    if (this.#isPumping || this.#isOver) return;
    this.#isPumping = true;
    try {
      before?.();
      if (chunk === null) this.#intake.advance();
      else this.#intake.push(chunk);
    } catch (error) {
      this.#end(messageOf(error));
    } finally {
      this.#isPumping = false;
    }
    this.#client.flush();
    this.#upstream?.flush();
    this.#settle();
  }

  #mayHandle(): boolean {
    const isHeldUp = this.#dispatch.isBusy || this.#owed.askingPending > 0;
    if (isHeldUp || this.#isUpstreamOver || !this.#hasRoom()) return false;
    return this.#renewal() === undefined;
  }

  /** Goes on for a while behind a request that holds up others: how else would a FIN be noticed? */
  #mayRead(): boolean {
    return this.#hasRoom() && !this.#intake.isFull;
  }

  #hasRoom(): boolean {
    return (
      !this.#isOver &&
      this.#endReason === null &&
      !this.#client.isFull &&
      !this.#upstream?.isFull &&
      this.#owed.count < requestsInFlightMax
    );
  }

  /** Pauses and resumes both sides, and ends what is over. */
  #settle(): void {
    if (this.#isOver) return;
    if (this.#endReason !== null && this.#owed.count === 0) {
      this.#close(this.#endReason);
      return;
    }
    if (this.#isUpstreamOver && this.#owed.rewritesPending === 0 && !this.#dispatch.isBusy) {
      this.#cutIfHalfAnswered();
      const isClients = this.#isInputOver && this.#intake.isEmpty;
      this.#close(isClients ? 'client closed' : 'the broker closed the connection');
      return;
    }
    if (this.#isInputOver && this.#intake.isEmpty && !this.#dispatch.isBusy) {
      if (this.#upstream === undefined) {
        this.#close('client closed');
        return;
      }
      if (!this.#owed.isRewriting) this.#upstream.end();
    }
    if (this.#mayRead()) this.#client.resume();
    else if (this.#endReason === null) this.#client.pause();
    const heldMost = this.#memory.held.isOver ? heldBytesAlways : heldResponseBytesMax;
    const isFull =
      this.#client.isFull ||
      (this.#owed.heldBytes > heldMost && this.#upstream?.callsPending === 0);
    if (isFull) this.#upstream?.pause();
    else this.#upstream?.resume();
  }

  async #start(): Promise<void> {
    const socket = await this.#options.connect();
    if (this.#isOver) {
      socket.destroy();
      return;
    }
    this.#upstream = new Upstream(socket, this.#memory, {
      onProgress: () => {
        // Before anything else is looked at: somebody waits for it.
        this.#client.flush();
        this.#advance();
      },
      onDrain: () => this.#advance(),
      onEnd: () => {
        this.#isUpstreamOver = true;
        this.#closed.abort();
        this.#advance();
      },
      onFault: (error) => this.#onUpstreamFault(error),
    });
  }

  #onUpstreamFault(error: Error): void {
    this.#isFault ||= !('syscall' in error);
    this.#isUpstreamOver = true;
    this.#cutIfHalfAnswered();
    this.#close(`destination: ${error.message}`);
  }

  /** A client that got half an answer must not take a FIN for its end. */
  #cutIfHalfAnswered(): void {
    if (this.#upstream?.isBetweenFrames !== false) return;
    // A reset under TLS is a connection that ends without TLS's own goodbye.
    const { socket } = this.#client;
    if (socket instanceof TLSSocket) socket.destroy();
    else socket.resetAndDestroy();
  }

  /** A fault of ours, contained: all that it touched is this connection's. */
  #onMiscount(message: string): void {
    this.services.events.error('connection_miscounted', `${this.#options.client}: ${message}`);
    this.abandon(message);
  }

  /**
   * Ends the connection once the answers that are due are written; input is dropped from here on.
   */
  #end(reason: string): void {
    this.#endReason ??= reason;
    this.#isFault = true;
    this.#intake.release();
    this.#settle();
  }

  /**
   * FIN to the client after what was written; what it still sends is read and dropped, for a while.
   */
  #close(reason: string): void {
    if (this.#isOver) return;
    this.#endReason ??= reason;
    this.#report(this.#endReason);
    this.#upstream?.close();
    this.#client.linger();
  }

  /** Both sides at once. */
  #finish(reason: string): void {
    this.#report(reason);
    this.#client.destroy();
    this.#upstream?.close();
  }

  #report(reason: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#intake.release();
    this.#owed.close();
    this.#closed.abort();
    this.#options.onClosed({
      client: this.#options.client,
      upstreamLocalPort: this.#upstream?.localPort ?? 0,
      clientId: this.#dispatch.clientId,
      software: this.#dispatch.software,
      principal: this.principal,
      bytesFromClient: this.bytesFromClient,
      bytesToClient: this.bytesToClient,
      reason: this.#endReason ?? reason,
      isFault: this.#isFault,
    });
  }
}

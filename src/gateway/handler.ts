// The contract between a client session and the per-API handlers: a handler looks at one whole
// request and says what becomes of it. Handlers own no socket and no order: the session keeps both.
// Invariant: exactly one disposition per request; a session carries on with the next request only
// as that disposition allows.
import type { RequestHeader } from '../../protocol/index.ts';
import type { Api, BrokerInfo, VersionRange } from '../cluster/cluster.ts';
import type { Events } from '../observe/events.ts';
import type { HeldBytes } from './held-bytes.ts';
import type { ReadMemory } from './read-memory.ts';
import type { TopicDirectory } from './topic-directory.ts';
import type { VerdictBudget } from './verdict-budget.ts';

/** Which of our listeners a connection came in on. */
export type ListenerRole =
  | { readonly kind: 'bootstrap' }
  | { readonly kind: 'broker'; readonly nodeId: number }
  | { readonly kind: 'link' };

/** What we advertise for a node id (a broker of the destination, or the link node). */
export interface Endpoint {
  readonly nodeId: number;
  readonly host: string;
  readonly port: number;
  readonly rack: string | null;
}

/** Groups that nobody may join for now, because they are being handed over from a source. */
export interface GroupGate {
  /** False almost always: then no request has to be looked at. */
  readonly isAnyHeld: boolean;
  isHeld(group: string): boolean;
}

/** The gate of a gateway that hands over no groups. */
export const openGate: GroupGate = { isAnyHeld: false, isHeld: () => false };

/** A broker as an answer names it. */
export interface FoundBroker extends BrokerInfo {
  /** Registered, but it takes part in nothing: nobody is connected to it who can go elsewhere. */
  readonly isFenced?: boolean | undefined;
}

/** What all sessions of a gateway share. */
export interface GatewayServices {
  readonly directory: TopicDirectory;
  readonly groupGate: GroupGate;
  readonly events: Events;
  /** What all connections hold together; whoever makes a large answer asks it for room. */
  readonly held: HeldBytes;
  /** What mirrors are read into for answers. */
  readonly readMemory: ReadMemory;
  /** What all connections know of rights together. */
  readonly verdicts: VerdictBudget;
  readonly linkNodeId: number;
  /** The destination's cluster id: also the virtual one. */
  readonly clusterId: string;
  /** Prefix of our own topics that clients may not change: `__causeway`. */
  readonly ownTopicPrefix: string;
  /** The advertised endpoint of a known node id (the link node included), or undefined. */
  endpoint(nodeId: number): Endpoint | undefined;
  /**
   * Gives each broker a durable, bound port before an answer names it. Those for which no port is
   * left have no endpoint afterwards.
   */
  ensureEndpoints(brokers: readonly FoundBroker[]): Promise<void>;
  /** Monotonic milliseconds. */
  now(): number;
}

/** One client connection, as handlers see it. */
export interface SessionView {
  readonly role: ListenerRole;
  readonly services: GatewayServices;
  /** Who the client is by its certificate, at the destination too; null when it logs in itself. */
  readonly principal: string | null;
  /** Versions of the broker behind this connection's upstream, as it told. */
  readonly upstreamVersions: ReadonlyMap<number, VersionRange>;
  /**
   * Sends a request of our own on this client's upstream connection, with the client's own
   * authentication; it takes its place in the upstream FIFO. Rejects when the upstream ends. Never
   * used inside a SASL exchange.
   */
  callUpstream<Request, Response>(
    api: Api<Request, Response>,
    request: Request | ((version: number) => Request),
    options?: { versionMax?: number },
  ): Promise<Response>;
  /** Fires when the client is gone: parked answers are dropped. */
  readonly closed: AbortSignal;
  /**
   * Scratch values of handlers that live as long as the connection (authorizer cache, fetch-session
   * flags).
   */
  readonly scratch: Map<symbol, unknown>;
}

export interface RequestContext {
  readonly session: SessionView;
  readonly header: RequestHeader;
  /** Header and body, without the 4-byte size. Valid until the disposition is done. */
  readonly frame: Buffer;
  /** Where the body begins in `frame`. */
  readonly bodyOffset: number;
}

/** Changes a response while it passes, and no length in it. What it throws ends the connection. */
export interface ResponsePatch {
  /** The frame's next bytes, its size prefix left out; `emit` gets what may go on, in order. */
  push(bytes: Buffer, emit: (view: Buffer) => void): void;
  /** After the last bytes. */
  finish(): void;
}

export type Disposition =
  /**
   * Forwarded. `request`: a changed frame (with size prefix; same correlation id) instead of the
   * original. Without `rewrite` the response streams through as it is; with it, the whole response
   * frame (without size; header included) is given and the frame to send (with size prefix) comes
   * back. `hasResponse: false` for acks=0.
   */
  | {
      readonly kind: 'forward';
      readonly request?: readonly Buffer[];
      readonly rewrite?: (frame: Buffer) => readonly Buffer[] | Promise<readonly Buffer[]>;
      /** Instead of `rewrite` for responses that are too large to be held for it. */
      readonly patch?: () => ResponsePatch;
      /** As in a passage. */
      readonly staysAsItIs?: (frame: Buffer) => boolean;
      readonly hasResponse?: boolean;
      /**
       * `rewrite` may use `callUpstream`. What follows waits until it is done: else the answers to
       * all of it would have to be held, however large, while the call's answer comes behind them.
       */
      readonly asksUpstream?: boolean;
      /** Sent on, and then the connection ends for this reason. */
      readonly thenEnds?: string;
    }
  /**
   * Answered here (possibly with the help of `callUpstream`). The frame has its size prefix; null
   * means that the request has no response. Following requests of the connection wait, as a
   * broker's muted channel does. `whenTaken` is called once nobody refers to the answer's bytes any
   * more; not at all where the connection ends before, or the answer had to wait for its turn.
   */
  | {
      readonly kind: 'answer';
      readonly response: Promise<readonly Buffer[] | null>;
      readonly whenTaken?: () => void;
    }
  /** The connection ends with one clear log line. */
  | { readonly kind: 'close'; readonly reason: string };

export type Handler = (context: RequestContext) => Disposition;

/** A request that passes while it comes in: never held, never changed. */
export interface Passage {
  /** As in a forwarded disposition. */
  readonly rewrite?: (frame: Buffer) => readonly Buffer[] | Promise<readonly Buffer[]>;
  /**
   * Asked before `rewrite` when the response came in one piece, which is only valid now: what is
   * not to be changed is passed without a copy.
   */
  readonly staysAsItIs?: (frame: Buffer) => boolean;
  readonly hasResponse?: boolean;
  /**
   * Whether what it was decided by is as it was. Asked before the last bytes of a request that came
   * in parts go on (a broker does nothing with a part), and before another request passes as it
   * did.
   */
  readonly stillHolds?: () => boolean;
  /**
   * So many of the frame's first bytes decided it, and nothing behind them: a request that begins
   * with the same, but for the correlation id, passes in the same way while it holds.
   */
  readonly decidedByBytes?: number;
}

/** Looks at a request of which only the beginning is there. */
export interface Inspection {
  /**
   * The next bytes of the frame (without its prefix), only valid now. `more`: not decided yet;
   * `whole`: the request has to be held and given to the handler.
   */
  push(bytes: Buffer): Passage | 'more' | 'whole';
}

/** `bodyOffset` as in a request's context. */
export type Inspect = (
  session: SessionView,
  header: RequestHeader,
  bodyOffset: number,
) => Inspection;

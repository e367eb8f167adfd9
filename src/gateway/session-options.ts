// What a client session is made of, and what is left of it: the words between the gateway, which
// makes sessions and logs their end, and the session itself. Refuses to know how either works.
import type { Socket } from 'node:net';
import type { GatewayServices, ListenerRole } from './handler.ts';
import type { ReceiveBlocks } from './receive-blocks.ts';
import type { IntakeBudget } from './request-intake.ts';
import type { Router } from './router.ts';
import type { UpstreamIdentity } from './upstream-identity.ts';

export interface SessionOptions {
  /** Address and port, as the connection was accepted. */
  readonly client: string;
  readonly role: ListenerRole;
  readonly services: GatewayServices;
  readonly router: Pick<Router, 'route'>;
  /** Connects to the broker behind this listener, or to any. */
  connect(): Promise<Socket>;
  /** Who the client is by its certificate; without it the client says that itself. */
  readonly identity?: UpstreamIdentity | undefined;
  /** Called once, when nothing is served any more; the client may not have closed its side yet. */
  onClosed(summary: SessionSummary): void;
  /** Called once, after `onClosed`, when the client's socket takes no more room. */
  onGone(): void;
  readonly requestBytesMax?: number;
  readonly intakeBudget: IntakeBudget;
  readonly blocks: ReceiveBlocks;
}

export interface SessionSummary {
  readonly client: string;
  readonly upstreamLocalPort: number;
  readonly clientId: string | null;
  readonly software: string | null;
  readonly principal: string | null;
  readonly bytesFromClient: number;
  readonly bytesToClient: number;
  readonly reason: string;
  /** Something was wrong, not just over. */
  readonly isFault: boolean;
}

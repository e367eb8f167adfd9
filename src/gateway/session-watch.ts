// Ends connections that nobody is behind any more. A peer that goes without a FIN leaves no trace:
// a client that sends nothing has no broker behind it that would end it, and a socket that nobody
// reads is not read either, so that not even a reset is noticed. Owns since when each connection
// says nothing; refuses to know sockets. Invariant: a peer that takes or gives a byte in time
// stays, and so does whoever only waits for an answer, however long: brokers end what is idle.
import { silentMsMax, stalledMsMax } from './limits.ts';

export interface WatchedSession {
  /** No whole request has come. */
  readonly isSilent: boolean;
  /** All that both peers have given and taken so far. */
  readonly movedBytes: number;
  /** Who has to take or to give something before the connection can go on or end; null: nobody. */
  readonly waitsFor: 'client' | 'destination' | null;
  /** Orderly: answers that are due go out first. */
  shutdown(reason: string): void;
  /** At once, as a fault. */
  abandon(reason: string): void;
}

interface Stall {
  readonly movedBytes: number;
  readonly sinceMs: number;
}

export class SessionWatch<Session extends WatchedSession> {
  readonly #silentMsMax: number;
  readonly #stalledMsMax: number;
  /** Those that may still be silent, by when they came. */
  readonly #newcomers = new Map<Session, number>();
  readonly #stalls = new Map<Session, Stall>();
  #vanishedTotal = 0;

  constructor(options: { silentMsMax?: number | undefined; stalledMsMax?: number | undefined }) {
    this.#silentMsMax = options.silentMsMax ?? silentMsMax;
    this.#stalledMsMax = options.stalledMsMax ?? stalledMsMax;
  }

  /** Connections that were ended because a peer was gone without a word. */
  get vanishedTotal(): number {
    return this.#vanishedTotal;
  }

  came(session: Session, nowMs: number): void {
    this.#newcomers.set(session, nowMs);
  }

  left(session: Session): void {
    this.#newcomers.delete(session);
    this.#stalls.delete(session);
  }

  /** To be called from time to time. */
  look(sessions: Iterable<Session>, nowMs: number): void {
    this.#endSilent(nowMs);
    for (const session of [...sessions]) this.#lookAt(session, nowMs);
  }

  #endSilent(nowMs: number): void {
    for (const [session, cameMs] of this.#newcomers) {
      if (!session.isSilent) {
        this.#newcomers.delete(session);
      } else if (nowMs - cameMs >= this.#silentMsMax) {
        this.#vanishedTotal++;
        session.shutdown(`no request within ${this.#silentMsMax} ms`);
      }
    }
  }

  #lookAt(session: Session, nowMs: number): void {
    const { waitsFor, movedBytes } = session;
    const stall = this.#stalls.get(session);
    if (waitsFor === null) {
      this.#stalls.delete(session);
    } else if (stall === undefined || stall.movedBytes !== movedBytes) {
      this.#stalls.set(session, { movedBytes, sinceMs: nowMs });
    } else if (nowMs - stall.sinceMs >= this.#stalledMsMax) {
      this.#vanishedTotal++;
      session.abandon(`the ${waitsFor} has not moved for ${this.#stalledMsMax} ms`);
    }
  }
}

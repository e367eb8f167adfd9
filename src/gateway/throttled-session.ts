// A client's session as one answer is made of it: with the longest time for which the broker
// throttles whoever it was that asked. Owns that time; refuses to know what was asked. Invariant:
// the client hears of the longest throttle of all that its answer was made of, whoever asked for
// it on the way (rights, leaders, starts of shells), or it does not keep away for that long.
import type { Api, VersionRange } from '../cluster/cluster.ts';
import { throttleTimeOf } from '../cluster/throttle-time.ts';
import type { GatewayServices, ListenerRole, SessionView } from './handler.ts';

export class ThrottledSession implements SessionView {
  readonly #session: SessionView;
  #throttleTimeMs = 0;

  constructor(session: SessionView) {
    this.#session = session;
  }

  get role(): ListenerRole {
    return this.#session.role;
  }

  get services(): GatewayServices {
    return this.#session.services;
  }

  get principal(): string | null {
    return this.#session.principal;
  }

  get upstreamVersions(): ReadonlyMap<number, VersionRange> {
    return this.#session.upstreamVersions;
  }

  get closed(): AbortSignal {
    return this.#session.closed;
  }

  get scratch(): Map<symbol, unknown> {
    return this.#session.scratch;
  }

  async callUpstream<Request, Response>(
    api: Api<Request, Response>,
    request: Request | ((version: number) => Request),
    options?: { versionMax?: number },
  ): Promise<Response> {
    const response = await this.#session.callUpstream(api, request, options);
    this.#throttleTimeMs = Math.max(this.#throttleTimeMs, throttleTimeOf(response));
    return response;
  }

  /** To be called when all has been asked. */
  tell(response: Throttled): void {
    response.throttleTimeMs = Math.max(response.throttleTimeMs, this.#throttleTimeMs);
  }
}

/** Almost every response. */
export interface Throttled {
  throttleTimeMs: number;
}

// Which handler looks at which request, and whether the request may pass at all. Owns the look-up;
// refuses to know what handlers do. Invariant: only a version that both the reviewed table and the
// broker behind the connection have gets beyond here; everything else ends the connection with one
// clear line (fail closed).
import { ApiKey, apiName, type RequestHeader } from '../../protocol/index.ts';
import type { VersionRange } from '../cluster/cluster.ts';
import { apiTable, produceVersionMinAdvertised } from './api-table.ts';
import type { Disposition, Handler, Inspect } from './handler.ts';

export type Route =
  /** `inspect`: whether a request passes can be told while it comes in. */
  | { readonly kind: 'handler'; readonly handler: Handler; readonly inspect?: Inspect }
  | { readonly kind: 'refused'; readonly reason: string };

const passes = { push: () => ({}) };

export const passRoute: Route = {
  kind: 'handler',
  handler: (): Disposition => ({ kind: 'forward' }),
  inspect: () => passes,
};

/** The range that clients are told, or null when the key is not for them. */
export function advertisedRange(
  apiKey: number,
  upstream: VersionRange | undefined,
): VersionRange | null {
  const range = servedRange(apiKey, upstream);
  if (range === null || apiKey !== ApiKey.Produce) return range;
  return { min: produceVersionMinAdvertised, max: range.max };
}

function servedRange(apiKey: number, upstream: VersionRange | undefined): VersionRange | null {
  const api = apiTable.get(apiKey);
  if (api === undefined || api.handling === 'hidden' || upstream === undefined) return null;
  const min = Math.max(api.versionMin, upstream.min);
  const max = Math.min(api.versionMax, upstream.max);
  return min > max ? null : { min, max };
}

export class Router {
  readonly #routes = new Map<number, Route>();

  constructor(
    handlers: ReadonlyMap<number, Handler>,
    inspectors: ReadonlyMap<number, Inspect> = new Map(),
  ) {
    for (const { key, handling } of apiTable.values()) {
      // The session answers ApiVersions itself: it learns the broker's versions from it.
      if (key === ApiKey.ApiVersions) continue;
      const handler = handlers.get(key);
      if (handling === 'handled') {
        if (handler === undefined) throw new Error(`no handler for ${apiName(key)}`);
        const inspect = inspectors.get(key);
        this.#routes.set(key, { kind: 'handler', handler, ...(inspect && { inspect }) });
      } else if (handling === 'pass') {
        this.#routes.set(key, passRoute);
      }
    }
  }

  route(header: RequestHeader, upstreamVersions: ReadonlyMap<number, VersionRange>): Route {
    const { apiKey, apiVersion } = header;
    const route = this.#routes.get(apiKey);
    const range = servedRange(apiKey, upstreamVersions.get(apiKey));
    if (route === undefined || range === null) {
      return { kind: 'refused', reason: `${apiName(apiKey)} (key ${apiKey}) is not served here` };
    }
    if (apiVersion < range.min || apiVersion > range.max) {
      const served = `${range.min}-${range.max}`;
      const reason = `${apiName(apiKey)} version ${apiVersion} is not served here, only ${served}`;
      return { kind: 'refused', reason };
    }
    return route;
  }
}

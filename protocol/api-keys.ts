/**
 * The API keys of this Kafka release: names, version ranges, and from which version requests and
 * responses are flexible, which decides the header versions. The table is generated; this file
 * owns the look-ups and the two exceptions of the headers.
 */
import { type Api, apis } from './generated/apis.ts';

export { type Api, ApiKey, apis } from './generated/apis.ts';

export type ApiName = keyof typeof import('./generated/apis.ts').ApiKey;

const apiVersionsKey = 18;

const byKey: ReadonlyMap<number, Api> = new Map(apis.map((api) => [api.key, api]));

export function findApi(apiKey: number): Api | undefined {
  return byKey.get(apiKey);
}

/** The name of a key; `Api<number>` for one that this release does not define. */
export function apiName(apiKey: number): string {
  return byKey.get(apiKey)?.name ?? `Api${apiKey}`;
}

/** Undefined when the key is unknown; versions that do not exist yet count as flexible. */
export function requestHeaderVersion(apiKey: number, apiVersion: number): 1 | 2 | undefined {
  const api = byKey.get(apiKey);
  if (api === undefined) return undefined;
  return apiVersion >= api.requestFlexibleFrom ? 2 : 1;
}

/**
 * Undefined when the key is unknown. ApiVersions answers always have header 0: the client does not
 * know yet what the broker speaks.
 */
export function findResponseHeaderVersion(apiKey: number, apiVersion: number): 0 | 1 | undefined {
  const api = byKey.get(apiKey);
  if (api === undefined) return undefined;
  if (apiKey === apiVersionsKey) return 0;
  return apiVersion >= api.responseFlexibleFrom ? 1 : 0;
}

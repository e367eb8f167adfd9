// A request of our own on a client's upstream connection. Owns the choice of the version and the
// matching of the answer; refuses to know why it is asked. Invariant: it only asks what the broker
// said it has, and every failure is a ClusterError but our own faults, so that callers tell those
// from "no answer".
import {
  ApiKey,
  decodeResponseHeader,
  encodeRequestFrame,
  ProtocolError,
  Reader,
} from '../../protocol/index.ts';
import {
  type Api,
  ClusterError,
  type ClusterErrorCode,
  type VersionRange,
} from '../cluster/cluster.ts';
import type { Upstream } from './upstream.ts';

export interface OwnCall<Request, Response> {
  readonly api: Api<Request, Response>;
  readonly request: Request | ((version: number) => Request);
  readonly versionMax: number | undefined;
  /** What the broker told; it may not be known yet when this is the question. */
  readonly upstreamVersions: ReadonlyMap<number, VersionRange>;
  readonly correlationId: number;
  readonly clientId: string | null;
}

export function sendOwnCall<Request, Response>(
  upstream: Upstream,
  call: OwnCall<Request, Response>,
): Promise<Response> {
  const { api, request, correlationId, clientId } = call;
  const range = call.upstreamVersions.get(api.key);
  if (range === undefined && api.key !== ApiKey.ApiVersions) {
    return Promise.reject(notSent('UNSUPPORTED', `the broker does not have ${api.name}`));
  }
  const capped = Math.min(call.versionMax ?? api.versionMax, api.versionMax);
  const apiVersion = Math.min(capped, range?.max ?? capped);
  if (apiVersion < Math.max(api.versionMin, range?.min ?? 0)) {
    const message = `no common version of ${api.name} with the broker`;
    return Promise.reject(notSent('UNSUPPORTED', message));
  }
  const body =
    typeof request === 'function' ? (request as (version: number) => Request)(apiVersion) : request;
  const header = { apiKey: api.key, apiVersion, correlationId, clientId };
  const chunks = encodeRequestFrame(header, (writer) => api.encode(writer, body, apiVersion));
  return new Promise((resolve, reject) => {
    const deliver = (frame: Buffer): void => {
      try {
        const reader = new Reader(frame);
        decodeResponseHeader(reader, api.key, apiVersion);
        resolve(api.decode(reader, apiVersion));
      } catch (cause) {
        if (!(cause instanceof ProtocolError)) {
          reject(cause);
          return;
        }
        const message = `the answer to ${api.name} cannot be decoded: ${cause.message}`;
        reject(new ClusterError('PROTOCOL', message, { cause, maybeSent: true }));
      }
    };
    upstream.send(chunks, { kind: 'own', correlationId, deliver, abandon: reject });
  });
}

export function notSent(code: ClusterErrorCode, message: string): ClusterError {
  return new ClusterError(code, message, { maybeSent: false });
}

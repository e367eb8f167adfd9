// ApiVersions: what this listener serves.
//  * The broker behind the connection is asked (with the client's own software name and version, so
//    that the destination still sees who connects); the answer is its ranges cut to the reviewed
//    table. Keys that nobody reviewed are dropped. Supported and finalized features pass on as they
//    are: clients choose transactions V2 and group protocols by them.
//  * A version that we do not know is answered with error 35 in a version 0 body, as brokers do;
//    nothing but key, version and correlation id of such a request is read. A 35 of the broker is
//    passed on likewise.
//  * Version 5 names a cluster and a node (KIP-1242): checked against this listener's identity,
//    never sent on. Another one gets 129 REBOOTSTRAP_REQUIRED without keys, only one of the two 42
//    INVALID_REQUEST.
//  * Asked without the client when its first request is another one; never twice before SASL
//    (brokers refuse).
import {
  type ApiVersionsRequest,
  apiVersionsRequestCodec,
  createApiVersionsRequest,
} from '../../../protocol/generated/api-versions-request.ts';
import {
  type ApiVersionsResponse,
  apiVersionsResponseCodec,
  createApiVersion,
  createApiVersionsResponse,
  decodeApiVersionsResponse,
} from '../../../protocol/generated/api-versions-response.ts';
import { ApiKey, ErrorCode, type Reader } from '../../../protocol/index.ts';
import type { Api, VersionRange } from '../../cluster/cluster.ts';
import { beginning } from '../../observe/events.ts';
import { apiTable } from '../api-table.ts';
import type { ListenerRole, RequestContext, SessionView } from '../handler.ts';
import { decodeBody, responseTo } from '../messages.ts';
import { advertisedRange } from '../router.ts';

export interface LearnedVersions {
  readonly ranges: ReadonlyMap<number, VersionRange>;
}

/** What the session offers to this handler alone. */
export interface VersionLearner extends SessionView {
  learn(versions: LearnedVersions): void;
  noteSoftware(name: string, version: string): void;
}

/** Kept as long as the connection, for the log only. */
const softwareCharactersMax = 100;

const versionMax = apiTable.get(ApiKey.ApiVersions)?.versionMax ?? 0;

/** A 35 comes with a version 0 body whatever was asked. */
function decodeAnyVersion(reader: Reader, version: number): ApiVersionsResponse {
  const start = reader.offset;
  const errorCode = reader.readInt16();
  reader.offset = start;
  const isFallback = errorCode === ErrorCode.UNSUPPORTED_VERSION;
  return decodeApiVersionsResponse(reader, isFallback ? 0 : version);
}

const api: Api<ApiVersionsRequest, ApiVersionsResponse> = {
  key: ApiKey.ApiVersions,
  name: 'ApiVersions',
  versionMin: 0,
  versionMax,
  encode: apiVersionsRequestCodec.encode,
  decode: decodeAnyVersion,
};

function learnFrom(session: VersionLearner, response: ApiVersionsResponse): void {
  const ranges = new Map<number, VersionRange>();
  for (const { apiKey, minVersion, maxVersion } of response.apiKeys) {
    ranges.set(apiKey, { min: minVersion, max: maxVersion });
  }
  session.learn({ ranges });
}

/** Asks on our own account, for a client that begins with something else. */
export async function learnApiVersions(session: VersionLearner): Promise<void> {
  const request = createApiVersionsRequest({
    clientSoftwareName: 'causeway',
    clientSoftwareVersion: '0',
  });
  let response = await session.callUpstream(api, request, { versionMax: 3 });
  if (response.errorCode === ErrorCode.UNSUPPORTED_VERSION) {
    response = await session.callUpstream(api, createApiVersionsRequest(), { versionMax: 0 });
  }
  if (response.errorCode !== ErrorCode.NONE) {
    throw new Error(`the broker answered ApiVersions with error ${response.errorCode}`);
  }
  learnFrom(session, response);
}

/** The answer to a version beyond ours, or null when the frame is something else. */
export function apiVersionsTooNew(frame: Buffer): readonly Buffer[] | null {
  if (frame.length < 8 || frame.readInt16BE(0) !== ApiKey.ApiVersions) return null;
  const apiVersion = frame.readInt16BE(2);
  if (apiVersion >= 0 && apiVersion <= versionMax) return null;
  return fallback(frame.readInt32BE(4), { min: 0, max: versionMax });
}

function fallback(correlationId: number, range: VersionRange): readonly Buffer[] {
  const header = { apiKey: ApiKey.ApiVersions, apiVersion: 0, correlationId, clientId: null };
  const own = { apiKey: ApiKey.ApiVersions, minVersion: range.min, maxVersion: range.max };
  const response = createApiVersionsResponse({
    errorCode: ErrorCode.UNSUPPORTED_VERSION,
    apiKeys: [createApiVersion(own)],
  });
  return responseTo(header, apiVersionsResponseCodec, response);
}

/** The error that KIP-1242's check gives, or 0. */
function identityError(
  role: ListenerRole,
  session: SessionView,
  request: ApiVersionsRequest,
): number {
  const { clusterId, nodeId } = request;
  if (clusterId === null && nodeId < 0) return ErrorCode.NONE;
  if (clusterId === null || nodeId < 0) return ErrorCode.INVALID_REQUEST;
  const own =
    role.kind === 'broker' ? role.nodeId : role.kind === 'link' ? session.services.linkNodeId : -1;
  const isOurs = clusterId === session.services.clusterId && nodeId === own;
  return isOurs ? ErrorCode.NONE : ErrorCode.REBOOTSTRAP_REQUIRED;
}

export async function answerApiVersions(
  session: VersionLearner,
  context: RequestContext,
): Promise<readonly Buffer[]> {
  const { header } = context;
  const request = decodeBody(context, apiVersionsRequestCodec);
  if (request.clientSoftwareName !== '') {
    const [name, version] = [request.clientSoftwareName, request.clientSoftwareVersion].map(
      (text) => beginning(text, softwareCharactersMax),
    );
    session.noteSoftware(name ?? '', version ?? '');
  }
  const errorCode = identityError(session.role, session, request);
  if (errorCode !== ErrorCode.NONE) {
    return responseTo(header, apiVersionsResponseCodec, createApiVersionsResponse({ errorCode }));
  }
  const anonymous = { ...request, clusterId: null, nodeId: -1 };
  const response = await session.callUpstream(api, anonymous, { versionMax: header.apiVersion });
  if (response.errorCode === ErrorCode.UNSUPPORTED_VERSION) {
    const broker = response.apiKeys.find(({ apiKey }) => apiKey === ApiKey.ApiVersions);
    const max = Math.min(versionMax, broker?.maxVersion ?? 0);
    return fallback(header.correlationId, { min: 0, max });
  }
  if (response.errorCode === ErrorCode.NONE) learnFrom(session, response);
  response.apiKeys = response.apiKeys.flatMap((entry) => {
    const upstream = { min: entry.minVersion, max: entry.maxVersion };
    const range = advertisedRange(entry.apiKey, upstream);
    return range === null ? [] : [{ ...entry, minVersion: range.min, maxVersion: range.max }];
  });
  return responseTo(header, apiVersionsResponseCodec, response);
}

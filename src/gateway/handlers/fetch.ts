// Fetch. On the link node mirrors are read here; on a virtual broker ordinary partitions pass
// untouched, a promoted one passes shifted, and what lies in a copy is merged in. Owns the choice
// among these and the stateless session scheme (splice-facts, "Fetch sessions"). Invariants: a
// broker never hears of a mirror; a response that could hold a promoted partition never streams
// past us unshifted, whichever connection its session began on (fetch-session-note.ts). No replica
// of the destination comes this way, so who claims to be one is nobody's replica, whatever rights
// it has and where nobody checks them: it would move a real one's place in the ISR.
import {
  decodeFetchRequest,
  encodeFetchRequest,
  type FetchRequest,
} from '../../../protocol/generated/fetch-request.ts';
import { encodeRequestFrame, Reader } from '../../../protocol/index.ts';
import { refusedReplica, sessionNotFound } from '../fetch-answers.ts';
import { noteOf } from '../fetch-session-note.ts';
import { rewriteFetchFrame, shiftPassing } from '../fetch-shift.ts';
import type { Disposition, Handler, RequestContext } from '../handler.ts';
import { fetchFromMirrors } from '../mirror-fetch.ts';
import { withoutRepeated } from '../repeated-partitions.ts';
import { fetchMerged, type SplitFetch, splitFetch, upstreamRequest } from '../split-merge.ts';

const sessionsFrom = 7;
/**
 * From version 16 on a response may name brokers' addresses in its last bytes. Requests of 15 and
 * later differ only in tags of replicas, and responses only in those addresses: asked as 15, a
 * response can stream through. A leader that it hints at is one that clients know from metadata,
 * which names nobody without a port of ours, or they pass the hint over.
 */
const versionWithoutEndpoints = 15;

export const fetchHandler: Handler = (context) => {
  const { session, header } = context;
  const request = decodeFetchRequest(
    new Reader(context.frame, context.bodyOffset),
    header.apiVersion,
  );
  const isIncremental = header.apiVersion >= sessionsFrom && request.sessionEpoch > 0;
  if (Math.max(request.replicaId, request.replicaState.replicaId) >= 0) {
    const response = isIncremental ? sessionNotFound(header) : refusedReplica(header, request);
    return { kind: 'answer', response: Promise.resolve(response) };
  }
  if (session.role.kind === 'link') {
    if (isIncremental) {
      // We never gave a session id, so it is another node's.
      return { kind: 'answer', response: Promise.resolve(sessionNotFound(header)) };
    }
    const memory = session.services.readMemory.forAnswer();
    const response = fetchFromMirrors(session, header, withoutRepeated(request), memory);
    return { kind: 'answer', response, whenTaken: () => memory.giveBack() };
  }
  const split = splitFetch(session.services, request);
  const mustRewrite = noteOf(session).mayHoldShifted(session, request, split.hasShifted);
  if (!split.hasLocal) return forward(context, request, split, mustRewrite);
  if (isIncremental) {
    return { kind: 'answer', response: Promise.resolve(sessionNotFound(header)) };
  }
  return { kind: 'answer', response: merged(context, request, split) };
};

/** The broker sees to what is repeated in what it is sent; what is answered here is split anew. */
function merged(
  context: RequestContext,
  request: FetchRequest,
  split: SplitFetch,
): Promise<readonly Buffer[]> {
  const { session, header } = context;
  const once = withoutRepeated(request);
  return fetchMerged(session, header, once, {
    split: once === request ? split : splitFetch(session.services, once),
    versionUpstream: versionUpstream(context),
  });
}

function versionUpstream({ session, header }: RequestContext): number {
  const range = session.upstreamVersions.get(header.apiKey);
  const isCapped = header.apiVersion > versionWithoutEndpoints;
  const canCap = range !== undefined && range.min <= versionWithoutEndpoints;
  return isCapped && canCap ? versionWithoutEndpoints : header.apiVersion;
}

function forward(
  context: RequestContext,
  request: FetchRequest,
  split: SplitFetch,
  mustRewrite: boolean,
): Disposition {
  const { session, header } = context;
  const version = versionUpstream(context);
  const mayNameBrokers = version > versionWithoutEndpoints;
  const rewrite =
    mustRewrite || mayNameBrokers
      ? {
          rewrite: (frame: Buffer) => rewriteFetchFrame(session.services, frame, version),
          ...(mayNameBrokers ? {} : { patch: () => shiftPassing(session.services, version) }),
        }
      : noteOf(session).learning(session, request, version);
  if (split.hasShifted) {
    const native = upstreamRequest(request, split.items);
    const changed = encodeRequestFrame({ ...header, apiVersion: version }, (writer) =>
      encodeFetchRequest(writer, native, version),
    );
    return { kind: 'forward', request: changed, ...rewrite };
  }
  if (version === header.apiVersion) return { kind: 'forward', ...rewrite };
  return { kind: 'forward', request: asVersion(context.frame, version), ...rewrite };
}

/** The same frame with another version in its header (api key int16, api version int16, ...). */
function asVersion(frame: Buffer, version: number): readonly Buffer[] {
  const head = Buffer.allocUnsafe(8);
  head.writeInt32BE(frame.length, 0);
  frame.copy(head, 4, 0, 2);
  head.writeInt16BE(version, 6);
  return [head, frame.subarray(4)];
}

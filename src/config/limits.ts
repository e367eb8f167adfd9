// The memory sum (R14): what each part of the service may hold at most, from the limits of the
// parts themselves, and what that makes for one more client connection, one more source broker, and
// the rest. Owns no limit but those of the admin API and the events. Shown by `serve --check`.
import { indexBytesMaxDefault } from '../../storage/index.ts';
import { clusterLimitsDefault } from '../cluster/limits.ts';
import {
  collectedResponseBytesMax,
  connectionsMax,
  heldResponseBytesMax,
  partialRequestBytesMax,
  requestBytesMaxDefault,
  socketBufferBytes,
} from '../gateway/limits.ts';
import { defaultLinkLimits } from '../link/context.ts';

/** A list of 10,000 topics with the longest names fits. */
export const adminBodyBytesMax = 4 * 1024 * 1024;
export const adminConnectionsMax = 256;
/** The last events, for the admin API. */
export const eventsMax = 10_000;
/** A generous guess: a sentence and some fields. */
const eventBytes = 1024;

export interface MemoryTerm {
  readonly what: string;
  /** How many there can be; null: as many as clients or sources make. */
  readonly countMax: number | null;
  /** Of each. */
  readonly bytesMax: number;
}

/** Socket buffers both ways, a request and an answer held whole, and answers out of turn. */
const clientConnectionBytesMax =
  4 * socketBufferBytes + requestBytesMaxDefault + collectedResponseBytesMax + heldResponseBytesMax;

export const memoryTerms: readonly MemoryTerm[] = [
  { what: 'client connection', countMax: connectionsMax, bytesMax: clientConnectionBytesMax },
  { what: 'requests in part, all clients', countMax: 1, bytesMax: partialRequestBytesMax },
  // One Fetch answer is on its way while the one before is appended.
  { what: 'source broker', countMax: null, bytesMax: 2 * defaultLinkLimits.fetchBytesMax },
  {
    what: 'connection of our own to the destination',
    countMax: clusterLimitsDefault.connectionsMax,
    bytesMax: clusterLimitsDefault.frameBytesMax,
  },
  { what: 'admin request', countMax: adminConnectionsMax, bytesMax: adminBodyBytesMax },
  { what: 'index cache of the storage', countMax: 1, bytesMax: indexBytesMaxDefault },
  { what: 'event', countMax: eventsMax, bytesMax: eventBytes },
];

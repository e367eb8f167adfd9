// The memory sum (R14): what each part of the service may hold at most, from the limits of the
// parts themselves, and what that makes for one more client connection, one more connection that
// records are fetched over, and the rest. Owns no limit but those of the admin API and the events.
// Shown by `serve --check`, which knows no links; a start adds up the links that there are.
import { indexBytesMaxDefault } from '../../storage/index.ts';
import { clusterLimitsDefault } from '../cluster/limits.ts';
import {
  clientIdCharactersMax,
  collectedResponseBytesMax,
  connectionsMax,
  heldBytesAlways,
  heldBytesMax,
  keptReadBytesMax,
  partialRequestBytesMax,
  readMemoryPerByteMax,
  receiveBlockSizes,
  receiveBytesMax,
  requestBytesMaxDefault,
  requestHeadBytes,
  verdictBytesMax,
  verdictsAlways,
  verdictsMax,
} from '../gateway/limits.ts';
import { defaultLinkLimits } from '../link/context.ts';
import { type AnswerSizes, besideFetchersBytesMax, fetcherBytesMax } from '../link/fetch/limits.ts';
import { eventBytesMax } from '../observe/events.ts';

/** A list of 10,000 topics with the longest names fits. */
export const adminBodyBytesMax = 4 * 1024 * 1024;
export const adminConnectionsMax = 256;
/** The last events, for the admin API. */
export const eventsMax = 10_000;

export interface MemoryTerm {
  readonly what: string;
  /** How many there can be; null: as many as clients or sources make. */
  readonly countMax: number | null;
  /** Of each. */
  readonly bytesMax: number;
}

const smallestBlockBytes = Math.min(...receiveBlockSizes);
/**
 * What one read brings while memory is short: a block of the smallest size, or a TLS record where
 * Node does not read into blocks. A larger block taken before that may bring more, with TLS many
 * records together. All blocks are limited together, so what they bring over is covered by the sum
 * of all connections, not by what is said of each.
 */
const readBytesMax = Math.max(smallestBlockBytes, 16 * 1024);

/** What a client says of itself, its id and its software, and what is known of its rights. */
const clientWordsBytesMax = 2 * 2 * clientIdCharactersMax + verdictsAlways * verdictBytesMax;
/**
 * With its last request's header and the beginning of the last that passed, as bytes and decoded.
 */
const clientNotesBytesMax = clientWordsBytesMax + 4 * requestHeadBytes;

/**
 * What a connection holds when all that is shared is used up: a block that each side is read into;
 * and each over its little by one read: what both sides still have to be written (a block stays
 * for half of it), requests that wait, answers out of turn, one that is rewritten, and a
 * request that is dealt with.
 */
export const clientConnectionBytesMax =
  2 * smallestBlockBytes + (2 * 2 + 4) * (heldBytesAlways + readBytesMax) + clientNotesBytesMax;

/** By so much whoever comes last may go over what is shared. */
const overshootBytes = Math.max(requestBytesMaxDefault, collectedResponseBytesMax);

const termsWithoutLinks: readonly MemoryTerm[] = [
  { what: 'client connection', countMax: connectionsMax, bytesMax: clientConnectionBytesMax },
  { what: 'requests in part, all clients', countMax: 1, bytesMax: partialRequestBytesMax },
  {
    what: 'answers and requests that are dealt with, all clients',
    countMax: 1,
    bytesMax: heldBytesMax + overshootBytes,
  },
  {
    what: 'memory that sockets are read into, all clients',
    countMax: 1,
    bytesMax: receiveBytesMax,
  },
  {
    what: 'memory of reads of mirrors: kept, and larger than what is held',
    countMax: 1,
    bytesMax: keptReadBytesMax + heldBytesMax * (readMemoryPerByteMax - 1),
  },
  {
    what: "answers about clients' rights, all clients",
    countMax: verdictsMax,
    bytesMax: verdictBytesMax,
  },
  // What describes a whole cluster is asked of one broker at a time.
  {
    what: 'broker of the destination that answers us',
    countMax: null,
    bytesMax: clusterLimitsDefault.frameBytesMax,
  },
  { what: 'admin request', countMax: adminConnectionsMax, bytesMax: adminBodyBytesMax },
  { what: 'index cache of the storage', countMax: 1, bytesMax: indexBytesMaxDefault },
  { what: 'event', countMax: eventsMax, bytesMax: eventBytesMax },
];

const sizesDefault: AnswerSizes = {
  bytesMax: defaultLinkLimits.fetchBytesMax,
  partitionBytesMax: defaultLinkLimits.fetchPartitionBytesMax,
};

const sourceAnswers: MemoryTerm = {
  what: 'source that answers us, but for records',
  countMax: null,
  bytesMax: clusterLimitsDefault.frameBytesMax,
};

/** As links are by default. */
export const memoryTerms: readonly MemoryTerm[] = [
  ...termsWithoutLinks,
  {
    what: 'connection of a link that fetches from a source broker',
    countMax: null,
    bytesMax: fetcherBytesMax(sizesDefault),
  },
  {
    what: 'link, for what is read beside these connections',
    countMax: null,
    bytesMax: besideFetchersBytesMax(sizesDefault),
  },
  sourceAnswers,
];

export interface LinkMemory {
  readonly name: string;
  /** To each broker of its source. */
  readonly fetchersPerBroker: number;
  readonly sizes: AnswerSizes;
}

/** With the links that there are, each with one broker of its source. */
export function memoryTermsOf(links: readonly LinkMemory[]): readonly MemoryTerm[] {
  const ofLinks = links.flatMap(({ name, fetchersPerBroker, sizes }) => [
    {
      what: `link '${name}', fetching from one source broker`,
      countMax: 1,
      bytesMax: fetchersPerBroker * fetcherBytesMax(sizes) + besideFetchersBytesMax(sizes),
    },
    { ...sourceAnswers, countMax: 1 },
  ]);
  return [...termsWithoutLinks, ...ofLinks];
}

/** All that the limits allow, with every client connection at its worst and one broker each. */
export function memoryBytesMax(terms: readonly MemoryTerm[] = memoryTerms): number {
  return terms.reduce((sum, { countMax, bytesMax }) => sum + (countMax ?? 1) * bytesMax, 0);
}

/** A sentence when the limits allow more than the machine has; null when all fits. */
export function memoryWarning(
  machineBytes: number,
  terms: readonly MemoryTerm[] = memoryTerms,
): string | null {
  const bytesMax = memoryBytesMax(terms);
  if (bytesMax <= machineBytes) return null;
  const inGiB = (bytes: number): string => `${(bytes / 2 ** 30).toFixed(1)} GiB`;
  const clientsBytes = clientConnectionBytesMax * connectionsMax;
  return (
    `the limits allow ${inGiB(bytesMax)} in all, this machine has ${inGiB(machineBytes)}: ` +
    `${connectionsMax} client connections at their worst take ${inGiB(clientsBytes)}, ` +
    `all else ${inGiB(bytesMax - clientsBytes)}`
  );
}

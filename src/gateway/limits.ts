// What clients may make the gateway hold at most (R14): of what is large, all connections together;
// of each connection alone, only the little that it may hold while the common limits are reached.
// `src/config/limits.ts` adds it up. Nothing else grows with what a peer sends.

/** Kafka's own default of socket.request.max.bytes. */
export const requestBytesMaxDefault = 100 * 1024 * 1024;

/**
 * Answers that have to be rewritten are held whole: Metadata of 200,000 partitions is some 20 MiB.
 */
export const collectedResponseBytesMax = 256 * 1024 * 1024;

/**
 * Above it an answer that changes no length is patched as it passes. A smaller one is held: then a
 * partition whose standing changed meanwhile is answered retriably, not with a reset.
 */
export const patchedResponseBytesMin = 64 * 1024;

/** Answers that stream through are not held, so only the format limits them. */
export const streamedResponseBytesMax = 0x7fffffff;

/** Requests without an answer yet, per connection; reading pauses above it. */
export const requestsInFlightMax = 1000;

/** Whole requests that wait behind one that is being answered; the client is not read above it. */
export const queuedRequestBytesMax = 256 * 1024;

/** Answers that wait for their turn; the broker is not read above it. */
export const heldResponseBytesMax = 4 * 1024 * 1024;

/**
 * Answers that wait, are written or rewritten, and requests that are being dealt with, of all
 * connections together (`held-bytes.ts`).
 */
export const heldBytesMax = 512 * 1024 * 1024;

/** What mirrors were read into, kept for the next reads when nobody uses it. */
export const keptReadBytesMax = 32 * 1024 * 1024;
/** By no larger part of what is read the memory for it is larger. */
export const readRoundingPart = 1 / 8;
/**
 * What records lie in is at most so many times as large as they are, or they are copied: a reader
 * takes as much as may be wanted, of which a large batch that does not fit leaves little.
 */
export const readMemoryPerByteMax = 1.5;

/** Answers about rights that all connections keep together, and each of them all the same. */
export const verdictsMax = 200_000;
export const verdictsAlways = 16;
/** Of one: a topic's longest name, its answer, and their places in a map. */
export const verdictBytesMax = 768;

/** What is kept of a client's id, and of the name of its software: no real one is as long. */
export const clientIdCharactersMax = 1024;

/** What a connection may hold of each of them all the same. */
export const heldBytesAlways = 16 * 1024;

/** Requests of all connections together that have not come whole yet; above it connections end. */
export const partialRequestBytesMax = 512 * 1024 * 1024;

/** Client connections at one time; one more is closed at once, with an event. */
export const connectionsMax = 10_000;

/** Socket buffers, each direction. */
export const socketBufferBytes = 256 * 1024;

/**
 * Sizes of the blocks that sockets are read into: the smallest for a connection at rest, the
 * largest for one whose reads fill it.
 */
export const receiveBlockSizes: readonly number[] = [8 * 1024, 64 * 1024, 256 * 1024];

/** All blocks together; above it new ones are of the smallest size, two for each connection. */
export const receiveBytesMax = 256 * 1024 * 1024;

/**
 * Of each request so much is waited for before it is decided whether it passes unread, and so much
 * is kept at most of the last header and of the last request that passed, which others are like.
 */
export const requestHeadBytes = 1024;

/**
 * Of a client that has not sent one whole request: Kafka's connections.max.idle.ms. From then on a
 * broker's own limit acts, because every connection has one behind it.
 */
export const silentMsMax = 10 * 60_000;

/**
 * Of a peer that takes nothing of what waits for it, or gives nothing of what is due after the
 * client's FIN: as long as Kafka's connections.max.idle.ms too.
 */
export const stalledMsMax = 10 * 60_000;

/** To one broker; the next one is tried after it when any will do. */
export const connectTimeoutMs = 10_000;

/** Of TLS, from the first byte to the last; a client that needs longer is not one. */
export const handshakeTimeoutMs = 10_000;

/**
 * After we closed our side, how long a peer may take to take what was sent and to close its own.
 */
export const lingerMs = 30_000;

// A promoted topic `orders` (S = 100, n = 8) with its copy and the shell's broker behind a session,
// and fetches of it at a virtual broker.
import assert from 'node:assert/strict';
import {
  type FetchPartition,
  type FetchRequest,
  fetchRequestCodec,
} from '../../../protocol/generated/fetch-request.ts';
import {
  createFetchableTopicResponse,
  createFetchResponse,
  createPartitionData,
  fetchResponseCodec,
  type PartitionData,
} from '../../../protocol/generated/fetch-response.ts';
import { type Ask, exchangeFetch } from './fetch-fixtures.ts';
import { batch, MemoryMirrorLog, marker } from './memory-mirror-log.ts';
import { FakeSession, promotedAt100 } from './read-fixtures.ts';

/** The shell of `orders` holds native offsets from 8 on; `ordinary` is any other topic. */
export function shell(session: FakeSession, fields: Partial<PartitionData> = {}): void {
  session.broker.serve(fetchRequestCodec, fetchResponseCodec, (request, version) =>
    createFetchResponse({
      throttleTimeMs: 3,
      sessionId: request.sessionEpoch >= 0 ? 77 : 0,
      responses: request.topics.map(({ topic, topicId, partitions }) =>
        createFetchableTopicResponse({
          topic,
          topicId,
          partitions: partitions.map(({ partition, fetchOffset }) =>
            createPartitionData({
              partitionIndex: partition,
              highWatermark: 30n,
              lastStableOffset: 28n,
              logStartOffset: version >= 5 ? 0n : -1n,
              abortedTransactions: null,
              records: Buffer.concat([batch(fetchOffset, 2, { epoch: 2 }), batch(20n, 1)]),
              ...fields,
            }),
          ),
        }),
      ),
    }),
  );
}

/** The copy of `orders` holds [0, 100). */
export function copy(): MemoryMirrorLog {
  return new MemoryMirrorLog(
    0n,
    batch(0n, 50, { epoch: 4 }),
    batch(50n, 40, { epoch: 5, producerId: 9n, isTransactional: true }),
    batch(90n, 9, { epoch: 5 }),
    marker(99n, 9n, 'ABORT', 6),
  );
}

export function virtualBroker(log: MemoryMirrorLog | null = copy()): FakeSession {
  const session = new FakeSession({ kind: 'broker', nodeId: 1 });
  session.directory.put({ name: 'orders', mode: 'promoted', log, timeline: promotedAt100() });
  shell(session);
  return session;
}

export async function fetch(
  session: FakeSession,
  asks: readonly Ask[],
  fields: Partial<FetchRequest> = {},
  version = 17,
) {
  return exchangeFetch(session, asks, { maxWaitMs: 500, ...fields }, version);
}

interface Seen {
  readonly version: number;
  readonly message: FetchRequest;
}

function allSeen(session: FakeSession): Seen[] {
  return session.broker.seen
    .filter(({ apiKey }) => apiKey === 1)
    .map(({ version, message: seen }) => ({ version, message: seen as FetchRequest }));
}

const isQuestion = ({ message }: Seen): boolean => message.maxBytes === 1;

/** What was fetched for clients. */
export function fetchesSeen(session: FakeSession): Seen[] {
  return allSeen(session).filter((seen) => !isQuestion(seen));
}

/** What was asked about the shells of copies: one partition of each fetch. */
export function questionsSeen(session: FakeSession): FetchPartition[] {
  return allSeen(session)
    .filter(isQuestion)
    .flatMap(({ message }) => message.topics[0]?.partitions ?? []);
}

export function asked(session: FakeSession, topic = 0): FetchPartition {
  const found = fetchesSeen(session).at(-1)?.message.topics[topic]?.partitions[0];
  assert.ok(found !== undefined);
  return found;
}

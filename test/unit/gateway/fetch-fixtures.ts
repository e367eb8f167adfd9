// What the tests of Fetch share, on the link node and at virtual brokers: a request in one line,
// and one partition out of its answer.
import assert from 'node:assert/strict';
import {
  createFetchPartition,
  createFetchRequest,
  createFetchTopic,
  type FetchPartition,
  type FetchRequest,
  fetchRequestCodec,
} from '../../../protocol/generated/fetch-request.ts';
import {
  type FetchResponse,
  fetchResponseCodec,
  type PartitionData,
} from '../../../protocol/generated/fetch-response.ts';
import { fetchHandler } from '../../../src/gateway/handlers/fetch.ts';
import { type Exchanged, exchange, type FakeSession, ordersId } from './read-fixtures.ts';

const codecs = { request: fetchRequestCodec, response: fetchResponseCodec };

/** One partition asked for, by default of `orders`. */
export interface Ask extends Partial<FetchPartition> {
  readonly name?: string;
  readonly id?: string;
}

function fetchRequest(asks: readonly Ask[], fields: Partial<FetchRequest>): FetchRequest {
  return createFetchRequest({
    minBytes: 1,
    ...fields,
    topics: asks.map(({ name = 'orders', id = ordersId, ...partition }) =>
      createFetchTopic({
        topic: name,
        topicId: id,
        partitions: [createFetchPartition({ partitionMaxBytes: 1_000_000, ...partition })],
      }),
    ),
  });
}

/** One fetch of a client, to its end. */
export function exchangeFetch(
  session: FakeSession,
  asks: readonly Ask[],
  fields: Partial<FetchRequest>,
  version: number,
): Promise<Exchanged<FetchResponse>> {
  return exchange(session, fetchHandler, codecs, version, fetchRequest(asks, fields));
}

/** The first partition of a topic in an answer. */
export function answered(response: FetchResponse, topic = 0): PartitionData {
  const data = response.responses[topic]?.partitions[0];
  assert.ok(data !== undefined);
  return data;
}

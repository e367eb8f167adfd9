// Large answers to Fetch that have to be shifted: they pass while they come in, so that neither a
// slow broker nor a slow reader makes us hold one (R14); and they end with a reset, not with
// unshifted offsets, when a topic's standing changes under them (R8).
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createFetchPartition,
  createFetchRequest,
  createFetchTopic,
  encodeFetchRequest,
} from '../../../protocol/generated/fetch-request.ts';
import {
  createFetchableTopicResponse,
  createFetchResponse,
  createPartitionData,
  decodeFetchResponse,
  encodeFetchResponse,
} from '../../../protocol/generated/fetch-response.ts';
import {
  ApiKey,
  decodeResponseHeader,
  encodeRequestFrame,
  encodeResponseFrame,
  Reader,
} from '../../../protocol/index.ts';
import { fetchHandler } from '../../../src/gateway/handlers/fetch.ts';
import { until } from '../../helpers/wait.ts';
import { batch, MemoryMirrorLog } from './memory-mirror-log.ts';
import { batchesOf, FakeDirectory, ordersId, promotedAt100 } from './read-fixtures.ts';
import { answersLateReader, sessionBetween } from './session-fixtures.ts';

const version = 13;
/** Two answers of these do not fit into what the kernel holds for a connection. */
const batchBytes = 1024 * 1024;
const batchesLarge = 128;

function promoted(directory = new FakeDirectory()): FakeDirectory {
  const log = new MemoryMirrorLog(0n);
  directory.put({ name: 'orders', mode: 'promoted', log, timeline: promotedAt100() });
  return directory;
}

/** From S = 100 on. */
function fetchFrame(correlationId: number): Buffer {
  const request = createFetchRequest({
    maxBytes: 1 << 30,
    sessionEpoch: -1,
    topics: [
      createFetchTopic({
        topicId: ordersId,
        partitions: [createFetchPartition({ fetchOffset: 100n, partitionMaxBytes: 1 << 30 })],
      }),
    ],
  });
  const header = { apiKey: ApiKey.Fetch, apiVersion: version, correlationId, clientId: 'test' };
  return Buffer.concat(
    encodeRequestFrame(header, (writer) => encodeFetchRequest(writer, request, version)),
  );
}

/** Native offsets from n = 8 on, one record each, of epoch 2. */
function answerFrame(correlationId: number, batches: number): Buffer {
  const one = Array.from({ length: batches }, (_, index) =>
    batch(8n + BigInt(index), 1, { epoch: 2, valueBytes: batchBytes }),
  );
  const response = createFetchResponse({
    responses: [
      createFetchableTopicResponse({
        topicId: ordersId,
        partitions: [
          createPartitionData({
            highWatermark: 8n + BigInt(batches),
            abortedTransactions: null,
            records: Buffer.concat(one),
          }),
        ],
      }),
    ],
  });
  const header = { apiKey: ApiKey.Fetch, apiVersion: version, correlationId };
  return Buffer.concat(
    encodeResponseFrame(header, (writer) => encodeFetchResponse(writer, response, version)),
  );
}

test('R14: a shifted answer is at the client while the broker still has its tail', async () => {
  const fixture = await sessionBetween({ handler: fetchHandler, directory: promoted() });
  const { broker, client } = fixture;
  try {
    const answer = answerFrame(1, 2);
    const headBytes = answer.length - 1000;
    broker.script = ({ socket }) => socket.write(answer.subarray(0, headBytes));
    client.socket.write(fetchFrame(1));
    await until('all that the broker has sent', () => client.receivedBytes === headBytes, {
      describe: () => `${client.receivedBytes} of ${headBytes} bytes`,
    });
    broker.seen[0]?.socket.write(answer.subarray(headBytes));
    await until('the answer', () => client.frames.length === 1);
    const reader = new Reader(client.frames[0] ?? Buffer.alloc(0));
    assert.equal(decodeResponseHeader(reader, ApiKey.Fetch, version).correlationId, 1);
    const [data] = decodeFetchResponse(reader, version).responses[0]?.partitions ?? [];
    assert.equal(data?.highWatermark, 102n);
    assert.deepEqual(
      batchesOf(data?.records ?? null).map(({ base }) => base),
      [100n, 101n],
    );
  } finally {
    fixture.close();
  }
});

test('R14: a reader that does not read stops the broker in the middle of a shifted answer', async () => {
  const fixture = await sessionBetween({
    handler: fetchHandler,
    directory: promoted(),
    keepsFrames: false,
  });
  try {
    const answer = answerFrame(1, batchesLarge);
    await answersLateReader(fixture, {
      request: fetchFrame(1),
      answerBytes: answer.length,
      piece: (sentBytes) => answer.subarray(sentBytes, sentBytes + batchBytes),
    });
  } finally {
    fixture.close();
  }
});

test('R8: a large answer for a topic that is no longer promoted ends with a reset', async () => {
  const directory = promoted();
  const fixture = await sessionBetween({ handler: fetchHandler, directory });
  const { broker, client } = fixture;
  try {
    broker.script = ({ socket }) => {
      directory.put({ name: 'orders', mode: 'mirror', log: new MemoryMirrorLog(0n) });
      socket.write(answerFrame(1, 2));
    };
    client.socket.write(fetchFrame(1));
    await until('the close', () => client.isClosed);
    assert.match(String(client.error), /ECONNRESET/);
    assert.ok(client.receivedBytes < 1000, 'no records reached the client');
    assert.match(fixture.summaries[0]?.reason ?? '', /the standing of .* changed/);
  } finally {
    fixture.close();
  }
});

// The walk over Produce answers against the generated codec: an address is never missed, and an
// answer without one is hardly ever taken for one that has to be decoded.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  createBatchIndexAndErrorMessage,
  createLeaderIdAndEpoch,
  createNodeEndpoint,
  createPartitionProduceResponse,
  createProduceResponse,
  createTopicProduceResponse,
  encodeProduceResponse,
  produceResponseCodec,
} from '../../protocol/generated/produce-response.ts';
import {
  ApiKey,
  decodeResponseHeader,
  encodeResponseFrame,
  mayNameEndpoints,
  ProtocolError,
  Reader,
  zeroUuid,
} from '../../protocol/index.ts';

const text = fc.option(fc.string({ maxLength: 200 }));
const unknownTags = fc.option(
  fc.record({
    tag: fc.constant(9),
    data: fc.uint8Array({ maxLength: 20 }).map((value) => Buffer.from(value)),
  }),
  { nil: undefined },
);

const responses = fc.record({
  version: fc.integer({ min: 10, max: 13 }),
  topics: fc.array(
    fc.record({
      name: fc.string({ minLength: 1, maxLength: 200 }),
      partitions: fc.array(
        fc.record({
          leaderId: fc.integer({ min: -1, max: 3 }),
          errorMessage: text,
          recordErrors: fc.array(text, { maxLength: 3 }),
          tag: unknownTags,
        }),
        { maxLength: 4 },
      ),
    }),
    { maxLength: 4 },
  ),
  endpoints: fc.array(fc.integer({ min: 0, max: 5 }), { maxLength: 2 }),
  tag: unknownTags,
});

type Generated = typeof responses extends fc.Arbitrary<infer Value> ? Value : never;

function frameOf({ version, topics, endpoints, tag }: Generated): Buffer {
  const message = createProduceResponse({
    responses: topics.map(({ name, partitions }) =>
      createTopicProduceResponse({
        name: version >= 13 ? '' : name,
        topicId: version >= 13 ? 'BAAAAAAAAAAAAAAAAAAAAA' : zeroUuid,
        partitionResponses: partitions.map((partition, index) =>
          createPartitionProduceResponse({
            index,
            errorMessage: partition.errorMessage,
            recordErrors: partition.recordErrors.map((batchIndexErrorMessage, batchIndex) =>
              createBatchIndexAndErrorMessage({ batchIndex, batchIndexErrorMessage }),
            ),
            currentLeader: createLeaderIdAndEpoch({ leaderId: partition.leaderId }),
            unknownTags: partition.tag && [partition.tag],
          }),
        ),
      }),
    ),
    nodeEndpoints: endpoints.map((nodeId) => createNodeEndpoint({ nodeId, host: 'h', port: 1 })),
    unknownTags: tag && [tag],
  });
  const header = { apiKey: ApiKey.Produce, apiVersion: version, correlationId: 1 };
  const chunks = encodeResponseFrame(header, (writer) =>
    encodeProduceResponse(writer, message, version),
  );
  return Buffer.concat(chunks).subarray(4);
}

test('R2: an answer names addresses exactly when its last tagged fields say so', () => {
  fc.assert(
    fc.property(responses, (response) => {
      const expected = response.endpoints.length > 0 || response.tag !== undefined;
      assert.equal(mayNameEndpoints(frameOf(response), response.version), expected);
    }),
  );
});

test('R2: bytes that are taken for an answer without addresses decode as one', () => {
  const cut = fc.record({ at: fc.nat(), to: fc.integer({ min: 0, max: 255 }), keep: fc.nat() });
  fc.assert(
    fc.property(responses, cut, (response, { at, to, keep }) => {
      const whole = frameOf(response);
      whole[at % whole.length] = to;
      const frame = whole.subarray(0, keep % (whole.length + 1));
      if (mayNameEndpoints(frame, response.version)) return;
      const reader = new Reader(frame);
      try {
        decodeResponseHeader(reader, ApiKey.Produce, response.version);
        const decoded = produceResponseCodec.decode(reader, response.version);
        assert.deepEqual(decoded.nodeEndpoints, []);
      } catch (error) {
        // Strange, but without an address.
        assert.ok(error instanceof ProtocolError);
      }
    }),
  );
});

// Requests of clients as they come, and one of our own, for tests of sessions. Owns their bytes;
// refuses to know what becomes of them.
import {
  createPartitionProduceData,
  createProduceRequest,
  createTopicProduceData,
  encodeProduceRequest,
} from '../../../protocol/generated/produce-request.ts';
import { ApiKey, encodeRequestFrame, type Reader } from '../../../protocol/index.ts';
import { requestFrame } from './wire-fixtures.ts';

/** With its prefix; the body is not looked into. */
export function heartbeat(correlationId: number, body?: Buffer): Buffer {
  return requestFrame({ apiKey: ApiKey.Heartbeat, apiVersion: 0, correlationId }, body);
}

/** For a call of our own that is answered with four bytes. */
export const heartbeatApi = {
  key: ApiKey.Heartbeat,
  name: 'Heartbeat',
  versionMin: 0,
  versionMax: 0,
  encode: () => undefined,
  decode: (reader: Reader) => reader.readInt32(),
};

interface ProduceShape {
  readonly names: readonly string[];
  readonly recordsBytes?: number;
  readonly acks?: number;
  readonly correlationId?: number;
}

/** To partition 0 of each topic, with its prefix. */
export function produceFrame(shape: ProduceShape): Buffer {
  const { names, recordsBytes = 2000, acks = 1, correlationId = 1 } = shape;
  const header = { apiKey: ApiKey.Produce, apiVersion: 9, correlationId, clientId: 'test' };
  const message = createProduceRequest({
    acks,
    topicData: names.map((name) =>
      createTopicProduceData({
        name,
        partitionData: [
          createPartitionProduceData({ index: 0, records: Buffer.alloc(recordsBytes) }),
        ],
      }),
    ),
  });
  return Buffer.concat(
    encodeRequestFrame(header, (writer) => encodeProduceRequest(writer, message, 9)),
  );
}

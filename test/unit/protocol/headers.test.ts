// Request and response headers: which version goes with which API, and the exceptions.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  ApiKey,
  apiName,
  apis,
  decodeRequestHeader,
  decodeResponseHeader,
  ErrorCode,
  encodeRequestFrame,
  encodeResponseFrame,
  errorName,
  findApi,
  isRetriable,
  loadMessage,
  ProtocolError,
  Reader,
  requestHeaderVersion,
  responseHeaderVersion,
} from '../../../protocol/index.ts';

function body(frame: Buffer[]): Reader {
  const whole = Buffer.concat(frame);
  assert.equal(whole.readInt32BE(0), whole.length - 4);
  return new Reader(whole, 4);
}

test('request headers: version 2 from the flexible version on, the client id never compact', () => {
  const header = { apiVersion: 8, correlationId: 7, clientId: 'é' };
  const old = encodeRequestFrame({ ...header, apiKey: ApiKey.Metadata }, () => undefined);
  assert.equal(Buffer.concat(old).toString('hex'), '0000000c00030008000000070002c3a9');
  const flexible = { ...header, apiKey: ApiKey.Metadata, apiVersion: 9 };
  const tags = [{ tag: 5, data: Buffer.from('x') }];
  const frame = encodeRequestFrame({ ...flexible, unknownTags: tags }, (w) => w.writeInt8(1));
  assert.equal(Buffer.concat(frame).toString('hex'), '0000001100030009000000070002c3a90105017801');
  const reader = body(frame);
  assert.deepEqual(decodeRequestHeader(reader), { ...flexible, unknownTags: tags });
  assert.equal(reader.readInt8(), 1);
});

test('a request in a version that nobody knows yet still has a readable header', () => {
  const header = { apiKey: ApiKey.ApiVersions, apiVersion: 99, correlationId: 1, clientId: null };
  const decoded = decodeRequestHeader(body(encodeRequestFrame(header, () => undefined)));
  assert.deepEqual(decoded, { ...header, unknownTags: undefined });
});

test('an unknown API key is refused by name', () => {
  const frame = Buffer.from('03e700000000000100', 'hex');
  assert.throws(
    () => decodeRequestHeader(new Reader(frame)),
    (error: unknown) => error instanceof ProtocolError && error.code === 'UNKNOWN_API',
  );
  assert.throws(() => responseHeaderVersion(999, 0), /API key 999/);
  assert.equal(findApi(999), undefined);
  assert.equal(apiName(999), 'Api999');
});

test('response headers: ApiVersions answers stay at version 0', () => {
  assert.equal(responseHeaderVersion(ApiKey.ApiVersions, 4), 0);
  assert.equal(requestHeaderVersion(ApiKey.ApiVersions, 4), 2);
  assert.equal(responseHeaderVersion(ApiKey.Fetch, 11), 0);
  assert.equal(responseHeaderVersion(ApiKey.Fetch, 12), 1);
  // Never flexible.
  assert.equal(requestHeaderVersion(ApiKey.SaslHandshake, 1), 1);
  assert.equal(responseHeaderVersion(ApiKey.OffsetDelete, 0), 0);
  const header = { apiKey: ApiKey.Fetch, apiVersion: 12, correlationId: -5 };
  const reader = body(encodeResponseFrame(header, (writer) => writer.writeInt16(3)));
  const decoded = decodeResponseHeader(reader, ApiKey.Fetch, 12);
  assert.deepEqual(decoded, { correlationId: -5, unknownTags: undefined });
  assert.equal(reader.readInt16(), 3);
});

test('large bodies are spliced into the frame, and the size counts them', () => {
  const records = Buffer.alloc(100_000, 1);
  const header = { apiKey: ApiKey.Fetch, apiVersion: 12, correlationId: 1 };
  const frame = encodeResponseFrame(header, (writer) => writer.writeCompactBytes(records));
  assert.ok(frame.includes(records), 'the same buffer, not a copy');
  body(frame);
});

test('the tables hold the release: keys, ranges, error codes', () => {
  assert.equal(apis.length, 95);
  const initProducerId = findApi(ApiKey.InitProducerId);
  assert.equal(initProducerId?.versionMax, 5);
  assert.equal(initProducerId?.versionLatest, 6, 'unstable, with a schema');
  assert.equal(findApi(4)?.versionMax, -1, 'LeaderAndIsr has no version left');
  assert.equal(apiName(ApiKey.DescribeQuorum), 'DescribeQuorum');
  assert.equal(ErrorCode.POLICY_VIOLATION, 44);
  assert.equal(errorName(6), 'NOT_LEADER_OR_FOLLOWER');
  assert.equal(errorName(-1), 'UNKNOWN_SERVER_ERROR');
  assert.equal(errorName(4711), 'ERROR_4711');
  assert.ok(isRetriable(ErrorCode.NOT_LEADER_OR_FOLLOWER));
  assert.ok(!isRetriable(ErrorCode.BROKER_NOT_AVAILABLE));
  assert.ok(!isRetriable(ErrorCode.POLICY_VIOLATION));
});

test('bodies are loaded by key and direction', async () => {
  const request = await loadMessage(ApiKey.Produce, 'request');
  assert.deepEqual(
    [request.name, request.versionMin, request.versionMax],
    ['ProduceRequest', 3, 13],
  );
  assert.equal((await loadMessage(ApiKey.Produce, 'response')).name, 'ProduceResponse');
  await assert.rejects(loadMessage(4, 'request'), /no request for API key 4/);
});

/**
 * Every message, every version: defaults survive encode and decode, and errors name their place.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createFetchRequest,
  createFetchTopic,
  decodeFetchRequest,
  encodeFetchRequest,
} from '../../../protocol/generated/fetch-request.ts';
import {
  loadMessageByName,
  messageNames,
  ProtocolError,
  Reader,
  Writer,
} from '../../../protocol/index.ts';

test('defaults of every message survive encode and decode in every version', async () => {
  let pairs = 0;
  for (const name of messageNames()) {
    const codec = await loadMessageByName(name);
    for (let version = codec.versionMin; version <= codec.versionMax; version++) {
      const writer = new Writer();
      codec.encode(writer, codec.create(), version);
      const reader = new Reader(writer.toBuffer());
      assert.deepEqual(codec.decode(reader, version), codec.create(), `${name} v${version}`);
      assert.equal(reader.remaining, 0, `${name} v${version}`);
      pairs++;
    }
  }
  assert.ok(pairs > 570, `only ${pairs} pairs`);
});

test('a field that the version lacks is refused unless it is ignorable or at its default', () => {
  const writer = new Writer();
  const withTags = createFetchRequest({ replicaState: { replicaId: 3, replicaEpoch: 4n } });
  assert.throws(
    () => encodeFetchRequest(writer, withTags, 14),
    (error: unknown) =>
      error instanceof ProtocolError &&
      error.code === 'UNSUPPORTED_VERSION' &&
      error.messageName === 'FetchRequest' &&
      error.version === 14 &&
      error.field === 'FetchRequest.replicaState',
  );
  const ignorable = createFetchRequest({ rackId: 'a', topics: [createFetchTopic()] });
  encodeFetchRequest(new Writer(), ignorable, 4);
});

test('a truncated message says which message, version, field and offset', () => {
  const writer = new Writer();
  encodeFetchRequest(writer, createFetchRequest(), 12);
  const cut = writer.toBuffer().subarray(0, 6);
  assert.throws(
    () => decodeFetchRequest(new Reader(cut), 12),
    (error: unknown) =>
      error instanceof ProtocolError &&
      error.code === 'TRUNCATED' &&
      error.field === 'FetchRequest.maxWaitMs' &&
      error.offset === 4 &&
      /FetchRequest v12, field FetchRequest\.maxWaitMs, offset 4/.test(error.message),
  );
});

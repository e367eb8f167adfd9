// The formats of state records against their golden files, and what is refused.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { decodeRecord, encodeRecord, formatVersions } from '../../../src/state/record-format.ts';
import { type StateRecord, stateKey } from '../../../src/state/records.ts';
import { StateError } from '../../../src/state/state.ts';
import { rootDirectory } from '../../helpers/repository.ts';
import { records } from './golden-records.ts';

/**
 * Records that were there before their kind's format changed: by name, the versions with a file.
 */
const olderVersions: Readonly<Record<string, readonly number[]>> = {
  topic: [1, 2, 3, 4, 5],
  'topic-pending': [1, 2, 3, 4, 5],
  'topic-auto': [2, 3, 4, 5],
  'topic-atomic': [3, 4, 5],
  'topic-chained': [4, 5],
  'topic-lost': [4, 5],
  'topic-unseen': [4, 5],
  'topic-fenced': [4, 5],
  'topic-detaching': [4, 5],
  'topic-linked': [5],
  'topic-archived': [5],
  'topic-archiving': [5],
  'link-acls': [1],
  lease: [1],
  'source-seen': [1],
};

function golden(name: string, version = formatVersions[records[name]?.kind ?? 'link']): string {
  const file = path.join(rootDirectory, 'test', 'golden', 'state', `${name}.v${version}.txt`);
  return readFileSync(file, 'utf8');
}

function isCorrupt(pattern: RegExp) {
  return (error: unknown): boolean => {
    assert.ok(error instanceof StateError, String(error));
    assert.equal(error.code, 'CORRUPT');
    assert.match(error.message, pattern);
    return true;
  };
}

for (const [name, record] of Object.entries(records)) {
  test(`${name}: the golden file is what we write and read`, () => {
    assert.equal(encodeRecord(record), golden(name));
    assert.deepEqual(decodeRecord(stateKey(record), golden(name)), record);
  });
}

for (const [name, versions] of Object.entries(olderVersions)) {
  for (const version of versions) {
    test(`${name}: what version ${version} wrote is read, and written anew as the newest`, () => {
      const record = records[name];
      assert.ok(record);
      const read = decodeRecord(stateKey(record), golden(name, version));
      assert.deepEqual(read, record);
      assert.equal(encodeRecord(read), golden(name));
    });
  }
}

test('a receipt of the first format says what it does not know', () => {
  const read = decodeRecord('receipt/failover-1', golden('receipt', 1));
  assert.ok(read.kind === 'receipt');
  const [topic] = read.topics;
  assert.deepEqual(
    [topic?.groups, topic?.groupsCount, topic?.historyCopies, topic?.completedTimeMs],
    [[], 0, 1, -1],
  );
  const [partition] = topic?.partitions ?? [];
  assert.deepEqual(
    [partition?.mirroredEnd, partition?.lostBytes, partition?.lostSeconds, partition?.found],
    [99n, -1n, -1, null],
  );
});

test('a receipt of the second format does not know of duplicates', () => {
  const read = decodeRecord('receipt/failover-1', golden('receipt', 2));
  assert.ok(read.kind === 'receipt');
  const [topic] = read.topics;
  assert.deepEqual(topic?.duplicates, {
    expected: -1n,
    possible: -1n,
    readTimeMs: -1,
    groups: [],
    groupsCount: 0,
  });
  assert.deepEqual([topic?.groupsCount, topic?.completedTimeMs], [1, 1_700_000_009_000]);
});

test('an older format has none of the newer fields', () => {
  const older = golden('topic-auto').replace('"v":6', '"v":1');
  assert.throws(() => decodeRecord('topic/eu.orders', older), isCorrupt(/"syncedConfigs" is not/));
});

test('the order of fields does not depend on who made the record', () => {
  const shuffled = Object.fromEntries(Object.entries(records.link ?? {}).reverse());
  assert.equal(encodeRecord(shuffled as unknown as StateRecord), golden('link'));
});

test('a newer format is refused by its version', () => {
  const newer = golden('topic').replace('"v":6', '"v":7');
  assert.throws(() => decodeRecord('topic/orders', newer), isCorrupt(/topic\/orders.*version 7/));
});

test('what is wrong is named', () => {
  const cases: [string, string, string, RegExp][] = [
    ['topic/orders', '"state":"STOPPED"', '"state":"GONE"', /"state" has the unknown value "GONE"/],
    ['topic/orders', '"link":"dr",', '', /"link" is missing/],
    ['topic/orders', '"start":"10"', '"start":10', /extents\[0\]: field "start" is not a string/],
    ['topic/orders', '"start":"10"', '"start":"1e3"', /not a decimal number/],
    ['topic/orders', '"start":"10"', '"start":"9223372036854775808"', /exceeds 64 bits/],
    ['topic/orders', '"link":"dr"', '"link":"dr","future":1', /"future" is not known/],
    ['topic/other', '"v":6', '"v":6', /does not belong under the key "topic\/other"/],
    ['topic/orders', '"kind":"topic"', '"kind":"hologram"', /unknown value "hologram"/],
    ['topic/orders', '{', '', /not JSON/],
  ];
  for (const [key, from, to, pattern] of cases) {
    const text = golden('topic').replace(from, to);
    assert.throws(() => decodeRecord(key, text), isCorrupt(pattern));
  }
});

test('a record that could not be read back is not written', () => {
  const fractional = { ...records.lease, renewedTimeMs: 1.5 } as StateRecord;
  assert.throws(() => encodeRecord(fractional), isCorrupt(/"renewedTimeMs" is not an integer/));
});

// The formats of state records against their golden files, and what is refused.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { decodeRecord, encodeRecord, formatVersions } from '../../../src/state/record-format.ts';
import { type StateRecord, stateKey } from '../../../src/state/records.ts';
import { StateError } from '../../../src/state/state.ts';
import { virtualEpoch, virtualOffset } from '../../../src/timeline/offsets.ts';
import { rootDirectory } from '../../helpers/repository.ts';

const records: Readonly<Record<string, StateRecord>> = {
  link: {
    kind: 'link',
    name: 'dr',
    linkId: 'AAAAAAAAAAAAAAAAAAAAAQ',
    sourceClusterId: 'MkU3OEVBNTcwNTJENDM2Qg',
    configs: { 'bootstrap.servers': 'source:9092', 'sasl.jaas.config': `\${env:JAAS}` },
    paused: false,
    createdTimeMs: 1_700_000_000_000,
  },
  topic: {
    kind: 'topic',
    name: 'orders',
    topicId: 'AAAAAAAAAAAAAAAAAAAAAg',
    link: 'dr',
    sourceTopic: 'orders',
    sourceTopicId: 'AAAAAAAAAAAAAAAAAAAAAw',
    state: 'STOPPED',
    stateTimeMs: 1_700_000_000_001,
    error: { code: 'LOST_HISTORY', message: 'offsets 5 to 9 of partition 0' },
    partitions: [
      {
        extents: [
          {
            where: 'mirror',
            start: virtualOffset(10n),
            end: virtualOffset(9_007_199_254_740_993n),
          },
          {
            where: 'native',
            start: virtualOffset(9_007_199_254_740_993n),
            end: null,
            offsetShift: 9_007_199_254_740_990n,
            epochShift: 41,
            firstEpoch: virtualEpoch(42),
          },
        ],
      },
      { extents: [{ where: 'mirror', start: virtualOffset(0n), end: null }] },
    ],
    stoppedBy: 'failover',
  },
  'topic-auto': {
    kind: 'topic',
    name: 'eu.orders',
    topicId: 'AAAAAAAAAAAAAAAAAAAAAg',
    link: 'dr',
    sourceTopic: 'orders',
    sourceTopicId: 'AAAAAAAAAAAAAAAAAAAAAw',
    state: 'PAUSED',
    stateTimeMs: 1_700_000_000_005,
    error: null,
    partitions: [{ extents: [{ where: 'mirror', start: virtualOffset(0n), end: null }] }],
    stoppedBy: null,
    syncedConfigs: { 'cleanup.policy': 'delete', 'retention.ms': '1000' },
    auto: { isFilteredOut: true },
  },
  'link-acls': {
    kind: 'link-acls',
    link: 'dr',
    acls: [
      {
        resourceType: 2,
        resourceName: 'orders',
        patternType: 3,
        principal: 'User:app',
        host: '*',
        operation: 3,
        permissionType: 3,
      },
    ],
  },
  'link-acls-held': {
    kind: 'link-acls',
    link: 'dr',
    acls: [],
    held: [
      {
        resourceType: 2,
        resourceName: 'orders',
        patternType: 4,
        principal: 'User:app',
        host: '*',
        operation: 4,
        permissionType: 3,
      },
    ],
  },
  'topic-grants': {
    kind: 'topic-grants',
    topic: 'orders',
    link: 'dr',
    acls: [
      {
        resourceType: 2,
        resourceName: 'orders',
        patternType: 3,
        principal: 'User:app',
        host: '*',
        operation: 4,
        permissionType: 3,
      },
    ],
  },
  'share-groups': {
    kind: 'share-groups',
    link: 'dr',
    offsets: [
      { group: 'workers', topic: 'orders', partition: 1, startOffset: 9_007_199_254_740_993n },
    ],
  },
  handovers: {
    kind: 'handovers',
    link: 'dr',
    waiting: [{ group: 'app', actor: 'ops', deadlineTimeMs: 1_700_000_300_000 }],
  },
  'topic-chained': {
    kind: 'topic',
    name: 'orders',
    topicId: 'AAAAAAAAAAAAAAAAAAAAAg',
    link: 'dr',
    sourceTopic: 'orders',
    sourceTopicId: 'AAAAAAAAAAAAAAAAAAAAAw',
    state: 'ACTIVE',
    stateTimeMs: 1_700_000_000_008,
    error: null,
    partitions: [{ extents: [{ where: 'mirror', start: virtualOffset(0n), end: null }] }],
    stoppedBy: null,
    origins: ['MkU3OEVBNTcwNTJENDM2Qg', 'MkU3OEVBNTcwNTJENDM2Qw'],
  },
  'topic-pending': {
    kind: 'topic',
    name: 'payments',
    topicId: null,
    link: 'dr',
    sourceTopic: 'payments',
    sourceTopicId: 'AAAAAAAAAAAAAAAAAAAAAA',
    state: 'PENDING_MIRROR',
    stateTimeMs: 1_700_000_000_002,
    error: null,
    partitions: [],
    stoppedBy: null,
    creating: { replicationFactor: -1, configs: { 'retention.ms': '1000' } },
    stopping: {
      command: 'failover',
      actor: 'ops',
      deadlineTimeMs: -1,
      cuts: [{ partition: 0, offset: 17n }],
    },
  },
  'topic-lost': {
    kind: 'topic',
    name: 'orders',
    topicId: null,
    link: 'dr',
    sourceTopic: 'orders',
    sourceTopicId: 'AAAAAAAAAAAAAAAAAAAAAw',
    state: 'PENDING_MIRROR',
    stateTimeMs: 1_700_000_000_009,
    error: null,
    partitions: [],
    stoppedBy: null,
    creating: { replicationFactor: 3, configs: {}, startOffset: 'latest' },
    lost: [{ partition: 2, from: 5n, to: 9_007_199_254_740_993n, timeMs: 1_700_000_000_008 }],
  },
  'topic-lost-often': {
    ...{ kind: 'topic', name: 'orders', topicId: 'AAAAAAAAAAAAAAAAAAAAAg', link: 'dr' },
    ...{ sourceTopic: 'orders', sourceTopicId: 'AAAAAAAAAAAAAAAAAAAAAw', state: 'ACTIVE' },
    ...{ stateTimeMs: 1_700_000_000_010, error: null, stoppedBy: null },
    partitions: [{ extents: [{ where: 'mirror', start: virtualOffset(0n), end: null }] }],
    lost: [{ partition: 0, from: 50n, to: 60n, timeMs: 1_700_000_000_009 }],
    madeTimeMs: 1_700_000_000_001,
    lostBefore: [{ partition: 0, ranges: 3, records: 9_007_199_254_740_993n }],
  },
  'topic-unseen': {
    kind: 'topic',
    name: 'orders',
    topicId: 'AAAAAAAAAAAAAAAAAAAAAg',
    link: 'dr',
    sourceTopic: 'orders',
    sourceTopicId: 'AAAAAAAAAAAAAAAAAAAAAw',
    state: 'ACTIVE',
    stateTimeMs: 1_700_000_000_010,
    error: null,
    partitions: [{ extents: [{ where: 'mirror', start: virtualOffset(0n), end: null }] }],
    stoppedBy: null,
    syncedConfigs: { 'cleanup.policy': 'compact' },
    unseenCleaning: [0],
  },
  'topic-linked': {
    kind: 'topic',
    name: 'orders',
    topicId: 'AAAAAAAAAAAAAAAAAAAAAg',
    link: 'dr',
    linkId: 'AAAAAAAAAAAAAAAAAAAAAQ',
    sourceTopic: 'orders',
    sourceTopicId: 'AAAAAAAAAAAAAAAAAAAAAw',
    state: 'ACTIVE',
    stateTimeMs: 1_700_000_000_011,
    error: null,
    partitions: [{ extents: [{ where: 'mirror', start: virtualOffset(0n), end: null }] }],
    stoppedBy: null,
  },
  'topic-archived': {
    kind: 'topic',
    name: 'orders-before',
    topicId: 'AAAAAAAAAAAAAAAAAAAAAQ',
    link: 'dr',
    sourceTopic: 'orders',
    sourceTopicId: 'AAAAAAAAAAAAAAAAAAAAAw',
    state: 'STOPPED',
    stateTimeMs: 1_700_000_000_011,
    error: null,
    partitions: [{ extents: [{ where: 'mirror', start: virtualOffset(0n), end: null }] }],
    stoppedBy: 'failover',
    logTopicId: 'AAAAAAAAAAAAAAAAAAAAAg',
  },
  'topic-archiving': {
    kind: 'topic',
    name: 'orders-before',
    topicId: null,
    link: 'dr',
    sourceTopic: 'orders',
    sourceTopicId: 'AAAAAAAAAAAAAAAAAAAAAw',
    state: 'PENDING_MIRROR',
    stateTimeMs: 1_700_000_000_012,
    error: null,
    partitions: [],
    stoppedBy: null,
    creating: { replicationFactor: 3, configs: {}, archivedPartitions: 6 },
  },
  'topic-atomic': {
    kind: 'topic',
    name: 'orders',
    topicId: 'AAAAAAAAAAAAAAAAAAAAAg',
    link: 'dr',
    sourceTopic: 'orders',
    sourceTopicId: 'AAAAAAAAAAAAAAAAAAAAAw',
    state: 'PENDING_STOPPED',
    stateTimeMs: 1_700_000_000_006,
    error: null,
    partitions: [{ extents: [{ where: 'mirror', start: virtualOffset(0n), end: null }] }],
    stoppedBy: null,
    stopping: {
      command: 'promote',
      actor: 'ops',
      deadlineTimeMs: 1_700_000_300_000,
      cuts: [],
      atomic: { id: 'abc', count: 3 },
    },
  },
  'topic-fenced': {
    kind: 'topic',
    name: 'orders',
    topicId: 'AAAAAAAAAAAAAAAAAAAAAg',
    link: 'dr',
    sourceTopic: 'orders',
    sourceTopicId: 'AAAAAAAAAAAAAAAAAAAAAw',
    state: 'PENDING_STOPPED',
    stateTimeMs: 1_700_000_000_007,
    error: null,
    partitions: [{ extents: [{ where: 'mirror', start: virtualOffset(0n), end: null }] }],
    stoppedBy: null,
    stopping: {
      command: 'promote',
      actor: 'ops',
      deadlineTimeMs: 1_700_000_300_000,
      cuts: [],
      fenceSource: true,
    },
    fence: {
      acls: [
        {
          resourceType: 2,
          resourceName: 'orders',
          patternType: 3,
          principal: 'User:*',
          host: '*',
          operation: 4,
          permissionType: 2,
        },
      ],
    },
  },
  'topic-detaching': {
    kind: 'topic',
    name: 'orders',
    topicId: 'AAAAAAAAAAAAAAAAAAAAAg',
    link: 'dr',
    sourceTopic: 'orders',
    sourceTopicId: 'AAAAAAAAAAAAAAAAAAAAAw',
    state: 'STOPPED',
    stateTimeMs: 1_700_000_000_008,
    error: null,
    partitions: [],
    stoppedBy: 'promote',
    detaching: {
      actor: 'ops',
      step: 'forward',
      commits: [{ group: 'app', partition: 0, from: 105n, to: 5n }],
    },
  },
  'node-ports': { kind: 'node-ports', ports: { '1': 9093, '1000000': 9192 } },
  storage: { kind: 'storage', directoryId: 'AAAAAAAAAAAAAAAAAAAABA' },
  lease: {
    kind: 'lease',
    instanceId: '5b1f7a36-0000-4000-8000-000000000000',
    host: 'proxy-1',
    pid: 4711,
    renewedTimeMs: 1_700_000_000_003,
    released: false,
  },
  'lease-placed': {
    kind: 'lease',
    instanceId: '5b1f7a36-0000-4000-8000-000000000000',
    host: 'proxy-1',
    pid: 4711,
    place: '8a1d0c52-0000-4000-8000-000000000000 pid:[4026532281]',
    renewedTimeMs: 1_700_000_000_003,
    released: false,
  },
  'log-removal': { kind: 'log-removal', topicId: 'AAAAAAAAAAAAAAAAAAAAAg' },
  receipt: {
    kind: 'receipt',
    id: 'failover-1',
    command: 'failover',
    actor: 'ops',
    timeMs: 1_700_000_000_004,
    topics: [
      {
        topic: 'orders',
        link: 'dr',
        partitions: [
          {
            partition: 0,
            virtualEnd: 100n,
            nativeEnd: 2n,
            firstEpoch: 42,
            sourceEnd: 109n,
            mirroredEnd: 99n,
            lostRecords: 10n,
            lostBytes: 1_000n,
            lostSeconds: 3,
            lastContactTimeMs: 1_700_000_000_000,
            abortedTransactions: 1,
            found: { sourceEnd: 111n, lostRecords: 12n },
          },
        ],
        groups: [{ group: 'app', partition: 0, oldOffset: 105n, newOffset: 100n }],
        groupsCount: 1,
        duplicates: {
          expected: 5n,
          possible: 9n,
          readTimeMs: 1_699_999_999_000,
          groups: [{ group: 'app', partition: 0, position: 90n, expected: 5n, possible: 9n }],
          groupsCount: 1,
        },
        historyCopies: 1,
        completedTimeMs: 1_700_000_009_000,
      },
    ],
  },
};

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

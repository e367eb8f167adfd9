// Receipts as they are read out of the state topic, of every format that there was
// (record-format.ts has the numbers). Refuses to know where they are. Invariant: what an older
// format did not have is unknown (-1, null, empty), never 0.
import type { Fields } from './fields.ts';
import type {
  ReceiptDuplicates,
  ReceiptGroup,
  ReceiptPartition,
  ReceiptRecord,
  ReceiptTopic,
} from './records.ts';

export const switchCommands = ['promote', 'failover'] as const;

function readFound(fields: Fields): { sourceEnd: bigint; lostRecords: bigint } {
  return { sourceEnd: fields.bigint('sourceEnd'), lostRecords: fields.bigint('lostRecords') };
}

function readReceiptPartition(fields: Fields, version: number): ReceiptPartition {
  const virtualEnd = fields.bigint('virtualEnd');
  const abortedTransactions = fields.integer('abortedTransactions');
  const isOld = version < 2;
  return {
    partition: fields.integer('partition'),
    virtualEnd,
    nativeEnd: fields.bigint('nativeEnd'),
    firstEpoch: fields.integer('firstEpoch'),
    sourceEnd: fields.bigint('sourceEnd'),
    mirroredEnd: isOld ? virtualEnd - BigInt(abortedTransactions) : fields.bigint('mirroredEnd'),
    lostRecords: fields.bigint('lostRecords'),
    lostBytes: isOld ? -1n : fields.bigint('lostBytes'),
    lostSeconds: isOld ? -1 : fields.integer('lostSeconds'),
    lastContactTimeMs: fields.integer('lastContactTimeMs'),
    abortedTransactions,
    found: isOld ? null : fields.nullable('found', (name) => fields.object(name, readFound)),
  };
}

function readReceiptGroup(fields: Fields): ReceiptGroup {
  return {
    group: fields.string('group'),
    partition: fields.integer('partition'),
    oldOffset: fields.bigint('oldOffset'),
    newOffset: fields.bigint('newOffset'),
  };
}

function readDuplicates(fields: Fields): ReceiptDuplicates {
  return {
    expected: fields.bigint('expected'),
    possible: fields.bigint('possible'),
    readTimeMs: fields.integer('readTimeMs'),
    groups: fields.list('groups', (entry) => ({
      group: entry.string('group'),
      partition: entry.integer('partition'),
      position: entry.bigint('position'),
      expected: entry.bigint('expected'),
      possible: entry.bigint('possible'),
    })),
    groupsCount: fields.integer('groupsCount'),
  };
}

const unknownDuplicates: ReceiptDuplicates = {
  expected: -1n,
  possible: -1n,
  readTimeMs: -1,
  groups: [],
  groupsCount: 0,
};

function readReceiptTopic(fields: Fields, version: number): ReceiptTopic {
  const isOld = version < 2;
  return {
    topic: fields.string('topic'),
    link: fields.string('link'),
    partitions: fields.list('partitions', (entry) => readReceiptPartition(entry, version)),
    groups: isOld ? [] : fields.list('groups', readReceiptGroup),
    groupsCount: isOld ? 0 : fields.integer('groupsCount'),
    duplicates: version < 3 ? unknownDuplicates : fields.object('duplicates', readDuplicates),
    historyCopies: isOld ? 1 : fields.integer('historyCopies'),
    completedTimeMs: isOld ? -1 : fields.integer('completedTimeMs'),
  };
}

export function readReceipt(fields: Fields, version: number): ReceiptRecord {
  return {
    kind: 'receipt',
    id: fields.string('id'),
    command: fields.oneOf('command', switchCommands),
    actor: fields.string('actor'),
    timeMs: fields.integer('timeMs'),
    topics: fields.list('topics', (entry) => readReceiptTopic(entry, version)),
  };
}

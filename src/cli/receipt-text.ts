// A receipt as a person reads it: per partition what is lost, per group what it was set back by
// and what it may be given again, and what is still to be found out. Owns the words only.
import type { ReceiptAnswer } from './answers.ts';
import { bytes, table, time } from './output.ts';

type Partition = ReceiptAnswer['topics'][number]['partitions'][number];

function known(value: number | string): number | string {
  return Number(value) < 0 ? 'unknown' : value;
}

function lost(partition: Partition): string {
  const { found, lostRecords } = partition;
  return found === null ? String(known(lostRecords)) : `${found.lostRecords} (found)`;
}

function partitionTable(receipt: ReceiptAnswer): string {
  const rows = receipt.topics.flatMap(({ topic, partitions }) =>
    partitions.map((partition) => [
      topic,
      partition.partition,
      partition.virtualEnd,
      known(partition.found?.sourceEnd ?? partition.sourceEnd),
      lost(partition),
      Number(partition.lostBytes) < 0 ? 'unknown' : bytes(Number(partition.lostBytes)),
      partition.lostSeconds < 0 ? 'unknown' : partition.lostSeconds,
      partition.abortedTransactions,
      time(partition.lastContactTimeMs),
    ]),
  );
  const headers = [
    'TOPIC',
    'PARTITION',
    'END',
    'SOURCE END',
    'LOST',
    'ABOUT',
    'SECONDS',
    'ABORTED TXNS',
    'LAST CONTACT',
  ];
  return table(headers, rows);
}

function groupTable(receipt: ReceiptAnswer): string {
  const rows = receipt.topics.flatMap(({ topic, groups }) =>
    groups.map(({ group, partition, oldOffset, newOffset }) => [
      group,
      topic,
      partition,
      oldOffset,
      newOffset,
    ]),
  );
  const count = receipt.topics.reduce((total, topic) => total + topic.groupsCount, 0);
  if (count === 0) return '';
  const more = count > rows.length ? `and ${count - rows.length} more\n` : '';
  const headers = ['GROUP', 'TOPIC', 'PARTITION', 'OFFSET AT SOURCE', 'SET TO'];
  return `\nGroups that had read what is not here:\n${table(headers, rows)}${more}`;
}

function duplicatesTable(receipt: ReceiptAnswer): string {
  const rows = receipt.topics.flatMap(({ topic, duplicates }) =>
    duplicates.groups.map(({ group, partition, position, expected, possible }) => [
      group,
      topic,
      partition,
      known(position),
      known(expected),
      known(possible),
    ]),
  );
  const count = receipt.topics.reduce((total, { duplicates }) => total + duplicates.groupsCount, 0);
  if (count === 0) return '';
  const more = count > rows.length ? `and ${count - rows.length} more\n` : '';
  const oldest = Math.min(...receipt.topics.map(({ duplicates }) => duplicates.readTimeMs));
  const asOf = oldest < 0 ? 'not known for all topics' : `as of ${time(oldest)}`;
  const headers = ['GROUP', 'TOPIC', 'PARTITION', 'GOES ON AT', 'AGAIN', 'AT MOST'];
  return `\nGroups that may be given records again (${asOf}):\n${table(headers, rows)}${more}`;
}

function remarks(receipt: ReceiptAnswer): string {
  const lines: string[] = [];
  const single = receipt.topics.filter(({ historyCopies }) => historyCopies === 1).length;
  if (single > 0) {
    lines.push(
      `Of what was mirrored there is one copy, in the storage of Causeway (${single} topics).`,
    );
  }
  const unread = receipt.topics.filter(({ duplicates }) => duplicates.readTimeMs < 0).length;
  if (unread > 0) {
    lines.push(`What groups are given again is not known: not synchronised (${unread} topics).`);
  }
  const open = receipt.topics.filter(({ completedTimeMs }) => completedTimeMs < 0).length;
  if (open > 0) {
    lines.push(`What is lost is an estimate until the source answers again (${open} topics).`);
  }
  return lines.map((line) => `${line}\n`).join('');
}

/** The receipt of a dry run is kept nowhere, so its id is not told. */
export function receiptTable(
  receipt: ReceiptAnswer,
  { isDry = false }: { isDry?: boolean } = {},
): string {
  const { id, command, actor, timeMs } = receipt;
  const head = isDry
    ? `Nothing was changed. A ${command} at ${time(timeMs)} would have come to this:`
    : `Receipt ${id}: ${command} at ${time(timeMs)} by ${actor}`;
  const parts = [
    partitionTable(receipt),
    groupTable(receipt),
    duplicatesTable(receipt),
    remarks(receipt),
  ];
  return `${head}\n${parts.join('')}`;
}

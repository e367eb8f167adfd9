// What a partition holds, record by record, by a second and slow reading of its bytes: the oracle
// for what consumers were given.
//
// Owns: opening every batch, and the outcome of transactions by the plainest rule (a batch counts
// when the next control batch of its producer says COMMIT). Knows nothing of clients, indexes or
// last stable offsets. Invariant: records come in the order of their offsets, each once.

import {
  isControl,
  isTransactional,
  readBatchHeader,
  readControlType,
} from '../../protocol/index.ts';
import { openRecords } from '../../protocol/records.ts';
import { type Endpoint, openCluster, type RawBatch, readBatches } from './raw-batches.ts';

export interface LogRecord {
  readonly partition: number;
  readonly offset: number;
  readonly value: string | null;
}

export type Isolation = 'read_uncommitted' | 'read_committed';

/** Producer id -> base offsets of its control batches with their types. */
function outcomes(batches: readonly RawBatch[]): Map<bigint, [bigint, string][]> {
  const found = new Map<bigint, [bigint, string][]>();
  for (const { bytes, baseOffset } of batches) {
    const header = readBatchHeader(bytes, 0);
    if (!isControl(header)) continue;
    const list = found.get(header.producerId) ?? [];
    list.push([baseOffset, readControlType(bytes, 0, header)]);
    found.set(header.producerId, list);
  }
  return found;
}

async function recordsOf(batches: readonly RawBatch[], isolation: Isolation) {
  const ends = outcomes(batches);
  const isCommitted = (producerId: bigint, offset: bigint): boolean =>
    ends.get(producerId)?.find(([marker]) => marker > offset)?.[1] === 'COMMIT';
  const records: { offset: number; value: string | null }[] = [];
  for (const { bytes, baseOffset } of batches) {
    const header = readBatchHeader(bytes, 0);
    if (isControl(header)) continue;
    const isOpenOrAborted = isTransactional(header) && !isCommitted(header.producerId, baseOffset);
    if (isolation === 'read_committed' && isOpenOrAborted) continue;
    for (const { offset, value } of await openRecords(bytes)) {
      records.push({ offset: Number(offset), value: value?.toString() ?? null });
    }
  }
  return records;
}

/** All records of a topic as they are at an endpoint now, partition after partition. */
export async function readLog(
  endpoint: Endpoint,
  topic: { name: string; partitions: number },
  isolation: Isolation = 'read_uncommitted',
): Promise<LogRecord[]> {
  const cluster = openCluster(endpoint);
  try {
    const log: LogRecord[] = [];
    for (let partition = 0; partition < topic.partitions; partition++) {
      const batches = await readBatches(cluster, topic.name, partition);
      const records = await recordsOf(batches, isolation);
      log.push(...records.map((record) => ({ partition, ...record })));
    }
    return log;
  } finally {
    await cluster.close();
  }
}

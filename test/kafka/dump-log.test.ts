// Kafka's own log-dump tool reads what the mirror log has written, and finds nothing to complain
// of.

import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { nodeClock, nodeDisk, openDiskStorage } from '../../storage/index.ts';
import { javaTool } from '../helpers/java-tools.ts';
import { dataBatch, logId, marker } from '../unit/storage/fixtures.ts';

interface DumpedBatch {
  readonly baseOffset: number;
  readonly lastOffset: number;
  readonly isvalid: boolean;
  readonly isControl: boolean;
  readonly partitionLeaderEpoch: number;
}

function parseBatches(dump: string): DumpedBatch[] {
  return dump
    .split('\n')
    .filter((line) => line.startsWith('baseOffset:'))
    .map((line) => {
      const value = (key: string): string =>
        new RegExp(`(?:^| )${key}: (\\S+)`).exec(line)?.[1] ?? '';
      return {
        baseOffset: Number(value('baseOffset')),
        lastOffset: Number(value('lastOffset')),
        isvalid: value('isvalid') === 'true',
        isControl: value('isControl') === 'true',
        partitionLeaderEpoch: Number(value('partitionLeaderEpoch')),
      };
    });
}

/** The tool looks up every index entry in the segment, and complains of those that do not fit. */
async function assertIndexesVerify(logDirectory: string): Promise<void> {
  const names = await readdir(logDirectory);
  for (const suffix of ['.index', '.timeindex', '.txnindex']) {
    const files = names.filter((name) => name.endsWith(suffix)).sort();
    assert.ok(files.length > 0, `${suffix} files`);
    const paths = files.map((name) => path.join(logDirectory, name)).join(',');
    const { stdout, stderr } = await javaTool(null, 'kafka-dump-log', ['--files', paths]);
    assert.doesNotMatch(
      `${stdout}${stderr}`,
      /mismatch|corrupt|not found|out of order|error|exception/i,
      suffix,
    );
    const entries: Record<string, RegExp> = {
      '.index': /^offset: \d+ position: \d+$/m,
      '.timeindex': /^timestamp: \d+ offset: \d+$/m,
      '.txnindex': /producerId: 77/,
    };
    assert.match(stdout, entries[suffix] ?? /^$/, suffix);
  }
}

test('R1: kafka-dump-log verifies written segments, gaps and ABORT batches included', async () => {
  const directory = await mkdtemp(path.join(tmpdir(), 'causeway-dump-log-'));
  try {
    const storage = await openDiskStorage({
      directory,
      disk: nodeDisk,
      clock: nodeClock,
      clusterId: 'cluster-a',
      instanceName: 'causeway',
      expectedDirectoryId: null,
      segmentBytesMax: 4000,
      indexInterval: { activeBytes: 300, sealedBytes: 600 },
      minFree: { kind: 'bytes', value: 0 },
    });
    const log = await storage.create(logId, 10n);
    for (let round = 0n; round < 20n; round++) {
      const base = 10n + round * 10n;
      const epoch = Number(round / 5n);
      await log.append(
        Buffer.concat([
          dataBatch(base, { records: 3, epoch, valueBytes: 100, timestamp: 1000n + base }),
          dataBatch(base + 5n, { records: 2, epoch, producerId: 77n }),
          marker(base + 7n, {
            producerId: 77n,
            type: round % 2n === 0n ? 'ABORT' : 'COMMIT',
            epoch,
          }),
        ]),
      );
    }
    await log.truncate(200n);
    await log.deleteHead(60n);
    await storage.close();

    const logDirectory = path.join(directory, 'logs', `${logId.topicId}-${logId.partition}`);
    const names = (await readdir(logDirectory)).filter((name) => name.endsWith('.log')).sort();
    assert.ok(names.length > 1, 'several segments');
    const files = names.map((name) => path.join(logDirectory, name)).join(',');
    const args = ['--deep-iteration', '--print-data-log', '--files', files];
    const { stdout, stderr } = await javaTool(null, 'kafka-dump-log', args);
    const batches = parseBatches(stdout);
    assert.ok(batches.every(({ isvalid }) => isvalid));
    const kept = batches.filter(({ lastOffset }) => lastOffset >= 60);
    const expected: [number, number, boolean, number][] = [];
    for (let round = 5; round < 19; round++) {
      const base = 10 + round * 10;
      const epoch = Math.floor(round / 5);
      expected.push([base, base + 2, false, epoch]);
      expected.push([base + 5, base + 6, false, epoch], [base + 7, base + 7, true, epoch]);
    }
    assert.deepEqual(
      kept.map((batch) => [
        batch.baseOffset,
        batch.lastOffset,
        batch.isControl,
        batch.partitionLeaderEpoch,
      ]),
      expected,
    );
    assert.doesNotMatch(`${stdout}${stderr}`, /invalid bytes|mismatch|corrupt|isvalid: false/i);
    assert.match(stdout, /endTxnMarker: ABORT/);
    await assertIndexesVerify(logDirectory);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});

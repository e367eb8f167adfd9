// One way to build what the tests of storage need; every option that a test sets is about that
// test.

import assert from 'node:assert/strict';
import { buildBatch, buildControlBatch } from '../../../protocol/record-batch.ts';
import type { Clock } from '../../../storage/clock.ts';
import {
  type DiskStorageOptions,
  type OpenedStorage,
  openDiskStorage,
} from '../../../storage/disk/open-storage.ts';
import type { StorageReport } from '../../../storage/disk/reports.ts';
import { StorageError, type StorageErrorCode } from '../../../storage/errors.ts';
import type { LogId, MirrorLog } from '../../../storage/mirror-log.ts';
import { SimulatedDisk, seededRandom } from './simulated-disk.ts';

export const directory = '/data';
export const logId: LogId = { topicId: 'AbCdEfGhIjKl-_opQrStUv', partition: 3 };
export const logDirectory = `${directory}/logs/${logId.topicId}-${logId.partition}`;

export function segmentPath(baseOffset: number): string {
  return `${logDirectory}/${String(baseOffset).padStart(20, '0')}.log`;
}

/** Time that only a test moves. */
export class ManualClock implements Clock {
  #nowMs = 0;
  readonly #timers = new Map<() => void, number>();

  nowMs(): number {
    return this.#nowMs;
  }

  get pendingTimers(): number {
    return this.#timers.size;
  }

  setTimer(delayMs: number, callback: () => void): () => void {
    const entry = (): void => callback();
    this.#timers.set(entry, this.#nowMs + delayMs);
    return () => {
      this.#timers.delete(entry);
    };
  }

  advance(ms: number): void {
    this.#nowMs += ms;
    for (const [entry, dueMs] of [...this.#timers]) {
      if (dueMs > this.#nowMs) continue;
      this.#timers.delete(entry);
      entry();
    }
  }
}

export interface TestStorage {
  readonly storage: OpenedStorage;
  readonly disk: SimulatedDisk;
  readonly clock: ManualClock;
  readonly reports: StorageReport[];
}

export async function openTestStorage(
  options: Partial<DiskStorageOptions> & { disk?: SimulatedDisk; clock?: ManualClock } = {},
): Promise<TestStorage> {
  const disk = options.disk ?? new SimulatedDisk(seededRandom(1));
  const clock = options.clock ?? new ManualClock();
  const reports: StorageReport[] = [];
  const storage = await openDiskStorage({
    directory,
    clusterId: 'cluster-a',
    instanceName: 'causeway',
    expectedDirectoryId: null,
    onReport: (report) => reports.push(report),
    ...options,
    disk,
    clock,
  });
  return { storage, disk, clock, reports };
}

export interface TestLog extends TestStorage {
  readonly log: MirrorLog;
}

export async function createTestLog(
  options: Parameters<typeof openTestStorage>[0] & { logStart?: bigint } = {},
): Promise<TestLog> {
  const { logStart = 0n, ...rest } = options;
  const opened = await openTestStorage(rest);
  return { ...opened, log: await opened.storage.create(logId, logStart) };
}

/** The same directory after the process was killed; with `powerCut`, after the machine was. */
export async function reopenLog(
  before: TestStorage,
  options: Parameters<typeof openTestStorage>[0] & { powerCut?: boolean } = {},
): Promise<TestLog> {
  const { powerCut = false, ...rest } = options;
  const disk = powerCut ? before.disk.powerCut() : before.disk.processKill();
  const opened = await openTestStorage({ disk, ...rest });
  return { ...opened, log: await opened.storage.open(logId) };
}

export interface BatchOptions {
  readonly records?: number;
  readonly epoch?: number;
  readonly timestamp?: bigint;
  readonly timestamps?: readonly bigint[];
  readonly valueBytes?: number;
  /** Makes the batch transactional. */
  readonly producerId?: bigint;
  readonly producerEpoch?: number;
}

export function dataBatch(baseOffset: bigint, options: BatchOptions = {}): Buffer {
  const { records = 1, epoch = 0, timestamp = 1000n, valueBytes = 10 } = options;
  const { timestamps = Array.from({ length: records }, () => timestamp) } = options;
  const { producerId, producerEpoch = 0 } = options;
  const transactional =
    producerId === undefined ? {} : { producerId, producerEpoch, isTransactional: true };
  return buildBatch({
    baseOffset,
    partitionLeaderEpoch: epoch,
    records: timestamps.map((stamp, index) => ({
      key: Buffer.from(`key-${baseOffset}-${index}`),
      value: Buffer.alloc(valueBytes, 97 + Number(baseOffset % 26n)),
      timestamp: stamp,
    })),
    ...transactional,
  });
}

export function marker(
  baseOffset: bigint,
  options: {
    readonly producerId: bigint;
    readonly type: 'ABORT' | 'COMMIT';
    readonly epoch?: number;
    readonly timestamp?: bigint;
  },
): Buffer {
  const { producerId, type, epoch = 0, timestamp = 1000n } = options;
  return buildControlBatch({
    baseOffset,
    producerId,
    producerEpoch: 0,
    partitionLeaderEpoch: epoch,
    timestamp,
    type,
    coordinatorEpoch: 0,
  });
}

/** Appends and makes durable. */
export async function appendDurably(log: MirrorLog, ...batches: Buffer[]): Promise<void> {
  await log.append(Buffer.concat(batches));
  await log.flush();
}

/** Everything that readers may see, by reads of at most `bytesMax`. */
export async function readAll(log: MirrorLog, bytesMax = 1 << 20): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let offset = log.logStart;
  while (offset < log.visibleEnd) {
    const result = await log.read(offset, { bytesMax, atLeastOneBatch: true });
    if (result.bytes === 0) break;
    assert.ok(result.nextOffset > offset, `no progress at ${offset}`);
    chunks.push(...result.chunks);
    offset = result.nextOffset;
  }
  return Buffer.concat(chunks);
}

export function rejectsWith(code: StorageErrorCode): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof StorageError, `not a StorageError: ${String(error)}`);
    assert.equal(error.code, code, error.message);
    return true;
  };
}

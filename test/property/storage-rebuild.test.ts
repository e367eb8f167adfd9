// New generations of a log, against naive lists of batches: random appends, compaction of what the
// source has, rebuilds that are swapped in or given up, readers in between, power cuts at every
// step. What must hold: readers see the old copy or the new one, whole; after a crash too; what was
// durable stays; nothing of a generation that did not count is left. A failure prints its seed.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { smaller } from '../../storage/disk/offsets.ts';
import type { LogRebuild, MirrorLog } from '../../storage/mirror-log.ts';
import {
  appendDurably,
  createTestLog,
  dataBatch,
  directory,
  logDirectory,
  logId,
  ManualClock,
  openTestStorage,
  readAll,
  rejectsWith,
  type TestLog,
} from '../unit/storage/fixtures.ts';
import { type BatchPlan, type NaiveBatch, NaiveLog } from '../unit/storage/naive-log.ts';
import { SimulatedDisk, seededRandom } from '../unit/storage/simulated-disk.ts';
import {
  compareEachStep,
  cutPowerAnywhere,
  cutPowerAtEachStep,
  diskAfter,
  type ModelRun,
  type Stops,
} from './power-cuts.ts';

type Step =
  | { readonly op: 'append'; readonly batches: readonly BatchPlan[] }
  /** The source drops some of its batches, never the last one. */
  | { readonly op: 'compact'; readonly seed: number }
  | { readonly op: 'begin' | 'flush' | 'swap' | 'discard' | 'restart' }
  /** So many batches go from the source to the new generation. */
  | { readonly op: 'feed'; readonly count: number }
  | { readonly op: 'deleteHead'; readonly at: number };

const batchPlan: fc.Arbitrary<BatchPlan> = fc.record({
  gap: fc.constantFrom(0, 0, 1),
  records: fc.integer({ min: 1, max: 3 }),
  epochStep: fc.constantFrom(0, 0, 0, 1),
  kind: fc.constantFrom('data', 'data', 'data', 'transaction', 'ABORT', 'COMMIT'),
  producerId: fc.integer({ min: 1, max: 2 }),
  time: fc.integer({ min: 0, max: 30 }),
  valueBytes: fc.constantFrom(10, 300, 1500),
});
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      op: fc.constant('append' as const),
      batches: fc.array(batchPlan, { minLength: 1, maxLength: 4 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ op: fc.constant('compact' as const), seed: fc.nat() }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      op: fc.constant('feed' as const),
      count: fc.constantFrom(1, 3, 100, 100),
    }),
  },
  {
    weight: 10,
    arbitrary: fc.record({
      op: fc.constantFrom('begin', 'begin', 'flush', 'swap', 'swap', 'discard', 'restart'),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      op: fc.constant('deleteHead' as const),
      at: fc.integer({ min: 0, max: 100 }),
    }),
  },
);

const storageOptions = {
  segmentBytesMax: 3000,
  // Fewer, and two generations that wait for a flush would be flushed at once.
  handlesMax: 16,
  indexInterval: { activeBytes: 200, sealedBytes: 600 },
  indexBytesMax: 700,
};

/** A log, the list of what it holds, and what its source holds now. */
class Run implements ModelRun<Step> {
  opened: TestLog;
  log: MirrorLog;
  /** Batches that readers may see. */
  readonly model: NaiveLog = new NaiveLog(0n);
  source: readonly NaiveBatch[] = [];
  rebuild: { readonly to: LogRebuild; fed: NaiveBatch[] } | null = null;
  /** A swap was begun and has not resolved: either copy may be found. */
  swapping: readonly NaiveBatch[] | null = null;
  inFlight: readonly NaiveBatch[] = [];
  startMovedTo: bigint | null = null;

  constructor(opened: TestLog) {
    this.opened = opened;
    this.log = opened.log;
  }

  async step(each: Step): Promise<void> {
    const { log, model } = this;
    switch (each.op) {
      case 'append': {
        const batches = model.plan(each.batches);
        this.inFlight = batches;
        await log.append(Buffer.concat(batches.map(({ bytes }) => bytes)));
        this.inFlight = [];
        model.append(batches);
        this.source = [...this.source, ...batches];
        break;
      }
      case 'compact': {
        const random = seededRandom(each.seed);
        this.source = this.source.filter((_, index, all) => {
          return index === all.length - 1 || random() < 0.6;
        });
        break;
      }
      case 'begin':
        if (this.rebuild !== null) await assert.rejects(log.rebuild(0n), rejectsWith('EXISTS'));
        else this.rebuild = { to: await log.rebuild(this.#sourceStart()), fed: [] };
        break;
      case 'feed':
        await this.#feed(each.count);
        break;
      case 'swap':
        await this.#swap();
        break;
      case 'discard':
        await this.rebuild?.to.discard();
        this.rebuild = null;
        break;
      case 'flush':
        await log.flush();
        model.flush();
        break;
      case 'restart':
        await this.opened.storage.close();
        await this.reopen(this.opened.disk);
        model.flush();
        break;
      case 'deleteHead': {
        const span = model.visibleEnd - model.logStart;
        const start = model.logStart + (span * BigInt(each.at)) / 100n;
        this.startMovedTo = start;
        await log.deleteHead(start);
        this.startMovedTo = null;
        model.deleteHead(start);
        break;
      }
    }
  }

  /** Its log start is ours; the batch there may begin below it. */
  #sourceStart(): bigint {
    const { logStart } = this.model;
    this.source = this.source.filter(({ next }) => next > logStart);
    const base = this.source[0]?.base ?? logStart;
    return smaller(base, logStart);
  }

  async #feed(count: number): Promise<void> {
    const { rebuild } = this;
    if (rebuild === null) return;
    const rest = this.source.filter(({ base }) => base >= rebuild.to.end).slice(0, count);
    if (rest.length === 0) return;
    await rebuild.to.append(Buffer.concat(rest.map(({ bytes }) => bytes)));
    rebuild.fed.push(...rest);
  }

  async #swap(): Promise<void> {
    const { rebuild, model } = this;
    if (rebuild === null) return;
    if (rebuild.to.end < model.end) {
      await assert.rejects(rebuild.to.swap(), rejectsWith('OFFSET_OUT_OF_ORDER'));
      return;
    }
    this.swapping = rebuild.fed;
    await rebuild.to.swap();
    this.swapping = null;
    this.rebuild = null;
    model.batches = rebuild.fed.filter(({ next }) => next > model.logStart);
    model.flush();
  }

  async compare(): Promise<void> {
    const { log, model } = this;
    assert.equal(log.logStart, model.logStart, 'logStart');
    assert.equal(log.end, model.end, 'end');
    assert.equal(log.visibleEnd, model.visibleEnd, 'visibleEnd');
    assert.ok(log.visibleEpoch >= model.visibleEpoch(), 'visibleEpoch');
    assert.ok(log.shownEpoch >= model.shownEpoch, 'shownEpoch');
    const expected = Buffer.concat(model.visible().map(({ bytes }) => bytes));
    assert.ok((await readAll(log, 2000)).equals(expected), 'what readers see');
    for (const time of [0n, 20n]) {
      assert.deepEqual(await log.offsetForTimestamp(time), model.offsetForTimestamp(time));
    }
    const aborted = await log.abortedTransactions(model.logStart, log.lastStableOffset);
    for (const batch of model.visible()) {
      if (batch.producerId === null || batch.control !== null) continue;
      if (batch.base >= log.lastStableOffset) continue;
      const isDropped = aborted.some(
        ({ producerId, firstOffset, lastOffset }) =>
          producerId === batch.producerId && firstOffset <= batch.base && batch.base <= lastOffset,
      );
      assert.equal(isDropped, model.outcome(batch) === 'ABORT', `batch ${batch.base}`);
    }
  }

  async reopen(disk: SimulatedDisk): Promise<void> {
    const opened = await openTestStorage({ disk, clock: new ManualClock(), ...storageOptions });
    this.log = await opened.storage.open(logId);
    this.opened = { ...opened, log: this.log };
    this.rebuild = null;
  }

  /** The old copy or the new one, whole, and nothing else on the disk. */
  async recover([first, ...others]: Stops): Promise<void> {
    const { model } = this;
    const { durableEnd } = this.log;
    let disk = diskAfter(this.opened.disk, first);
    for (const stop of others) {
      disk.crashAfter(stop.afterSteps);
      await this.reopen(disk).catch((error: unknown) => assert.match(String(error), /crash/i));
      disk = diskAfter(disk, stop);
    }
    await this.reopen(disk);
    const { log } = this;
    const names = (await disk.list(`${directory}/logs`)).filter((name) => !name.startsWith('.'));
    assert.equal(names.length, 1, `one generation is left: ${names}`);
    assert.deepEqual(await this.opened.storage.list(), [logId]);
    assert.ok(log.end >= durableEnd, `ends at ${log.end}, ${durableEnd} was durable`);
    const found = await readAll(log);
    const old = [...model.batches, ...this.inFlight];
    const copies = [old, ...(this.swapping === null ? [] : [this.swapping])].map((batches) =>
      batches.filter(({ next }) => next > log.logStart && next <= log.end),
    );
    const kept = copies.find((batches) =>
      found.equals(Buffer.concat(batches.map(({ bytes }) => bytes))),
    );
    assert.ok(kept, 'one of the two copies, whole');
    const isMoved = this.startMovedTo !== null && log.logStart === this.startMovedTo;
    if (!isMoved) assert.equal(log.logStart, model.logStart);
    if (isMoved) model.deleteHead(log.logStart);
    model.batches = [...kept];
    model.durableEnd = model.end;
    model.visibleEnd = model.end;
    this.source = [...kept];
    this.swapping = null;
    this.inFlight = [];
    this.startMovedTo = null;
    await this.compare();
  }
}

async function startRun(seed: number): Promise<Run> {
  const disk = new SimulatedDisk(seededRandom(seed));
  return new Run(await createTestLog({ disk, ...storageOptions }));
}

test('R1: readers see the old generation or the new one, whole', async () => {
  await compareEachStep({ step, start: startRun, runs: 120 });
});

test('R1, R11: a power cut during a rebuild leaves one of the two, whole', async () => {
  await cutPowerAnywhere({ step, start: startRun, runs: 150 });
});

const plan: BatchPlan = {
  gap: 0,
  records: 2,
  epochStep: 0,
  kind: 'data',
  producerId: 1,
  time: 10,
  valueBytes: 1200,
};
const script: readonly Step[] = [
  { op: 'append', batches: [plan, plan, plan, { ...plan, epochStep: 1 }] },
  { op: 'flush' },
  { op: 'compact', seed: 4 },
  { op: 'begin' },
  { op: 'feed', count: 2 },
  { op: 'append', batches: [plan, { ...plan, kind: 'transaction' }] },
  { op: 'feed', count: 100 },
  { op: 'swap' },
  { op: 'append', batches: [plan, plan] },
  { op: 'begin' },
  { op: 'feed', count: 1 },
  { op: 'discard' },
  { op: 'begin' },
  { op: 'feed', count: 100 },
  { op: 'swap' },
  { op: 'append', batches: [plan] },
  { op: 'flush' },
];

test('R1, R11: a power cut at every single step of two rebuilds', async () => {
  await cutPowerAtEachStep(startRun, script);
});

test('R19: a reader that is in the middle of a read when generations change gets its bytes', async () => {
  const { log, disk } = await createTestLog(storageOptions);
  const batches = Array.from({ length: 12 }, (_, index) =>
    dataBatch(BigInt(index), { valueBytes: 700 }),
  );
  await appendDurably(log, ...batches);
  const rebuild = await log.rebuild(0n);
  await rebuild.append(Buffer.concat([...batches.slice(0, 2), ...batches.slice(8)]));
  const reads = [0n, 3n, 9n].map((offset) =>
    log.read(offset, { bytesMax: 1, atLeastOneBatch: true }),
  );
  await rebuild.swap();
  const [first, second, third] = await Promise.all(reads);
  assert.deepEqual(first?.chunks[0], batches[0]);
  assert.ok([3n, 8n].includes(second?.baseOffset ?? -1n), 'of the old copy or the new one');
  assert.deepEqual(third?.chunks[0], batches[9]);
  const kept = Buffer.concat([...batches.slice(0, 2), ...batches.slice(8)]);
  assert.ok((await readAll(log)).equals(kept));
  const names = await disk.list(`${directory}/logs`);
  assert.deepEqual(names, [`${logDirectory.slice(logDirectory.lastIndexOf('/') + 1)}.1`]);
});

test('a rebuild is refused where readers would lose by it', async () => {
  const { log } = await createTestLog(storageOptions);
  const [first, second, third] = [0n, 1n, 2n].map((base) =>
    dataBatch(base, { epoch: Number(base) }),
  );
  assert.ok(first && second && third);
  await appendDurably(log, first, second, third);
  const other = await log.rebuild(0n);
  await other.append(Buffer.concat([first, second, dataBatch(2n, { epoch: 1 })]));
  await assert.rejects(other.swap(), rejectsWith('OFFSET_OUT_OF_ORDER'));
  await other.discard();
  const rebuild = await log.rebuild(0n);
  await rebuild.append(Buffer.concat([second, third]));
  log.hold(3n);
  await assert.rejects(rebuild.swap(), rejectsWith('OFFSET_OUT_OF_ORDER'));
  log.hold(null);
  await rebuild.swap();
  // Epoch 0 has no record any more, and is known all the same: nobody is sent back to the start.
  assert.deepEqual(log.epochEnd(0), { epoch: 0, endOffset: 1n });
  await rebuild.discard();
  assert.equal(log.end, 3n);
});

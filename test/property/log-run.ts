// A mirror log on a simulated disk beside a naive one: the steps that may be taken, what each does
// to both, how they are compared, and what may be found after the process or the power has gone.
// Refuses to know which steps are taken. Invariant: after each step the two are told apart by no
// question that a log answers.

import assert from 'node:assert/strict';
import fc from 'fast-check';
import { smaller } from '../../storage/disk/offsets.ts';
import type { MirrorLog } from '../../storage/mirror-log.ts';
import {
  createTestLog,
  logDirectory,
  logId,
  ManualClock,
  openTestStorage,
  readAll,
  type TestLog,
} from '../unit/storage/fixtures.ts';
import { type BatchPlan, type NaiveBatch, NaiveLog } from '../unit/storage/naive-log.ts';
import { SimulatedDisk, seededRandom } from '../unit/storage/simulated-disk.ts';
import { diskAfter, type ModelRun, type Stops } from './power-cuts.ts';

export type Step =
  | { readonly op: 'append'; readonly batches: readonly BatchPlan[]; readonly isNow?: boolean }
  | { readonly op: 'flush' | 'tick' | 'restart' }
  | { readonly op: 'lift' }
  | { readonly op: 'spoil'; readonly file: number; readonly how: Spoil }
  | { readonly op: 'truncate' | 'deleteHead' | 'jump' | 'hold'; readonly at: number }
  | { readonly op: 'read'; readonly at: number; readonly to: number; readonly bytesMax: number };

/** What may become of a file that nothing durable relies on. */
type Spoil = 'removed' | 'emptied' | 'cut' | 'zeroed' | 'flipped' | 'longer';

const batchPlan: fc.Arbitrary<BatchPlan> = fc.record({
  gap: fc.constantFrom(0, 0, 0, 1, 5),
  records: fc.integer({ min: 1, max: 4 }),
  epochStep: fc.constantFrom(0, 0, 0, 1, 2),
  kind: fc.constantFrom('data', 'data', 'transaction', 'transaction', 'ABORT', 'COMMIT'),
  producerId: fc.integer({ min: 1, max: 3 }),
  time: fc.integer({ min: 0, max: 30 }),
  valueBytes: fc.constantFrom(0, 10, 300, 6000),
});
const fraction = fc.integer({ min: 0, max: 100 });
const appendStep = fc.record({
  op: fc.constant('append' as const),
  batches: fc.array(batchPlan, { minLength: 1, maxLength: 4 }),
  isNow: fc.boolean(),
});
export const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 8, arbitrary: appendStep },
  { weight: 5, arbitrary: fc.record({ op: fc.constantFrom('flush', 'tick') }) },
  { weight: 2, arbitrary: fc.record({ op: fc.constant('restart' as const) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      op: fc.constant('spoil' as const),
      file: fc.nat({ max: 1000 }),
      how: fc.constantFrom<Spoil[]>('removed', 'emptied', 'cut', 'zeroed', 'flipped', 'longer'),
    }),
  },
  { weight: 1, arbitrary: fc.record({ op: fc.constant('lift' as const) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      op: fc.constantFrom('truncate', 'deleteHead', 'deleteHead', 'jump', 'hold'),
      at: fraction,
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      op: fc.constant('read' as const),
      at: fraction,
      to: fraction,
      bytesMax: fc.constantFrom(1, 200, 5000, 100_000),
    }),
  },
);

/** So small that every log has many segments, indexes have entries, and few of them stay. */
const storageOptions = {
  segmentBytesMax: 3000,
  handlesMax: 2,
  indexInterval: { activeBytes: 200, sealedBytes: 600 },
  indexBytesMax: 700,
};

const spoilt: Record<Spoil, (content: Buffer) => Buffer> = {
  removed: (content) => content,
  emptied: () => Buffer.alloc(0),
  cut: (content) => content.subarray(0, content.length >> 1),
  zeroed: (content) => Buffer.alloc(content.length),
  flipped: (content) => {
    const at = content.length >> 1;
    content[at] = (content[at] ?? 0) ^ 0x10;
    return content;
  },
  longer: (content) => Buffer.concat([content, Buffer.alloc(7, 1)]),
};

/** Damages one of the files that may be lost: indexes, or the list of sealed segments. */
async function spoil(disk: SimulatedDisk, file: number, how: Spoil): Promise<void> {
  const names = await disk.list(logDirectory);
  const losable = names
    .filter((name) => /\.(index|timeindex|txnindex)$|^sealed$/.test(name))
    .sort();
  const name = losable[file % Math.max(1, losable.length)];
  if (name === undefined) return;
  const path = `${logDirectory}/${name}`;
  if (how === 'removed') disk.tamperRemove(path);
  else disk.tamper(path, spoilt[how]);
}

function between(low: bigint, high: bigint, percent: number): bigint {
  return low + ((high - low) * BigInt(percent)) / 100n;
}

/** Offsets that an operation is about, from the model's state before it. */
function targetOf(model: NaiveLog, each: { op: string; at: number }): bigint {
  if (each.op === 'truncate') return between(model.logStart, model.end, each.at);
  if (each.op === 'deleteHead') return between(model.logStart, model.visibleEnd, each.at);
  if (each.op === 'jump') return model.end + BigInt(each.at % 4);
  return between(model.logStart, model.end + 5n, each.at);
}

/** Over all runs: the way by `append` alone would pass as well. */
export const appends = { now: 0 };

/** What may be found after a crash, beyond what the model says. */
interface InFlight {
  batches: readonly NaiveBatch[];
  /** Of appends that were refused and taken back, which no flush has made durable yet. */
  refused: (readonly NaiveBatch[])[];
  truncatedTo: bigint | null;
  startMovedTo: bigint | null;
  /** A hold that was set but that nothing has been appended above yet. */
  holdIsNew: boolean;
}

export class Run implements ModelRun<Step> {
  log: MirrorLog;
  opened: TestLog;
  readonly model: NaiveLog;
  readonly inFlight: InFlight = {
    batches: [],
    refused: [],
    truncatedTo: null,
    startMovedTo: null,
    holdIsNew: false,
  };

  constructor(opened: TestLog, logStart: bigint) {
    this.opened = opened;
    this.log = opened.log;
    this.model = new NaiveLog(logStart);
  }

  async step(each: Step): Promise<void> {
    const { log, model, inFlight } = this;
    switch (each.op) {
      case 'append': {
        const batches = model.plan(each.batches);
        inFlight.batches = batches;
        const records = Buffer.concat(batches.map(({ bytes }) => bytes));
        const isAppended = each.isNow === true && log.appendNow(records) !== null;
        if (isAppended) appends.now++;
        else await log.append(records);
        // Behind a refused one it has been flushed first.
        if (inFlight.refused.length > 0 && log.durableEnd > model.durableEnd) model.flush();
        inFlight.batches = [];
        inFlight.refused = [];
        inFlight.holdIsNew = false;
        model.append(batches);
        break;
      }
      case 'tick':
      case 'flush':
        if (each.op === 'tick') this.opened.clock.advance(50);
        await log.flush();
        model.flush();
        inFlight.refused = [];
        inFlight.holdIsNew = false;
        break;
      case 'truncate': {
        const offset = targetOf(model, each);
        inFlight.truncatedTo = offset;
        await log.truncate(offset);
        inFlight.truncatedTo = null;
        model.truncate(offset);
        break;
      }
      case 'deleteHead':
      case 'jump': {
        const offset = targetOf(model, each);
        inFlight.startMovedTo = offset;
        await log.deleteHead(offset);
        inFlight.startMovedTo = null;
        model.deleteHead(offset);
        break;
      }
      case 'hold':
        this.#hold(targetOf(model, each));
        break;
      case 'lift':
        this.#hold(null);
        break;
      case 'restart':
        await this.opened.storage.close();
        await this.reopen(this.opened.disk);
        model.flush();
        break;
      case 'spoil':
        await spoil(this.opened.disk, each.file, each.how);
        break;
      case 'read':
        await this.#read(each);
        break;
    }
  }

  #hold(offset: bigint | null): void {
    this.inFlight.holdIsNew = true;
    this.log.hold(offset);
    this.model.setHold(offset);
  }

  async reopen(disk: SimulatedDisk): Promise<void> {
    const opened = await openTestStorage({ disk, clock: new ManualClock(), ...storageOptions });
    assert.equal(opened.storage.refusal, null);
    this.log = await opened.storage.open(logId);
    this.opened = { ...opened, log: this.log };
  }

  async #read(each: { at: number; to: number; bytesMax: number }): Promise<void> {
    const { log, model } = this;
    const offset = between(model.logStart, model.visibleEnd, each.at);
    const endOffset = between(offset, model.visibleEnd + 2n, each.to);
    const { bytesMax } = each;
    const result = await log.read(offset, { bytesMax, atLeastOneBatch: true, endOffset });
    const expected = model.read(offset, bytesMax, endOffset);
    const got = Buffer.concat(result.chunks);
    // A read may end early, at the end of a segment; never with nothing, and never with more.
    let whole = Buffer.alloc(0);
    let count = 0;
    for (const { bytes } of expected) {
      if (whole.length >= got.length) break;
      whole = Buffer.concat([whole, bytes]);
      count += 1;
    }
    assert.deepEqual(got, whole);
    assert.equal(result.bytes, got.length);
    if (expected.length > 0) assert.ok(got.length > 0, 'a read must make progress');
    assert.equal(result.baseOffset, expected[0]?.base ?? offset);
    assert.equal(result.nextOffset, expected[count - 1]?.next ?? offset);
  }

  /** Everything that the log says, against the model. */
  async compare(): Promise<void> {
    const { log, model } = this;
    assert.equal(log.logStart, model.logStart, 'logStart');
    assert.equal(log.end, model.end, 'end');
    assert.equal(log.durableEnd, model.durableEnd, 'durableEnd');
    assert.equal(log.visibleEnd, model.visibleEnd, 'visibleEnd');
    assert.equal(log.lastEpoch, model.lastEpoch, 'lastEpoch');
    assert.equal(log.visibleEpoch, model.visibleEpoch(), 'visibleEpoch');
    assert.equal(log.shownEpoch, model.shownEpoch, 'shownEpoch');
    assert.equal(log.isCut, model.isCut(), 'isCut');
    // A transaction that lost its first batches with the head may hold readers back longer.
    const stable = log.lastStableOffset;
    assert.ok(stable <= model.lastStableOffset(), 'lastStableOffset too high');
    if (model.headEpoch < 0) assert.equal(stable, model.lastStableOffset(), 'lastStableOffset');
    const visible = model.visible();
    assert.deepEqual(await readAll(log, 2000), Buffer.concat(visible.map(({ bytes }) => bytes)));
    await this.#compareOutcomes();
    for (const time of [0n, 7n, 20n, 31n, 40n]) {
      assert.deepEqual(await log.offsetForTimestamp(time), model.offsetForTimestamp(time));
    }
    assert.deepEqual(await log.offsetOfMaxTimestamp(), model.offsetOfMaxTimestamp());
    const epochs = [...new Set(visible.map(({ epoch }) => epoch))];
    for (const epoch of epochs) {
      const higher = visible.find((batch) => batch.epoch > epoch);
      const endOffset = higher?.base ?? model.visibleEnd;
      assert.deepEqual(log.epochEnd(epoch), { epoch, endOffset });
    }
  }

  /** What a read_committed reader of any range would drop, against each batch's true outcome. */
  async #compareOutcomes(): Promise<void> {
    const { log, model } = this;
    const from = between(model.logStart, model.visibleEnd, 30);
    for (const start of [model.logStart, from]) {
      const aborted = await log.abortedTransactions(start, log.lastStableOffset);
      for (const batch of model.visible()) {
        if (batch.producerId === null || batch.control !== null) continue;
        if (batch.next <= start || batch.base >= log.lastStableOffset) continue;
        const dropped = aborted.some(
          ({ producerId, firstOffset, lastOffset }) =>
            producerId === batch.producerId &&
            firstOffset <= batch.base &&
            batch.base <= lastOffset,
        );
        assert.equal(dropped, model.outcome(batch) === 'ABORT', `batch ${batch.base}`);
      }
    }
  }

  /** After the first stop, and after each of the others during the recovery from it. */
  async recover([first, ...others]: Stops): Promise<void> {
    const { model, inFlight } = this;
    // A process that is killed loses nothing that it wrote.
    let durableEnd = first.kind === 'kill' ? model.end : this.log.durableEnd;
    let disk = diskAfter(this.opened.disk, first);
    for (const stop of others) {
      disk.crashAfter(stop.afterSteps);
      try {
        await this.reopen(disk);
        durableEnd = this.log.durableEnd;
      } catch (error) {
        assert.match(String(error), /crash/i);
        if (stop.kind === 'power') durableEnd = smaller(durableEnd, model.durableEnd);
      }
      disk = diskAfter(disk, stop);
    }
    await this.reopen(disk);
    const { log } = this;
    if (!inFlight.holdIsNew) assert.equal(log.heldFrom, model.hold, 'hold after the crash');
    log.hold(null);
    const possible = await this.#possible();
    const moved = inFlight.startMovedTo !== null && log.logStart === inFlight.startMovedTo;
    if (!moved) assert.equal(log.logStart, model.logStart, 'logStart after the crash');
    const promised =
      inFlight.truncatedTo === null || inFlight.truncatedTo > durableEnd
        ? durableEnd
        : (possible.findLast(({ next }) => next <= (inFlight.truncatedTo ?? 0n))?.next ??
          model.logStart);
    assert.ok(log.end >= promised, `ends at ${log.end}, ${promised} was durable`);
    const kept = this.#keptOf(possible);
    assert.deepEqual(await readAll(log), Buffer.concat(kept.map(({ bytes }) => bytes)));
    const last = kept.at(-1)?.next ?? log.logStart;
    assert.equal(log.end, last, 'nothing beyond what was appended');
    this.#assertShown(possible, moved);
    this.#adopt(kept, moved);
    await this.compare();
  }

  /** What was appended, and of what was under way or taken back what has been found. */
  async #possible(): Promise<readonly NaiveBatch[]> {
    const { model, inFlight, log } = this;
    const found = await readAll(log);
    const isFound = (all: readonly NaiveBatch[]): boolean =>
      Buffer.concat(this.#keptOf(all).map(({ bytes }) => bytes)).equals(found);
    const [all = [], ...others] = [inFlight.batches, ...inFlight.refused].map((batches) => [
      ...model.batches,
      ...batches,
    ]);
    return isFound(all) ? all : (others.find(isFound) ?? all);
  }

  #keptOf(possible: readonly NaiveBatch[]): NaiveBatch[] {
    const { log } = this;
    return possible.filter(({ next }) => next > log.logStart && next <= log.end);
  }

  /** R8: what readers were told before the power went is not taken back. */
  #assertShown(possible: readonly NaiveBatch[], moved: boolean): void {
    const { model, inFlight, log } = this;
    const highest = Math.max(model.shownEpoch, ...possible.map(({ epoch }) => epoch));
    assert.ok(log.shownEpoch >= model.shownEpoch, `epoch ${log.shownEpoch} after the crash`);
    assert.ok(log.shownEpoch <= highest, `epoch ${log.shownEpoch} was never shown`);
    // A jump under way has flushed first: what that showed ends a cut, and is gone with the jump.
    const isOver = moved && log.shownEpoch > model.cutEpoch;
    const isCutStill = model.isCut() && !isOver && log.visibleEpoch <= model.cutEpoch;
    const isLess = log.end < model.visibleEnd || isCutStill;
    if (isLess) assert.ok(log.isCut, 'cut, and not known after the crash');
    else if (inFlight.truncatedTo === null) assert.ok(!log.isCut, 'nothing was cut');
    model.cutEpoch = log.isCut ? log.shownEpoch : -1;
    model.shownEpoch = log.shownEpoch;
  }

  /** The model goes on from what the crash has left. */
  #adopt(kept: readonly NaiveBatch[], moved: boolean): void {
    const { model, inFlight, log } = this;
    if (moved) model.deleteHead(log.logStart);
    model.batches = [...kept];
    model.durableEnd = model.end;
    model.visibleEnd = model.end;
    model.hold = null;
    Object.assign(inFlight, {
      batches: [],
      refused: [],
      truncatedTo: null,
      startMovedTo: null,
      holdIsNew: true,
    });
  }
}

export async function startRun(seed: number, logStart: bigint): Promise<Run> {
  const disk = new SimulatedDisk(seededRandom(seed));
  return new Run(await createTestLog({ disk, logStart, ...storageOptions }), logStart);
}

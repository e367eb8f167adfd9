// The room of one answer: reads that overlap bring what reads in turn would.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { AnswerRoom } from '../../../src/gateway/answer-room.ts';

/** A read that ends when the test says so. */
class Deferred {
  resolve: (bytes: number) => void = () => undefined;
  reject: (error: Error) => void = () => undefined;
  readonly #promise = new Promise<number>((resolve, reject) => {
    this.resolve = resolve;
    this.reject = reject;
  });
  readonly work = (): Promise<number> => this.#promise;
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('R14: reads that overlap may bring what they could in turn', async () => {
  const read = fc.record({ wanted: fc.integer({ min: 1, max: 50 }), part: fc.nat(100) });
  const plan = fc.array(read, { maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(fc.nat(120), plan, fc.scheduler(), async (bytesMax, reads, scheduler) => {
      const room = new AnswerRoom(bytesMax);
      const granted: number[] = [];
      const all = (async () => {
        for (const { wanted, part } of reads) {
          await room.begin(wanted, async (most) => {
            granted.push(most);
            await scheduler.schedule(Promise.resolve());
            return Math.floor((most * part) / 100);
          });
        }
        await room.settled();
      })();
      await scheduler.waitFor(all);
      let bytes = 0;
      const inTurn = reads.map(({ wanted, part }) => {
        const most = Math.min(wanted, bytesMax - bytes);
        bytes += Math.floor((most * part) / 100);
        return most;
      });
      assert.deepEqual(granted, inTurn);
      assert.equal(room.bytes, bytes);
    }),
  );
});

test('two reads are under way at a time, and a batch that is too large leaves nothing', async () => {
  const room = new AnswerRoom(100);
  const [first, second] = [new Deferred(), new Deferred()];
  const granted: number[] = [];
  const begin = (work: () => Promise<number>): Promise<void> =>
    room.begin(30, (bytesMax) => {
      granted.push(bytesMax);
      return work();
    });
  await begin(first.work);
  await begin(second.work);
  const third = begin(() => Promise.resolve(0));
  await turn();
  assert.deepEqual(granted, [30, 30]);
  second.resolve(170);
  await turn();
  assert.deepEqual(granted, [30, 30], 'it waits for what the first leaves');
  first.resolve(0);
  await third;
  await room.settled();
  assert.deepEqual(granted, [30, 30, 0]);
  assert.equal(room.bytes, 170);
});

test('what a read threw is thrown, also when another ended in the same moment', async () => {
  const room = new AnswerRoom(100);
  const [first, second] = [new Deferred(), new Deferred()];
  await room.begin(10, first.work);
  await room.begin(10, second.work);
  const third = room.begin(10, () => Promise.resolve(0));
  first.resolve(5);
  second.reject(new Error('unreadable'));
  await third.catch(() => undefined);
  await assert.rejects(room.settled(), /unreadable/);
});

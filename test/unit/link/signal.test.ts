// The loop around a regular look: one turn at a time, woken early, and closed without leaving one
// behind. A bound on how much goes on at a time. The walk over many items, a few at a time, which
// leaves nobody at work behind an error.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { AtMost, forEachLimited, Loop, Signal } from '../../../src/link/signal.ts';
import { until } from '../../helpers/wait.ts';

const foreverMs = 1_000_000;

describe('a loop', () => {
  test('takes its first turn at once, the next when it is woken', async () => {
    let turns = 0;
    const loop = new Loop(async () => {
      turns += 1;
      return foreverMs;
    });
    loop.start();
    await until('the first turn', () => turns === 1);
    loop.wake();
    await until('the second turn', () => turns === 2);
    await loop.close();
    assert.equal(turns, 2);
  });

  test('woken during a turn takes another, never two at a time', async () => {
    let running = 0;
    let turns = 0;
    let end: () => void = () => undefined;
    const loop = new Loop(async () => {
      running += 1;
      assert.equal(running, 1);
      turns += 1;
      await new Promise<void>((resolve) => {
        end = resolve;
      });
      running -= 1;
      return foreverMs;
    });
    loop.start();
    await until('the first turn', () => turns === 1);
    loop.wake();
    loop.wake();
    end();
    await until('the second turn', () => turns === 2);
    const closed = loop.close();
    assert.equal(running, 1, 'close waits for the turn that is under way');
    end();
    await closed;
    assert.equal(turns, 2);
  });

  test('closed before its first turn takes none', async () => {
    let turns = 0;
    const loop = new Loop(async () => {
      turns += 1;
      return foreverMs;
    });
    loop.start(foreverMs);
    await loop.close();
    assert.ok(loop.isClosed);
    assert.equal(turns, 0);
  });
});

test('a walk over many ends with its first error, when nothing of it is under way any more', async () => {
  const begun: number[] = [];
  let isSlowDone = false;
  let endSlow: () => void = () => undefined;
  const slow = new Promise<void>((resolve) => {
    endSlow = resolve;
  });
  let isOver = false;
  const walk = forEachLimited([0, 1, 2, 3, 4, 5], 2, async (item) => {
    begun.push(item);
    if (item === 1) throw new Error('the first');
    if (item !== 0) return;
    await slow;
    isSlowDone = true;
    throw new Error('the second');
  });
  const outcome = walk
    .catch((error: unknown) => error)
    .finally(() => {
      isOver = true;
    });
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
  assert.deepEqual([isOver, isSlowDone], [false, false], 'it waits for what it has begun');
  endSlow();
  assert.equal(((await outcome) as Error).message, 'the first');
  assert.deepEqual(begun, [0, 1], 'and begins nothing more');
  assert.ok(isSlowDone);
});

test('no more than so many run at a time, the others in turn, also behind one that failed', async () => {
  const atMost = new AtMost(2);
  const begun: number[] = [];
  const ends: (() => void)[] = [];
  const runs = [0, 1, 2, 3].map((index) =>
    atMost.run(async () => {
      begun.push(index);
      await new Promise<void>((resolve) => ends.push(resolve));
      if (index === 0) throw new Error('scripted');
      return index;
    }),
  );
  const settled = Promise.allSettled(runs);
  assert.deepEqual(begun, [0, 1]);
  ends[0]?.();
  await until('the third', () => begun.length === 3);
  ends[1]?.();
  await until('the fourth', () => begun.length === 4);
  assert.deepEqual(begun, [0, 1, 2, 3]);
  for (const end of ends) end();
  const results = await settled;
  assert.deepEqual(
    results.map((result) => (result.status === 'fulfilled' ? result.value : 'failed')),
    ['failed', 1, 2, 3],
  );
  assert.equal(await atMost.run(async () => 'free again'), 'free again');
});

test('a wait longer than timers can hold ended at once, as that for a heartbeat once a year', async () => {
  const signal = new Signal();
  let isOver = false;
  const waited = signal.wait(365 * 86_400_000).then(() => {
    isOver = true;
  });
  await new Signal().wait(10);
  assert.equal(isOver, false);
  signal.notify();
  await waited;
});

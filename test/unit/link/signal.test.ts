// The loop around a regular look: one turn at a time, woken early, and closed without leaving one
// behind.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Loop } from '../../../src/link/signal.ts';
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

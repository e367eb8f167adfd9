// The order in which a benchmark's rivals take turns: none of them has the better place.
import assert from 'node:assert/strict';
import test from 'node:test';
import { turnOrder } from '../../../bench/report.ts';

for (const count of [2, 3, 5]) {
  test(`of ${count} each comes as often in each place, and before as after each neighbour`, () => {
    const all = Array.from({ length: count }, (_, index) => index);
    const places = new Map<string, number>();
    const neighbours = new Map<string, number>();
    const add = (counts: Map<string, number>, key: string): void => {
      counts.set(key, (counts.get(key) ?? 0) + 1);
    };
    for (let round = 0; round < 2 * count; round++) {
      const order = turnOrder(all, round);
      assert.deepEqual([...order].sort(), all);
      for (const [place, one] of order.entries()) {
        add(places, `${one} at ${place}`);
        if (place > 0) add(neighbours, `${order[place - 1]} before ${one}`);
      }
    }
    assert.equal(places.size, count * count);
    assert.deepEqual(new Set(places.values()), new Set([2]));
    for (const [pair, times] of neighbours) {
      const turned = pair.split(' before ').reverse().join(' before ');
      assert.equal(neighbours.get(turned), times, pair);
    }
  });
}

// Rows of groups in the order in which they are read.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inPlaceOrder } from '../../../src/link/place-order.ts';

test('offsets of groups are shown by group, topic and number of the partition', () => {
  const place = (group: string, topic: string, partition: number) => ({ group, topic, partition });
  const rows = [place('b', 't', 0), place('a', 't', 10), place('a', 't', 9), place('a', 's', 11)];
  assert.deepEqual(inPlaceOrder(rows), [rows[3], rows[2], rows[1], rows[0]]);
});

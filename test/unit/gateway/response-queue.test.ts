// The order of answers (R13), without sockets.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { HeldBytes } from '../../../src/gateway/held-bytes.ts';
import { ResponseQueue, type ResponseSlot } from '../../../src/gateway/response-queue.ts';

test('R13: whatever the order of writing, bytes come out in the order of slots', () => {
  const steps = fc.array(fc.tuple(fc.nat(), fc.boolean(), fc.nat(20)), { maxLength: 200 });
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 12 }), steps, (count, plan) => {
      const out: Buffer[] = [];
      const shared = new HeldBytes();
      const queue = new ResponseQueue(
        (chunk) => out.push(chunk),
        (view) => Buffer.from(view),
        shared,
      );
      const slots = Array.from({ length: count }, () => queue.open());
      const expected: Buffer[][] = slots.map(() => []);
      const open = new Map<number, ResponseSlot>(slots.entries());
      const write = (index: number, bytes: number): void => {
        const chunk = Buffer.alloc(bytes, index);
        open.get(index)?.write(chunk);
        expected[index]?.push(chunk);
      };
      for (const [pick, isEnd, bytes] of plan) {
        const index = [...open.keys()][pick % Math.max(1, open.size)];
        if (index === undefined) break;
        write(index, bytes);
        if (isEnd) {
          open.get(index)?.finish();
          open.delete(index);
        }
        const held = expected.flat().reduce((sum, chunk) => sum + chunk.length, 0);
        assert.equal(queue.heldBytes, held - Buffer.concat(out).length);
        assert.equal(shared.usedBytes, queue.heldBytes);
      }
      for (const [index, slot] of open) {
        write(index, 1);
        slot.finish();
      }
      assert.deepEqual(Buffer.concat(out), Buffer.concat(expected.flat()));
      assert.equal(queue.length, 0);
      assert.equal(queue.heldBytes, 0);
      assert.equal(shared.usedBytes, 0);
    }),
  );
});

test('a slot is finished once, and not written to afterwards', () => {
  const queue = new ResponseQueue(
    () => undefined,
    (view) => view,
    new HeldBytes(),
  );
  const slot = queue.open();
  slot.finish();
  assert.throws(() => slot.finish(), /twice/);
  assert.throws(() => slot.write(Buffer.alloc(1)), /finished/);
});

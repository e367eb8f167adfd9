// The made-up directory under which foreign suites run through the splice.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseOffsetShift } from '../../../src/gateway/shifted-directory.ts';

test('a shift of offsets and epochs is read, and anything else is refused by name', () => {
  assert.deepEqual(parseOffsetShift('1000003:7'), { offset: 1_000_003n, epoch: 7 });
  for (const text of ['', '5', '5:', ':7', '-1:0', '1:2:3', '1.5:2']) {
    assert.throws(() => parseOffsetShift(text), new RegExp(`'${text}': it wants OFFSETS:EPOCHS`));
  }
});

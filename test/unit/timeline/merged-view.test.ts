// Rule 5 of the splice: log start and leader epochs of a promoted partition come from a merged
// view.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  epochEndFromNative,
  epochEndInCopy,
  mergedLogStart,
} from '../../../src/timeline/merged-view.ts';
import {
  nativeEpoch,
  nativeOffset,
  virtualEpoch,
  virtualOffset,
} from '../../../src/timeline/offsets.ts';
import type { NativeExtent } from '../../../src/timeline/timeline.ts';

/** S = 1000, n = 8; native epoch 3 is V0 = 7. */
const extent: NativeExtent = {
  where: 'native',
  start: virtualOffset(1000n),
  end: null,
  offsetShift: 992n,
  epochShift: 4,
  firstEpoch: virtualEpoch(7),
};

test("the log starts where the copy does while a copy exists, else at the shell's start", () => {
  const start = (copyStart: bigint | null, nativeStart: bigint) =>
    mergedLogStart(extent, {
      copyStart: copyStart === null ? null : virtualOffset(copyStart),
      nativeStart: nativeOffset(nativeStart),
    });
  assert.equal(start(40n, 0n), 40n);
  assert.equal(start(40n, 8n), 40n, 'only what is hidden went');
  assert.equal(start(40n, 9n), 1001n, 'the record at S is deleted, so all below it is');
  assert.equal(start(40n, -1n), 40n);
  assert.equal(start(1000n, 0n), 1000n, 'an empty copy; n = 8 is hidden');
  assert.equal(start(null, 3n), 1000n);
  assert.equal(start(null, 20n), 1012n, 'retention moved the shell on');
  assert.equal(start(1000n, 20n), 1012n);
  assert.equal(start(null, -1n), -1n, 'unknown stays unknown');
});

test('an epoch before V0 ends where the copy says, at the latest at S', () => {
  const end = (epoch: number, copyEpoch: number, copyEnd: bigint) =>
    epochEndInCopy(extent, virtualEpoch(epoch), { epoch: copyEpoch, endOffset: copyEnd });
  assert.deepEqual(end(5, 5, 700n), { epoch: 5, endOffset: 700n });
  assert.deepEqual(end(6, 5, 700n), { epoch: 5, endOffset: 700n });
  assert.deepEqual(end(2, -1, 40n), { epoch: 2, endOffset: 40n }, 'before the first epoch');
  assert.deepEqual(end(2, -1, -1n), { epoch: 2, endOffset: 1000n }, 'an empty copy');
  assert.deepEqual(end(-1, 5, 700n), { epoch: -1, endOffset: -1n });
});

test('an epoch from V0 on is the answer of the broker, shifted', () => {
  const end = (epoch: number, endOffset: bigint) =>
    epochEndFromNative(extent, {
      epoch: nativeEpoch(epoch),
      endOffset: nativeOffset(endOffset),
    });
  assert.deepEqual(end(3, 30n), { epoch: 7, endOffset: 1022n });
  assert.deepEqual(end(-1, -1n), { epoch: -1, endOffset: -1n }, '(-1, -1) stays');
  assert.deepEqual(end(1, 5n), { epoch: 6, endOffset: 1000n }, 'an epoch of hidden markers');
  assert.deepEqual(end(3, 2n), { epoch: 7, endOffset: 1000n }, 'never before S');
});

// The memory sum (R14): every limit that can be held is in it, and a start says when it is too
// much.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memoryBytesMax, memoryTerms, memoryWarning } from '../../../src/config/limits.ts';
import {
  collectedResponseBytesMax,
  connectionsMax,
  heldResponseBytesMax,
  partialRequestBytesMax,
  queuedRequestBytesMax,
  receiveBytesMax,
  requestBytesMaxDefault,
  socketBufferBytes,
} from '../../../src/gateway/limits.ts';
import { responseBytesMax } from '../../../src/gateway/mirror-fetch.ts';

test('R14: the sum is that of its terms, and no term is without a bound', () => {
  for (const { what, bytesMax, countMax } of memoryTerms) {
    assert.ok(Number.isSafeInteger(bytesMax) && bytesMax > 0, what);
    assert.ok(countMax === null || countMax > 0, what);
  }
  const terms = [
    { what: 'many', countMax: 3, bytesMax: 5 },
    { what: 'as many as there are sources', countMax: null, bytesMax: 7 },
  ];
  assert.equal(memoryBytesMax(terms), 22);
  assert.ok(Number.isSafeInteger(memoryBytesMax()));
});

test('R14: a client connection counts all that its limits let it hold', () => {
  const client = memoryTerms.find(({ what }) => what === 'client connection');
  const held =
    2 * socketBufferBytes +
    queuedRequestBytesMax +
    heldResponseBytesMax +
    requestBytesMaxDefault +
    Math.max(collectedResponseBytesMax, responseBytesMax);
  assert.ok(client !== undefined && client.bytesMax >= held);
  assert.equal(client.countMax, connectionsMax);
  for (const shared of [partialRequestBytesMax, receiveBytesMax]) {
    assert.ok(memoryTerms.some(({ bytesMax, countMax }) => bytesMax === shared && countMax === 1));
  }
});

test('a start says when the limits allow more than the machine has', () => {
  assert.equal(memoryWarning(memoryBytesMax()), null);
  assert.match(memoryWarning(8 * 2 ** 30) ?? '', /this machine has 8\.0 GiB/);
});

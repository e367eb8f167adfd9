// The memory sum (R14): every limit that can be held is in it, and a start says when it is too
// much.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memoryBytesMax, memoryTerms, memoryWarning } from '../../../src/config/limits.ts';
import {
  clientIdCharactersMax,
  collectedResponseBytesMax,
  connectionsMax,
  heldBytesAlways,
  heldBytesMax,
  partialRequestBytesMax,
  receiveBytesMax,
  requestBytesMaxDefault,
  requestHeadBytes,
  verdictsMax,
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

test('R14: what is large is shared by all clients, and each connection has its little', () => {
  const client = memoryTerms.find(({ what }) => what === 'client connection');
  assert.equal(client?.countMax, connectionsMax);
  assert.ok(client.bytesMax >= 8 * heldBytesAlways);
  for (const large of [requestBytesMaxDefault, collectedResponseBytesMax, responseBytesMax]) {
    assert.ok(large > client.bytesMax, 'no connection has room of its own for it');
  }
  for (const shared of [partialRequestBytesMax, receiveBytesMax, heldBytesMax]) {
    assert.ok(memoryTerms.some(({ bytesMax, countMax }) => bytesMax >= shared && countMax === 1));
  }
  assert.ok(partialRequestBytesMax / 4 > requestBytesMaxDefault, 'the largest is one share');
  assert.ok(
    memoryTerms.some(({ countMax }) => countMax === verdictsMax),
    'rights are asked for',
  );
  assert.ok(
    client.bytesMax >= 8 * heldBytesAlways + 4 * clientIdCharactersMax,
    'what a client calls itself is kept',
  );
  assert.ok(
    client.bytesMax >= 8 * heldBytesAlways + 4 * clientIdCharactersMax + 4 * requestHeadBytes,
    'the last header and the beginning of the last request are kept, as bytes and decoded',
  );
  const inGiB = memoryBytesMax() / 2 ** 30;
  assert.ok(inGiB < 8, `${inGiB} GiB: a sum that no machine has says nothing`);
});

test('a start says when the limits allow more than the machine has', () => {
  assert.equal(memoryWarning(memoryBytesMax()), null);
  assert.match(memoryWarning(2 * 2 ** 30) ?? '', /this machine has 2\.0 GiB/);
});

// The memory sum (R14): every limit that can be held is in it, and a start says when it is too
// much.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  memoryBytesMax,
  memoryTerms,
  memoryTermsOf,
  memoryWarning,
} from '../../../src/config/limits.ts';
import {
  clientIdCharactersMax,
  collectedResponseBytesMax,
  connectionsMax,
  heldBytesAlways,
  heldBytesMax,
  keptReadBytesMax,
  partialRequestBytesMax,
  readMemoryPerByteMax,
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
  const ofReads = keptReadBytesMax + heldBytesMax * (readMemoryPerByteMax - 1);
  for (const shared of [partialRequestBytesMax, receiveBytesMax, heldBytesMax, ofReads]) {
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

const mib = 1024 * 1024;
const linkTerms = (fetchersPerBroker: number, bytesMax: number, partitionBytesMax: number) =>
  memoryTermsOf([{ name: 'dr', fetchersPerBroker, sizes: { bytesMax, partitionBytesMax } }]);

test('R14: the sum had three answers of the default size for any link', () => {
  const none = memoryBytesMax(memoryTermsOf([]));
  const others = linkTerms(1, 8 * mib, 4 * mib).filter(({ what }) => !what.includes("'dr'"));
  const answers = others.find(({ what }) => what.startsWith('source that answers'));
  const ofLink = (...sizes: Parameters<typeof linkTerms>): number =>
    memoryBytesMax(linkTerms(...sizes)) - none - (answers?.bytesMax ?? assert.fail());
  // Memory for an answer is an eighth larger than it.
  const answerBytes = (bytes: number): number => bytes + bytes / 8;
  // Four windows of eight ranges and one, each of a MiB and what of batches lies across its ends.
  // Two answers of a copy that is built anew, and of two damaged ranges each three times.
  const beside = 4 * 9 * answerBytes(3 * mib) + (2 + 2 * 3) * 4 * mib;
  assert.equal(ofLink(1, 8 * mib, 4 * mib), 3 * answerBytes(8 * mib) + beside);
  assert.equal(ofLink(32, 8 * mib, 4 * mib), 32 * 3 * answerBytes(8 * mib) + beside);
  const besideLarge = 4 * 65 * answerBytes(3 * mib) + (2 + 2 * 3) * 16 * mib;
  assert.equal(ofLink(2, 64 * mib, 16 * mib), 2 * 3 * answerBytes(64 * mib) + besideLarge);
  const byDefault = memoryBytesMax();
  assert.equal(byDefault, memoryBytesMax(linkTerms(1, 8 * mib, 4 * mib)), 'as --check shows it');
});

test('a start says when the limits allow more than the machine has', () => {
  assert.equal(memoryWarning(memoryBytesMax()), null);
  assert.match(memoryWarning(2 * 2 ** 30) ?? '', /this machine has 2\.0 GiB/);
});

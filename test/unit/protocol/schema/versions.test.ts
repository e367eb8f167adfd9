// The algebra of version ranges as the schemas write them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  covers,
  formatVersions,
  includes,
  intersect,
  isEmpty,
  noVersions,
  parseVersions,
} from '../../../../protocol/schema/versions.ts';

test('the forms of version ranges are read and written back', () => {
  for (const text of ['0', '7', '0-3', '4+', 'none']) {
    assert.equal(formatVersions(parseVersions(text)), text);
  }
  assert.equal(formatVersions(parseVersions('5-5')), '5');
});

test('what is no version range is refused', () => {
  for (const text of ['', '-1', '3-', '+', '4-2', '1,2', 'None', ' 1', '1+2']) {
    assert.throws(() => parseVersions(text), /version range/, text);
  }
});

const ranges = ['none', '0', '3', '0-3', '2-5', '4+', '0+', '7-9'].map(parseVersions);

test('intersection and covering agree with membership, version by version', () => {
  for (const a of ranges) {
    for (const b of ranges) {
      const common = intersect(a, b);
      const inBoth = (version: number) => includes(a, version) && includes(b, version);
      const versions = Array.from({ length: 15 }, (_, version) => version);
      for (const version of versions) assert.equal(includes(common, version), inBoth(version));
      assert.equal(isEmpty(common), !versions.some(inBoth));
      if (isEmpty(common)) assert.equal(common, noVersions);
      const subset = versions.every((version) => !includes(b, version) || includes(a, version));
      const bothOpen = b.high !== Number.POSITIVE_INFINITY || a.high === Number.POSITIVE_INFINITY;
      assert.equal(covers(a, b), subset && bothOpen, `${formatVersions(a)} ${formatVersions(b)}`);
    }
  }
});

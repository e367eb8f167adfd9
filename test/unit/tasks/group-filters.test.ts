// Cluster Linking's group filters: what they match, and what of them is refused by name.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { isGroupIncluded, parseGroupFilters } from '../../../src/tasks/group-filters.ts';

function filters(...list: [string, string, string][]) {
  const groupFilters = list.map(([name, patternType, filterType]) => ({
    name,
    patternType,
    filterType,
  }));
  return parseGroupFilters(JSON.stringify({ groupFilters }));
}

describe('group filters', () => {
  test('nothing given means every group, an empty list none', () => {
    assert.equal(parseGroupFilters('  '), null);
    assert.equal(isGroupIncluded(null, 'any'), true);
    assert.equal(isGroupIncluded(filters(), 'any'), false);
  });

  test('a literal star is everything, exclusion wins in any order', () => {
    const some = filters(
      ['tmp-', 'prefixed', 'exclude'],
      ['*', 'LITERAL', 'INCLUDE'],
      ['app', 'literal', 'Exclude'],
    );
    assert.equal(isGroupIncluded(some, 'orders'), true);
    assert.equal(isGroupIncluded(some, 'tmp-1'), false);
    assert.equal(isGroupIncluded(some, 'app'), false);
    assert.equal(isGroupIncluded(some, 'app2'), true);
  });

  test('a prefix star is no wildcard', () => {
    const some = filters(['*', 'PREFIXED', 'INCLUDE']);
    assert.equal(isGroupIncluded(some, 'orders'), false);
    assert.equal(isGroupIncluded(some, '*orders'), true);
  });

  const refused: readonly [string, RegExp][] = [
    ['{', /not JSON/],
    ['[]', /groupFilters/],
    ['{"topicFilters":[]}', /topicFilters/],
    ['{"groupFilters":{}}', /list/],
    ['{"groupFilters":[{"name":"a","patternType":"REGEX","filterType":"INCLUDE"}]}', /patternType/],
    ['{"groupFilters":[{"name":"a","patternType":"LITERAL"}]}', /\[0\]\.filterType/],
    ['{"groupFilters":[{"nam":"a"}]}', /'nam'/],
    [
      '{"groupFilters":[{"name":"a","patternType":"LITERAL","filterType":"INCLUDE",' +
        '"topicTypes":["REMOTE_MIRROR"]}]}',
      /bidirectional/,
    ],
  ];
  for (const [text, pattern] of refused) {
    test(`refused: ${text}`, () => {
      assert.throws(() => parseGroupFilters(text), { name: 'TypeError', message: pattern });
    });
  }
});

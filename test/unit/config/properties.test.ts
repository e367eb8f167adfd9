// Java's properties files: each case is what java.util.Properties makes of the text.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { PropertiesFault, readProperties } from '../../../src/config/properties.ts';

function pairs(text: string): [string, string][] {
  return readProperties(text).map(({ key, value }) => [key, value]);
}

describe('a properties file', () => {
  const cases: readonly [string, string, readonly [string, string][]][] = [
    ['empty', '', []],
    ['comments and blank lines', '# a=1\n  ! b=2\n\t\n#c\\\nd=4', [['d', '4']]],
    ['an equals sign', 'a=1', [['a', '1']]],
    ['a colon', 'a : 1', [['a', '1']]],
    ['blanks alone', 'a \t 1 2', [['a', '1 2']]],
    ['a second separator', 'a==1', [['a', '=1']]],
    ['a lone word', 'a', [['a', '']]],
    ['blanks at the end of a value', 'a = 1 ', [['a', '1 ']]],
    [
      'the ends of lines of other systems',
      'a=1\r\nb=2\rc=3',
      [...'123'].map((v, i) => ['abc'[i] ?? '', v]),
    ],
    [
      'a continued line',
      'a=1,\\\n   2,\\\r\n\t3\nb=4',
      [
        ['a', '1,2,3'],
        ['b', '4'],
      ],
    ],
    ['a continued line that is no comment', 'a=1\\\n#2', [['a', '1#2']]],
    ['a continued key', 'a\\\n  b=1', [['ab', '1']]],
    [
      'an escaped backslash at the end of a line',
      'a=1\\\\\nb=2',
      [
        ['a', '1\\'],
        ['b', '2'],
      ],
    ],
    ['a backslash at the end', 'a=1\\', [['a', '1']]],
    ['escaped separators', 'a\\=b\\:c\\ d=1', [['a=b:c d', '1']]],
    ['escapes', 'a=\\t\\n\\r\\f\\\\\\"\\d', [['a', '\t\n\r\f\\"d']]],
    ['characters by number', 'caf\\u00e9=\\u0041\\uD83D\\uDE00', [['caf\u00e9', 'A\u{1f600}']]],
    [
      'a key twice',
      'a=1\na=2',
      [
        ['a', '1'],
        ['a', '2'],
      ],
    ],
  ];
  for (const [name, text, expected] of cases) {
    test(`with ${name}`, () => assert.deepEqual(pairs(text), expected));
  }

  test('with half a number of a character is refused, naming the line and no value', () => {
    assert.throws(
      () => readProperties('a=1\\\n2\n\nsecret=\\u00g1'),
      (error: unknown) => {
        assert.ok(error instanceof PropertiesFault);
        assert.equal(error.message, 'line 4: \\u is not followed by four hexadecimal digits');
        return true;
      },
    );
  });

  test('tells where each key begins, and where nothing parts it from a value', () => {
    const found = readProperties('# x\na=1\\\n2\nlone\nb=').map(({ key, line, hasSeparator }) => [
      key,
      line,
      hasSeparator,
    ]);
    assert.deepEqual(found, [
      ['a', 2, true],
      ['lone', 4, false],
      ['b', 5, true],
    ]);
  });
});

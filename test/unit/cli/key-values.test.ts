// Files of settings as the command line takes them: Java's properties, and what is refused of them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CliError, ExitCode } from '../../../src/cli/io.ts';
import { parseProperties } from '../../../src/cli/key-values.ts';

test('a file of settings is read as Java does, without the blanks around its values', () => {
  const text = 'client.id : \\u0061\\\n   b \nmetadata.max.age.ms 1000\r\na=1\na=2\nempty=\n';
  assert.deepEqual(
    [...parseProperties(text, 'link.properties')],
    [
      ['client.id', 'ab'],
      ['metadata.max.age.ms', '1000'],
      ['a', '2'],
      ['empty', ''],
    ],
  );
});

for (const [text, message] of [
  ['a=1\\\n2\n\nlone\n', 'link.properties, line 4: is not key=value'],
  ['=value', 'link.properties, line 1: is not key=value'],
  ['a=\\u12', 'link.properties, line 1: \\u is not followed by four hexadecimal digits'],
] as const) {
  test(`a line that is none is named: ${JSON.stringify(text)}`, () => {
    assert.throws(
      () => parseProperties(text, 'link.properties'),
      (error: unknown) => {
        assert.ok(error instanceof CliError);
        assert.equal(error.message, message);
        assert.equal(error.exitCode, ExitCode.usage);
        return true;
      },
    );
  });
}

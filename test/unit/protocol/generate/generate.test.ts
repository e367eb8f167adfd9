/**
 * The generated files are what the generator makes of the jar, and nothing else lies beside them.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { findJar } from '../../../../protocol/generate/jar.ts';
import { generate, generatedDirectory } from '../../../../protocol/generate/main.ts';
import { parseDefinition } from '../../../../protocol/generate/read.ts';

const jar = findJar();
const skip = jar === undefined ? 'the kafka-clients jar is not in .cache/ yet' : false;

test('regenerating changes nothing', { skip }, () => {
  if (jar === undefined) throw new Error('skipped without a jar');
  const files = generate(jar);
  assert.deepEqual(readdirSync(generatedDirectory).sort(), [...files.keys()].sort());
  for (const [name, content] of files) {
    assert.equal(readFileSync(join(generatedDirectory, name), 'utf8'), content, name);
  }
});

test('whole-line comments are taken out of definitions, other slashes are not', () => {
  const text = '// head\n{ "name": "A", // tail would break JSON\n "about": "http://x" }';
  assert.throws(() => parseDefinition('A.json', text), /A\.json is not JSON/);
  const definition = parseDefinition('B.json', '// head\n  // more\n{ "about": "http://x" }');
  assert.deepEqual(definition, { about: 'http://x' });
});

// The rules of STYLE.md that a machine can hold: layers, sizes, banned words, dead files.
//
// Owns: running them over the whole repository. The rules themselves are in tidy/rules.ts, those
// that need a parser are Biome's (tidy/rules.json). Generated code is exempt.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import path from 'node:path';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';
import { rootDirectory } from './helpers/repository.ts';
import { offences, rules } from './tidy/rules.ts';
import {
  allFiles,
  deadExports,
  importCircles,
  isCode,
  isGenerated,
  reachableFrom,
} from './tidy/source-files.ts';

const run = promisify(execFile);
const files = allFiles();
const handWritten = files.filter((file) => !isGenerated(file.path));

function assertNone(found: readonly string[]): void {
  if (found.length > 0) assert.fail(`${found.length} found:\n${found.join('\n')}`);
}

describe('each rule', () => {
  for (const rule of rules) {
    test(rule.name, () => {
      assert.notDeepEqual(offences(rule, [rule.example]), [], 'the rule misses its own example');
      assertNone(offences(rule, handWritten));
    });
  }
});

test('the walk sees the code', () => {
  const paths = new Set(files.map((file) => file.path));
  for (const name of ['package.json', 'test/tidy.test.ts', 'protocol/index.ts', '.ci/run']) {
    assert.ok(paths.has(name), name);
  }
});

test('no file is dead', () => {
  const entries = [
    'src/main.ts',
    'src/cli/main.ts',
    'protocol/index.ts',
    'protocol/generate/main.ts',
    'storage/index.ts',
  ];
  const reached = reachableFrom(entries);
  const ofProduct = handWritten.filter(
    (file) => isCode(file) && /^(protocol|storage|src)\/.*\.ts$/.test(file.path),
  );
  const dead = ofProduct.filter((file) => !reached.has(file.path)).map((file) => file.path);
  assertNone(dead);
});

test('no export is dead', () => {
  const file = (text: string) => ({ path: 'src/a.ts', text });
  assert.deepEqual(deadExports([file('export const a = 1;'), file('export const b = a;')]), [
    'src/a.ts: b',
  ]);
  // What lies in protocol/ is for others too.
  assertNone(
    deadExports(handWritten.filter(isCode)).filter((found) => !found.startsWith('protocol/')),
  );
});

test('no files of the product import each other in a circle', () => {
  const file = (name: string, other: string) => ({
    path: `src/${name}.ts`,
    text: `import type { Other } from './${other}.ts';`,
  });
  const circle = [file('a', 'b'), file('b', 'c'), file('c', 'a'), file('d', 'a')];
  assert.deepEqual(importCircles(circle), ['src/a.ts -> src/b.ts -> src/c.ts -> src/a.ts']);
  const isProduct = ({ path: name }: { path: string }) => /^(protocol|storage|src)\//.test(name);
  assertNone(importCircles(handWritten.filter(isProduct)));
});

test('the page of guarantees names the tests that there are', async () => {
  const script = path.join(rootDirectory, 'scripts/guarantees.js');
  await run(process.execPath, [script, '--check']);
});

interface BiomeReport {
  diagnostics: {
    category: string;
    message: string;
    location: { path: string; start: { line: number } };
  }[];
}

/** Functions of at most 70 lines, no `any`, no `!`, no empty blocks: what needs a parser. */
test('what needs a parser', async () => {
  const biome = path.join(rootDirectory, 'node_modules/@biomejs/biome/bin/biome');
  const config = path.join(rootDirectory, 'test/tidy/rules.json');
  const folders = ['protocol', 'storage', 'src', 'test', 'bench', 'demo', 'scripts', 'bin'];
  const args = [biome, 'lint', `--config-path=${config}`, '--reporter=json'];
  const options = { cwd: rootDirectory, maxBuffer: 64 << 20 };
  const output = await run(
    process.execPath,
    [...args, '--max-diagnostics=none', ...folders],
    options,
  )
    .then(({ stdout }) => stdout)
    .catch((error: unknown) => {
      // Biome ends with 1 when it has found something; what it found is on stdout.
      if (error instanceof Error && 'stdout' in error && error.stdout) return String(error.stdout);
      throw error;
    });
  const report: BiomeReport = JSON.parse(output);
  // A suppression of a rule that is only in the full configuration looks unused here.
  const found = report.diagnostics
    .filter(({ category }) => category.startsWith('lint/'))
    .map(({ category, message, location }) => {
      return `${location.path}:${location.start.line}: ${message} (${category})`;
    });
  assertNone(found);
});

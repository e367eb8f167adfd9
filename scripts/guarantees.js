// Writes docs/guarantees.md: each rule of correctness with the tests that name it (`R7: ...` in a
// test's title). `--check` only compares, for the test that keeps the page true.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const page = join(root, 'docs/guarantees.md');

// One line per rule, R1 first.
const rules = readFileSync(join(root, 'docs/rules.txt'), 'utf8').trim().split('\n');

function testFiles(folder) {
  return readdirSync(folder, { withFileTypes: true })
    .flatMap((entry) => {
      const path = join(folder, entry.name);
      if (entry.isDirectory()) return testFiles(path);
      return entry.name.endsWith('.test.ts') ? [path] : [];
    })
    .sort();
}

/** Titles of tests that begin with rules: `R1: ...`, `R1, R7: ...`. */
function titledTests() {
  const title = /\b(?:test|it|describe)\(\s*(['"`])((?:R\d+(?:, )?)+: (?:(?!\1)[^\\]|\\.)*)\1/g;
  return testFiles(join(root, 'test')).flatMap((file) =>
    [...readFileSync(file, 'utf8').matchAll(title)].map((match) => {
      const [numbers = '', ...words] = (match[2] ?? '').split(': ');
      return {
        file: relative(root, file),
        rules: numbers.split(', ').map((rule) => Number(rule.slice(1))),
        title: words.join(': ').replaceAll('\\', ''),
      };
    }),
  );
}

const tests = titledTests();
const lines = [
  '# Guarantees',
  '',
  'What Causeway promises, and the tests that hold it to that. Generated out of `docs/rules.txt`',
  'and the titles of tests by `node scripts/guarantees.js`; do not edit. S is the virtual end of a',
  'mirror at its promotion. What is *not* promised stands in the README under "Before you depend',
  'on it".',
];
rules.forEach((text, index) => {
  const number = index + 1;
  lines.push('', `## R${number}`, text, '');
  const own = tests.filter((test) => test.rules.includes(number));
  if (own.length === 0) lines.push('No test names this rule yet: treat it as an intention.');
  for (const test of own) lines.push(`* ${test.title} (\`${test.file}\`)`);
});
const text = `${lines.join('\n')}\n`;

const unknown = process.argv.slice(2).filter((argument) => argument !== '--check');
if (unknown.length > 0) {
  process.stderr.write(`unknown argument '${unknown[0]}': there is --check\n`);
  process.exit(2);
}
if (process.argv.includes('--check')) {
  if (readFileSync(page, 'utf8') !== text) {
    process.stderr.write('docs/guarantees.md is stale: run `node scripts/guarantees.js`\n');
    process.exit(1);
  }
} else {
  writeFileSync(page, text);
}

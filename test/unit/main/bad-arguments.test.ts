// What every command of this repository answers to a command line that does not fit: one line that
// names what is wrong, and exit code 2, before anything is fetched or started.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { describe, test } from 'node:test';
import { rootDirectory } from '../../helpers/repository.ts';

const demo = 'dist/demo/main.js';
const bench = 'dist/bench/main.js';
const compat = 'dist/test/compat/main.js';
const generate = 'dist/protocol/generate/main.js';
const causeway = 'bin/causeway.js';
const tests = 'scripts/test.js';

/** A command line, and what its answer has to name. */
const cases: readonly (readonly [line: string, named: string])[] = [
  ['scripts/run.js nonsense', 'nonsense'],
  ['scripts/run.js toString', 'toString'],
  ['scripts/guarantees.js --nonsense', '--nonsense'],
  [`${tests} --nonsense`, '--nonsense'],
  [`${tests} nonsense`, 'nonsense'],
  [`${tests} unit nonsense`, 'nonsense'],
  [`${tests} long --minutes 0`, '--minutes'],
  [`${tests} long --minutes`, '--minutes'],
  [`${tests} test/unit/nonsense.test.ts`, 'nonsense.test.ts'],
  [`${demo} --nonsense`, '--nonsense'],
  [`${demo} nonsense`, 'nonsense'],
  [`${demo} --once=yes`, '--once'],
  [`${bench} --nonsense`, '--nonsense'],
  [`${bench} nonsense`, 'nonsense'],
  [`${bench} gateway --form nonsense`, 'nonsense'],
  [`${bench} gateway --form --quick`, '--form'],
  [`${bench} mirror --quick --form 1xlz4`, '1xlz4'],
  [`${bench} groups --form plain`, 'groups'],
  [`${compat} --help`, '--help'],
  [`${compat}`, "''"],
  [`${compat} nonsense`, 'nonsense'],
  [`${compat} sarama nonsense`, 'nonsense'],
  [`${compat} sarama --variant plain,nonsense`, 'nonsense'],
  [`${compat} sarama --only (`, '--only'],
  [`${compat} sarama --output /dev/null/below`, '/dev/null/below'],
  [`${generate} --nonsense`, '--nonsense'],
  [`${generate} nonsense`, 'nonsense'],
  [`${generate} --jar /dev/null/below`, '/dev/null/below'],
  [`${generate} --jar package.json`, 'package.json'],
  [`${causeway} nonsense`, 'nonsense'],
  [`${causeway} serve --config x --nonsense`, '--nonsense'],
  [`${causeway} serve`, '--config'],
];

describe('bad input', () => {
  for (const [line, named] of cases) {
    test(`${line}: one line names it, exit code 2`, () => {
      const [program = '', ...args] = line.split(' ');
      const { status, stdout, stderr } = spawnSync(
        process.execPath,
        [path.join(rootDirectory, program), ...args],
        { cwd: rootDirectory, encoding: 'utf8', timeout: 30_000 },
      );
      assert.equal(stdout, '');
      assert.match(stderr, /^[^\n]+\n$/);
      assert.ok(stderr.includes(named), stderr);
      assert.equal(status, 2, stderr);
    });
  }
});

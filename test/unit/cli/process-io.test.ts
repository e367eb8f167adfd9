// The command line as a process of its own: what becomes of output that nobody takes.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, openSync } from 'node:fs';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { rootDirectory } from '../../helpers/repository.ts';
import { ServedCli } from './cli-runs.ts';

const cli = new ServedCli();

function spawned(argv: readonly string[], stdout: 'pipe' | number) {
  const program = path.join(rootDirectory, 'bin/causeway.js');
  return spawn(process.execPath, [program, ...argv], {
    env: { ...process.env, CAUSEWAY_URL: cli.url },
    stdio: ['ignore', stdout, 'pipe'],
    timeout: 60_000,
  });
}

test('whoever followed events as far as `head` got a stack for it', async () => {
  const { events } = cli.services;
  events.info('link_created', 'Link dr was created.');
  const followed = spawned(['events', '--follow'], 'pipe');
  const told = text(followed.stderr ?? assert.fail('no stderr'));
  const ended = once(followed, 'close');
  await once(followed.stdout ?? assert.fail('no stdout'), 'data');
  followed.stdout?.destroy();
  await once(followed.stdout ?? assert.fail('no stdout'), 'close');
  events.warn('link_lost', 'Lost.');
  assert.deepEqual([await ended, await told], [[1, null], '']);
});

const skip = existsSync('/dev/full') ? false : 'there is no /dev/full';

test('output that could not be written was a stack', { skip }, async () => {
  const full = spawned(['status'], openSync('/dev/full', 'w'));
  const told = text(full.stderr ?? assert.fail('no stderr'));
  const [code] = await once(full, 'close');
  assert.equal(code, 1);
  assert.match(await told, /^causeway: the output cannot be written: [^\n]*ENOSPC[^\n]*\n$/);
});

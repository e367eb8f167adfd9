// No broker may outlive the test that started it, however that test ends.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { test } from 'node:test';
import { isAlive } from '../../helpers/file-lock.ts';
import { pauseProcess, startGuardedProcess } from '../../helpers/guarded-process.ts';
import { until } from '../../helpers/wait.ts';

const ownerFile = path.join(
  import.meta.dirname,
  `guarded-process-owner${path.extname(import.meta.filename)}`,
);

for (const isPaused of [false, true]) {
  const state = isPaused ? 'paused' : 'running';
  test(`a ${state} process dies with a test process that is killed`, async () => {
    const owner = spawn(process.execPath, [...process.execArgv, ownerFile], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const [line] = await once(owner.stdout, 'data');
    const pid = Number(String(line));
    assert.ok(isAlive(pid));
    if (isPaused) await pauseProcess(pid);
    owner.kill('SIGKILL');
    await until(`end of ${pid}`, () => !isAlive(pid), { deadlineMs: 10_000 });
  });
}

test('the end of a process is seen, and it can no longer be signalled', async () => {
  const guarded = await startGuardedProcess({
    command: 'sleep',
    args: ['600'],
    logFile: '/dev/null',
  });
  assert.ok(guarded.isRunning);
  await guarded.stop();
  assert.equal(guarded.isRunning, false);
  assert.throws(() => guarded.signal('SIGTERM'), /is gone/);
});

test('a process that ignores SIGTERM is killed after its grace', async () => {
  const guarded = await startGuardedProcess({
    command: '/bin/sh',
    args: ['-c', 'trap "" TERM; while :; do sleep 1; done'],
    logFile: '/dev/null',
  });
  await guarded.stop(200);
  // Dead, but its pid is there until somebody has asked for its exit code.
  await until(`end of ${guarded.pid}`, () => !isAlive(guarded.pid), { deadlineMs: 10_000 });
});

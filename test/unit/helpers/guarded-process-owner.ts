// Started by guarded-process.test.ts: owns one guarded process and waits to be killed.

import { startGuardedProcess } from '../../helpers/guarded-process.ts';

const guarded = await startGuardedProcess({
  command: 'sleep',
  args: ['600'],
  logFile: '/dev/null',
});
process.stdout.write(`${guarded.pid}\n`);
process.stdin.resume();

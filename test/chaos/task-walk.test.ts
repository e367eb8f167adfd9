// The random walk over what the sync tasks look after, in short: a walk of some steps, and an owner
// that is stopped, succeeded and resumed. At length, and with sources that are truncated:
// test/long/task-walk.test.ts.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startStage } from '../helpers/linked-stage.ts';
import { SeededRandom } from '../helpers/seeded-random.ts';
import { uniqueName } from '../helpers/wait.ts';
import { TaskWalk } from './task-walk.ts';

const settings = {
  'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
  'super.users': 'User:ANONYMOUS',
};

test('R5, R6, R12, R15, R16: a short walk of the tasks, with a stale owner', {
  timeout: 600_000,
}, async (context) => {
  const random = new SeededRandom();
  context.diagnostic(random.describe());
  const stage = await startStage({ source: { settings }, destination: { settings } });
  const walk = new TaskWalk({ stage, random, prefix: uniqueName('walk') });
  try {
    await walk.createLink();
    await walk.steps(20);
    await walk.rest();
    await walk.stale(4);
    context.diagnostic(walk.done.join(', '));
    const { comparisons } = walk.model;
    context.diagnostic(`${comparisons} records compared`);
    assert.ok(comparisons > 0, 'some group of the walk is at some record');
  } finally {
    await walk.close();
    await stage.stop();
  }
});

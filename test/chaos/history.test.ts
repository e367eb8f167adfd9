// What real clients saw of a failover under faults, judged by the checker of histories; and one of
// the named steps at which the proxy is killed; and a few steps of a walk over all that the sync
// tasks look after. In short form, with every change: test/long/ has them at length.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { findSkips } from '../helpers/consumer-crowd.ts';
import { FaultPoints } from '../helpers/fault-points.ts';
import { type LinkedStage, startStage } from '../helpers/linked-stage.ts';
import { SeededRandom } from '../helpers/seeded-random.ts';
import { uniqueName } from '../helpers/wait.ts';
import { CrashMatrix } from './crash-matrix.ts';
import { HistoryStory } from './history-story.ts';
import { TaskWalk } from './task-walk.ts';

let faults: FaultPoints;
let stage: LinkedStage;
let story: HistoryStory;
const random = new SeededRandom();

before(async () => {
  faults = await FaultPoints.prepare();
  const linkConfigs = { 'promote.quiet.ms': '0', 'consumer.offset.sync.enable': 'true' };
  const settings = {
    'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
    'super.users': 'User:ANONYMOUS',
  };
  const sides = { source: { settings }, destination: { settings } };
  stage = await startStage({ ...sides, linkConfigs, causeway: { env: faults.env } });
  story = await HistoryStory.begin(stage, random);
});

after(async () => {
  await story?.end();
  await stage?.stop();
  await faults?.remove();
});

test('R4, R6, R7, R8, R12: the history of a failover, the proxy killed in it, keeps the rules', async (context) => {
  context.diagnostic(random.describe());
  const skips = await findSkips(['franz-go', 'librdkafka']);
  const transactional = skips.get('franz-go') === false ? 'franz-go' : 'java';
  const other = skips.get('librdkafka') === false ? 'librdkafka' : 'java';
  const { writes, reads } = await story.round({
    verb: 'failover',
    writers: [
      [transactional, 'transactional'],
      [other, 'idempotent'],
      ['kafkajs', 'plain'],
    ],
    readers: [
      [transactional, 'read_committed'],
      [other, 'read_uncommitted'],
    ],
    whileMirroring: ['cut the lines of the link'],
    whileSwitching: 'kill the proxy',
    afterwards: ['restart a reader'],
  });
  context.diagnostic(`${writes} writes, ${reads} reads`);
  assert.ok(writes > 0 && reads > 0);
});

test('R11, R3, R4: killed when the shell has been made: nothing slips in, nothing is lost', async () => {
  await new CrashMatrix(stage, faults).life('steps', ['create.shell-created']);
});

test('R5, R6, R16: a walk over groups, ACLs, configs and topics on both sides keeps the rules', async (context) => {
  context.diagnostic(random.describe());
  const walk = new TaskWalk({ stage, random, prefix: uniqueName('walk') });
  try {
    await walk.createLink();
    for (let steps = 0; steps < 25; steps++) await walk.step();
    await walk.commitAtSource();
    await walk.rest();
    context.diagnostic(walk.done.join(', '));
    assert.ok(walk.model.comparisons > 0, 'records were compared');
  } finally {
    await walk.close();
  }
});

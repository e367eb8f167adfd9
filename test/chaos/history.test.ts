// What real clients saw of a failover under faults, judged by the checker of histories; and one of
// the named steps at which the proxy is killed. In short form, with every change: test/long/ has
// both at length.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { findSkips } from '../helpers/consumer-crowd.ts';
import { FaultPoints } from '../helpers/fault-points.ts';
import { type LinkedStage, startStage } from '../helpers/linked-stage.ts';
import { SeededRandom } from '../helpers/seeded-random.ts';
import { CrashMatrix } from './crash-matrix.ts';
import { HistoryStory } from './history-story.ts';

let faults: FaultPoints;
let stage: LinkedStage;
let story: HistoryStory;
const random = new SeededRandom();

before(async () => {
  faults = await FaultPoints.prepare();
  const linkConfigs = { 'promote.quiet.ms': '0', 'consumer.offset.sync.enable': 'true' };
  stage = await startStage({ linkConfigs, causeway: { env: faults.env } });
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

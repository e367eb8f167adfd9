// The rights that docs/sync-tasks.md names, and no others, are enough for every task on brokers
// with Kafka's authorizer; one that is missing is named with the command that grants it. (Each of
// them taken away in turn: test/long/minimal-rights.test.ts.)
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type RightsStage, startRightsStage } from '../helpers/rights-stage.ts';
import { until } from '../helpers/wait.ts';

let stage: RightsStage;

before(async () => {
  stage = await startRightsStage();
});

after(() => stage?.stop());

test('R16: the documented rights are enough, and one that is missing is named', async () => {
  const { rights } = stage;
  assert.ok(rights.length > 20, `${rights.length} rights`);
  const own = rights.filter(
    ({ side, purpose }) => side === 'source' && purpose !== 'HeartbeatEmit',
  );
  const forReading = new Set(['Read', 'Describe', 'DescribeConfigs']);
  assert.ok(
    own.every(({ operation }) => forReading.has(operation)),
    'nothing is written there',
  );
  await stage.giveWork();
  await stage.allDone();
  const missing = rights.filter(
    ({ purpose, side, operation }) =>
      purpose === 'ConsumerOffsetSync' && side === 'destination' && operation === 'Read',
  );
  assert.ok(missing.length > 0);
  await stage.take(missing);
  await stage.giveWork();
  let said = '';
  await until(
    'the right by name',
    async () => {
      said = await stage.said();
      return /kafka-acls --add --(group|topic) '[gt]\.\w+' --operation Read/.test(said);
    },
    { describe: () => said },
  );
  await stage.grant(missing);
  await stage.allDone();
});

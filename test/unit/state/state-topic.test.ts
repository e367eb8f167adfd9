// The settings that the state topic must have, whatever a broker's defaults are.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ErrorCode } from '../../../protocol/index.ts';
import { StateError } from '../../../src/state/state.ts';
import {
  checkSettings,
  checkStateTopic,
  findStateTopic,
  stateTopicName,
} from '../../../src/state/state-topic.ts';
import { FakeStateCluster } from './fake-state-cluster.ts';

const good = {
  'cleanup.policy': 'compact',
  'unclean.leader.election.enable': 'false',
  'min.insync.replicas': '2',
  'max.message.bytes': '8388608',
};

function check(changes: Record<string, string>, replicationFactor = 3): void {
  checkSettings('t', replicationFactor, new Map(Object.entries({ ...good, ...changes })));
}

test('the topic is called after the instance', () => {
  assert.equal(stateTopicName('causeway'), '__causeway_state');
});

test('each wrong setting is named with its value and what is needed', () => {
  check({});
  check({ 'min.insync.replicas': '1' }, 1);
  check({ 'min.insync.replicas': '1' }, 2);
  const wrong: [string, string][] = [
    ['cleanup.policy', 'compact,delete'],
    ['unclean.leader.election.enable', 'true'],
    ['min.insync.replicas', '1'],
    ['max.message.bytes', '1048588'],
  ];
  for (const [setting, value] of wrong) {
    assert.throws(
      () => check({ [setting]: value }),
      (error: unknown) =>
        error instanceof StateError &&
        error.code === 'CORRUPT' &&
        error.message.includes(`${setting} is ${value}, needed is`),
    );
  }
});

async function checkWith(configErrors: number[]): Promise<FakeStateCluster> {
  const cluster = new FakeStateCluster();
  cluster.configErrors = configErrors;
  const { signal } = new AbortController();
  const info = await findStateTopic(cluster, 't', signal);
  assert.ok(info);
  await checkStateTopic(cluster, info, signal);
  return cluster;
}

test('a broker that has not heard yet of the topic just created is asked again', async () => {
  const unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION;
  const { seen } = await checkWith([unknown, unknown]);
  assert.deepEqual(seen, ['DescribeConfigs', 'DescribeConfigs', 'DescribeConfigs']);
});

test('settings that a broker refuses without a word are told by the name of its error', async () => {
  const refused = checkWith([ErrorCode.TOPIC_AUTHORIZATION_FAILED]);
  const message = 'settings of state topic t: TOPIC_AUTHORIZATION_FAILED';
  await assert.rejects(refused, { code: 'UNAVAILABLE', message });
});

// The config task on real brokers: configs from the first moment, the same rule later, edits made
// at the destination, values that it refuses.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { alterTopicConfigs, readTopicConfigs } from '../../src/cluster/config-requests.ts';
import type { TaskStatus } from '../../src/link/service.ts';
import { produce } from '../helpers/own-producer.ts';
import { createTopic } from '../helpers/topic-admin.ts';
import { uniqueName, until } from '../helpers/wait.ts';
import { type LinkWorld, startLinkWorld } from './link-fixture.ts';

let world: LinkWorld;

before(async () => {
  world = await startLinkWorld({ destination: { advertise: 'reachable' } });
  await world.createLink('dr', { 'topic.config.sync.ms': '300' });
});

after(() => world?.end());

const setOnTopic = 1;

/** What is set on the topic itself. */
async function configsOf(cluster: Cluster, topic: string): Promise<Record<string, string>> {
  const read = (await readTopicConfigs(cluster, [topic], everyKey)).get(topic);
  assert.equal(read?.errorCode, 0);
  const set = read.configs.filter(({ configSource }) => configSource === setOnTopic);
  return Object.fromEntries(set.map(({ name, value }) => [name, value ?? '']));
}

const everyKey = [
  'cleanup.policy',
  'retention.ms',
  'segment.bytes',
  'segment.ms',
  'delete.retention.ms',
  'max.message.bytes',
  'min.insync.replicas',
  'min.compaction.lag.ms',
  'max.compaction.lag.ms',
  'flush.ms',
];

async function set(cluster: Cluster, topic: string, configs: Record<string, string | null>) {
  const changes = Object.entries(configs).map(([name, value]) => ({ name, value }));
  const result = (await alterTopicConfigs(cluster, new Map([[topic, changes]]))).get(topic);
  assert.equal(result?.errorCode, 0, result?.message);
}

async function mirrorOf(configs: Record<string, string>, link = 'dr'): Promise<string> {
  const topic = uniqueName('configured');
  await createTopic(world.source, topic, { configs });
  await world.createMirror(link, topic);
  return topic;
}

function has(topic: string, name: string, value: string | undefined): Promise<unknown> {
  let seen: unknown;
  return until(
    `${name}=${value} on ${topic}`,
    async () => {
      seen = await configsOf(world.destination, topic);
      return (seen as Record<string, string>)[name] === value;
    },
    { deadlineMs: 15_000, describe: () => JSON.stringify(seen) },
  );
}

function task(link = 'dr'): TaskStatus {
  const found = world.service
    .describeLink(link)
    .tasks.find(({ name }) => name === 'TopicConfigsSync');
  assert.ok(found);
  return found;
}

/** Two whole rounds from now on. */
async function rounds(): Promise<void> {
  for (let count = 0; count < 2; count++) {
    const { lastSuccessTimeMs } = task();
    await until('a round', () => task().lastSuccessTimeMs > lastSuccessTimeMs);
  }
}

test('D08: a mirror has its configs from the first moment', async () => {
  const topic = await mirrorOf({ 'cleanup.policy': 'compact', 'retention.ms': '-1' });
  const first = await configsOf(world.destination, topic);
  assert.equal(first['cleanup.policy'], 'compact');
  assert.equal(first['retention.ms'], '-1');
  assert.equal(first['delete.retention.ms'], '9223372036854775807');
});

test('a change of the source follows; a key that it has no more is unset', async () => {
  const topic = await mirrorOf({ 'retention.ms': '1000000', 'segment.ms': '600000' });
  await set(world.source, topic, { 'retention.ms': '2000000', 'segment.ms': null });
  await has(topic, 'retention.ms', '2000000');
  await has(topic, 'segment.ms', undefined);
  await set(world.source, topic, { 'cleanup.policy': 'compact' });
  await has(topic, 'cleanup.policy', 'compact');
  assert.equal(
    (await configsOf(world.destination, topic))['delete.retention.ms'],
    '9223372036854775807',
  );
});

test('D09: what is excluded is excluded at creation and later', async () => {
  await world.createLink('some', {
    'topic.config.sync.ms': '300',
    'topic.config.sync.include':
      'cleanup.policy,max.message.bytes,message.timestamp.type,retention.ms',
  });
  const topic = await mirrorOf({ 'segment.bytes': '1048576', 'retention.ms': '1000000' }, 'some');
  const first = await configsOf(world.destination, topic);
  assert.equal(first['segment.bytes'], undefined);
  assert.equal(first['retention.ms'], '1000000');
  await set(world.source, topic, { 'segment.bytes': '2097152', 'retention.ms': '2000000' });
  await has(topic, 'retention.ms', '2000000');
  assert.equal((await configsOf(world.destination, topic))['segment.bytes'], undefined);
});

test('R16: D10: min.insync.replicas and edits made here survive, and are shown as such', async () => {
  const topic = await mirrorOf({ 'retention.ms': '1000000', 'min.insync.replicas': '1' });
  await set(world.destination, topic, { 'min.insync.replicas': '2', 'flush.ms': '5000' });
  await set(world.source, topic, { 'retention.ms': '2000000', 'flush.ms': '7000' });
  await has(topic, 'retention.ms', '2000000');
  await rounds();
  const here = await configsOf(world.destination, topic);
  assert.equal(here['min.insync.replicas'], '2');
  assert.equal(here['flush.ms'], '5000');
  assert.ok((task().counts?.localEdits ?? 0) >= 1);
  const plans = await world.service.planTasks('dr');
  const kept = plans.flatMap(({ changes }) => changes).filter(({ action }) => action === 'keep');
  assert.deepEqual(kept, [
    {
      action: 'keep',
      subject: `topic ${topic}`,
      detail: "flush.ms: edited here ('5000'), the source has '7000'",
    },
  ]);
  // Set to what the source has, it follows again.
  await set(world.destination, topic, { 'flush.ms': '7000' });
  await rounds();
  await set(world.source, topic, { 'flush.ms': '8000' });
  await has(topic, 'flush.ms', '8000');
});

test('a value that the destination refuses is reported, stops neither data nor other keys', async () => {
  const topic = await mirrorOf({ 'retention.ms': '1000000' });
  // No compaction later than 1 s here contradicts the source's: none earlier than 5 s.
  await set(world.destination, topic, { 'max.compaction.lag.ms': '1000' });
  await set(world.source, topic, { 'min.compaction.lag.ms': '5000', 'retention.ms': '2000000' });
  await has(topic, 'retention.ms', '2000000');
  const error = await until('the refusal', () =>
    task().errors.find(({ message }) => message.includes(topic)),
  );
  assert.equal(error.code, 'INVALID_REQUEST_ERROR');
  assert.match(error.message, /refuses min\.compaction\.lag\.ms=5000 of topic/);
  assert.equal(task().state, 'IN_ERROR');
  await produce(world.source, { topic }, ['goes on']);
  await world.caughtUp(topic, [1n]);
  await set(world.destination, topic, { 'max.compaction.lag.ms': null });
  await has(topic, 'min.compaction.lag.ms', '5000');
  await until('recovery', () => task().state === 'ACTIVE');
});

test('after a restart an edit is still an edit, and promotion ends the sync', async () => {
  const topic = await mirrorOf({ 'retention.ms': '1000000' });
  await set(world.destination, topic, { 'segment.ms': '700000' });
  await set(world.source, topic, { 'segment.ms': '600000' });
  await world.restart();
  await set(world.source, topic, { 'retention.ms': '3000000' });
  await has(topic, 'retention.ms', '3000000');
  assert.equal((await configsOf(world.destination, topic))['segment.ms'], '700000');
  await world.command('promote', topic);
  await world.inState(topic, 'STOPPED');
  await set(world.source, topic, { 'retention.ms': '4000000' });
  await rounds();
  assert.equal((await configsOf(world.destination, topic))['retention.ms'], '3000000');
});

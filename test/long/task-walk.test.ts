// The random walk over what the sync tasks look after, at length, with what the short form leaves
// out: a source of several brokers whose logs are truncated by unclean elections, and an owner that
// is stopped, succeeded and resumed. Until the time given with `--minutes` is used up.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createCreatableReplicaAssignment,
  createCreatableTopic,
  createCreatableTopicConfig,
  createCreateTopicsRequest,
} from '../../protocol/generated/create-topics-request.ts';
import { createTopicsApi } from '../../src/cluster/apis.ts';
import type { WalkTopic } from '../chaos/task-model.ts';
import { TaskWalk } from '../chaos/task-walk.ts';
import type { CausewayProcess } from '../helpers/causeway-process.ts';
import { type LinkedStage, offsets, startStage } from '../helpers/linked-stage.ts';
import { readLog } from '../helpers/log-records.ts';
import { values, write } from '../helpers/raw-writes.ts';
import { SeededRandom } from '../helpers/seeded-random.ts';
import { uniqueName, until } from '../helpers/wait.ts';

/** Broker 1 is the only controller, and keeps what groups have committed. */
const replicas = [2, 3];
const stepsPerRound = 15;
const slow = { deadlineMs: 90_000 };

async function createOnReplicas(
  stage: LinkedStage,
  name: string,
  partitions: number,
  configs: object,
): Promise<void> {
  const all = { ...configs, 'unclean.leader.election.enable': 'true', 'min.insync.replicas': '1' };
  const topic = createCreatableTopic({
    name,
    numPartitions: -1,
    replicationFactor: -1,
    assignments: Array.from({ length: partitions }, (_, partitionIndex) =>
      createCreatableReplicaAssignment({ partitionIndex, brokerIds: [...replicas] }),
    ),
    configs: Object.entries(all).map(([key, value]) =>
      createCreatableTopicConfig({ name: key, value: String(value) }),
    ),
  });
  const request = createCreateTopicsRequest({ topics: [topic], timeoutMs: 20_000 });
  const answer = await stage.atSource.send({ kind: 'controller' }, createTopicsApi, request);
  assert.equal(answer.topics[0]?.errorCode, 0, answer.topics[0]?.errorMessage ?? name);
  await until(
    `leaders of ${name}`,
    async () => (await offsets(stage.atSource, name, -1n)).length > 0,
  );
}

async function leaderOf(stage: LinkedStage, topic: string, partition: number): Promise<number> {
  const info = (await stage.atSource.metadata([topic])).topics.get(topic);
  return info?.partitions.find((one) => one.partition === partition)?.leaderId ?? -1;
}

/** A write whose answer was lost may be there twice: what is there is asked of the source. */
async function relearn(
  stage: LinkedStage,
  at: { topic: WalkTopic; partition: number; before: number },
): Promise<void> {
  const { name, partitions, written } = at.topic;
  const known = written[at.partition];
  for (const offset of [...(known?.keys() ?? [])]) if (offset >= at.before) known?.delete(offset);
  for (const { partition, offset, value } of await readLog(stage.source, { name, partitions })) {
    if (partition !== at.partition || offset < at.before || value === null) continue;
    known?.set(offset, value);
  }
}

/** One replica alone takes records, and dies with them; the other one goes on without. */
async function truncate(stage: LinkedStage, walk: TaskWalk, random: SeededRandom): Promise<void> {
  await walk.rest();
  const topic = random.pick(walk.model.mirrored);
  const partition = random.below(topic.partitions);
  const { source, atSource } = stage;
  const holder = await leaderOf(stage, topic.name, partition);
  const other = replicas.find((id) => id !== holder) ?? -1;
  const [before = 0n] = (await offsets(atSource, topic.name, -1n)).slice(partition);
  await source.kill9(other);
  await until(
    'written to one replica',
    async () => (await write(atSource, topic.name, partition, values('lost', 3))) >= 0n,
    slow,
  );
  await walk.commitAtEnd(topic);
  await source.kill9(holder);
  await source.restartBroker(other);
  await until(
    'the other leads',
    async () => (await leaderOf(stage, topic.name, partition)) === other,
    slow,
  );
  await source.restartBroker(holder);
  await until(
    'new history',
    async () => (await write(atSource, topic.name, partition, ['new history'])) >= before,
    slow,
  );
  await relearn(stage, { topic, partition, before: Number(before) });
  for (const group of walk.model.groups) {
    const isBeyond = (group.own?.[partition] ?? -1) > Number(before);
    if (group.topic === topic && isBeyond) group.own = null;
  }
  await walk.rest();
}

test('R5, R6, R12, R15, R16: a long walk of the tasks, with truncations and stale owners', {
  timeout: 7_200_000,
}, async (context) => {
  const random = new SeededRandom();
  context.diagnostic(random.describe());
  const minutes = Number(process.env.CAUSEWAY_TEST_MINUTES ?? 10);
  const endMs = performance.now() + minutes * 60_000;
  const settings = {
    'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
    'super.users': 'User:ANONYMOUS',
  };
  const stage = await startStage({
    source: { brokers: 3, settings: { ...settings, 'replica.lag.time.max.ms': '3000' } },
    destination: { settings },
    linkConfigs: { 'request.timeout.ms': '3000' },
  });
  let rounds = 0;
  let compared = 0;
  let acting: CausewayProcess | undefined;
  try {
    while (rounds === 0 || performance.now() < endMs) {
      // A walk of its own now and then: its topics are few, and some are promoted.
      const walk = new TaskWalk({
        stage,
        random,
        causeway: acting,
        prefix: uniqueName('walk'),
        createAtSource: (name, partitions, configs) =>
          createOnReplicas(stage, name, partitions, configs),
      });
      try {
        await walk.createLink();
        for (let part = 0; part < 4 && (part === 0 || performance.now() < endMs); part++) {
          await walk.steps(stepsPerRound);
          await walk.rest();
          if (part === 1) await truncate(stage, walk, random);
          if (part === 2) await walk.stale(5);
          rounds++;
        }
        compared += walk.model.comparisons;
      } finally {
        context.diagnostic(walk.done.join(', '));
        acting = walk.acting;
        await walk.close();
      }
    }
    context.diagnostic(`${rounds} rounds, ${compared} records compared`);
    assert.ok(compared > 0);
  } finally {
    await stage.stop();
  }
});

// Who writes to a source, asked of its brokers: what they tell, and what is said when they do
// not.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ClusterError, type TopicInfo } from '../../../src/cluster/cluster.ts';
import type { LinkRuntime } from '../../../src/link/link.ts';
import type { MirrorTopic } from '../../../src/link/mirror/mirror-topics.ts';
import { recentWriters } from '../../../src/link/switch/recent-writers.ts';
import { FakeCluster, shellId, sourceId, topicInfo } from './fakes.ts';

interface Producer {
  producerId: bigint;
  producerEpoch: number;
  lastTimestamp: bigint;
  currentTxnStartOffset: bigint;
}

class WrittenCluster extends FakeCluster {
  /** By `topic/partition`. */
  readonly producers = new Map<string, Producer[]>();
  readonly refused = new Map<string, number>();
  requests = 0;
  isOld = false;

  // biome-ignore lint/suspicious/noExplicitAny: one API only
  override async send(_target: unknown, api: { name: string }, request: any): Promise<any> {
    assert.equal(api.name, 'DescribeProducers');
    this.requests++;
    if (this.isOld) throw new ClusterError('UNSUPPORTED', 'no version', { maybeSent: false });
    const topics = request.topics.map(
      ({ name, partitionIndexes }: { name: string; partitionIndexes: number[] }) => ({
        name,
        partitions: partitionIndexes.map((partitionIndex) => ({
          partitionIndex,
          errorCode: this.refused.get(name) ?? 0,
          activeProducers: this.producers.get(`${name}/${partitionIndex}`) ?? [],
        })),
      }),
    );
    return { topics };
  }
}

function scene(...infos: readonly TopicInfo[]) {
  const source = new WrittenCluster();
  for (const info of infos) source.topics.set(info.name, info);
  const link = { name: 'dr', connected: async () => source } as unknown as LinkRuntime;
  const mirrors = infos.map(
    ({ name, topicId }) =>
      ({
        name: `x.${name}`,
        link: 'dr',
        record: { sourceTopic: name, sourceTopicId: topicId, partitions: [] },
      }) as unknown as MirrorTopic,
  );
  const ask = () => recentWriters(new Map([[link, mirrors]]), { sinceMs: 1_000 });
  return { source, ask };
}

function producer(producerId: bigint, lastTimestamp: bigint, currentTxnStartOffset = -1n) {
  return { producerId, producerEpoch: 2, lastTimestamp, currentTxnStartOffset };
}

test('names those that wrote lately or have a transaction open, the latest first', async () => {
  const { source, ask } = scene(topicInfo('orders', sourceId, [0, 0]));
  source.producers.set('orders/0', [producer(1n, 2_000n), producer(2n, 500n)]);
  source.producers.set('orders/1', [producer(3n, 400n, 7n), producer(4n, 3_000n)]);
  const { writers, writersCount, problems } = await ask();
  assert.deepEqual(problems, []);
  assert.equal(writersCount, 3, 'the old one is not named');
  assert.deepEqual(
    writers.map(({ topic, partition, producerId }) => [topic, partition, producerId]),
    [
      ['x.orders', 1, 4n],
      ['x.orders', 0, 1n],
      ['x.orders', 1, 3n],
    ],
  );
  assert.deepEqual(writers[2], {
    ...{ link: 'dr', topic: 'x.orders', partition: 1, producerId: 3n, producerEpoch: 2 },
    ...{ lastTimeMs: 400, isInTransaction: true },
  });
  assert.equal(source.requests, 1, 'one request per broker');
});

test('a topic that it may not ask about is named once, with the remedy', async () => {
  const { source, ask } = scene(
    topicInfo('secret', sourceId, [0, 0]),
    topicInfo('t', sourceId, [0]),
  );
  source.refused.set('secret', 29);
  source.producers.set('t/0', [producer(1n, 2_000n)]);
  const { writers, problems, problemsCount } = await ask();
  assert.equal(writers.length, 1);
  assert.equal(problemsCount, 1);
  assert.equal(problems[0]?.topic, 'x.secret');
  assert.match(problems[0]?.message ?? '', /--add --topic 'secret' --operation Read/);
});

test('a source that is old, or does not answer, has unknown writers, not none', async () => {
  const { source, ask } = scene(topicInfo('orders', sourceId, [0]));
  source.isOld = true;
  assert.match((await ask()).problems[0]?.message ?? '', /before 2\.8/);
  source.isDead = true;
  assert.match((await ask()).problems[0]?.message ?? '', /scripted/);
  const missing = scene(topicInfo('gone', sourceId, [0]));
  missing.source.topics.clear();
  assert.match((await missing.ask()).problems[0]?.message ?? '', /UNKNOWN_TOPIC/);
});

test('R9: whoever writes to a topic that was made again is no writer of the mirrored one', async () => {
  const { source, ask } = scene(topicInfo('orders', sourceId, [0]));
  source.topics.set('orders', topicInfo('orders', shellId, [0]));
  source.producers.set('orders/0', [producer(1n, 2_000n)]);
  const { writers, problems } = await ask();
  assert.deepEqual(writers, []);
  assert.match(problems[0]?.message ?? '', /'orders' was recreated/);
});

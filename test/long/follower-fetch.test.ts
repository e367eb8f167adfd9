// Reading from the nearest replica (KIP-392) works through us as it does directly: brokers in
// racks, whose leader sends clients of another rack to a follower; ordinary topics and promoted
// ones.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createFetchPartition } from '../../protocol/generated/fetch-request.ts';
import { forEachBatch } from '../../protocol/index.ts';
import { fetchApi } from '../../src/cluster/apis.ts';
import type { Cluster } from '../../src/cluster/cluster.ts';
import {
  nativeEpoch,
  nativeOffset,
  virtualEpoch,
  virtualOffset,
} from '../../src/timeline/offsets.ts';
import { newMirror, splice } from '../../src/timeline/timeline.ts';
import { skipReason, startConsumer } from '../helpers/foreign-clients.ts';
import { type KafkaCluster, startKafkaCluster } from '../helpers/kafka-cluster.ts';
import { createTopic, produceBatch } from '../helpers/kafka-setup.ts';
import { openCluster } from '../helpers/raw-batches.ts';
import { fetchRequest } from '../helpers/raw-requests.ts';
import { uniqueName, until } from '../helpers/wait.ts';
import { type GatewayUnderTest, gatewayFor } from '../kafka/gateway-fixture.ts';
import { batch, MemoryMirrorLog } from '../unit/gateway/memory-mirror-log.ts';
import { FakeDirectory } from '../unit/gateway/read-fixtures.ts';

const rackOf = (nodeId: number): string => `rack-${nodeId}`;
const recordsCount = 20;
const recordBytes = 4096;
/** Where a promoted topic goes from its copy to its shell. */
const spliceOffset = 5n;
const deadlineMs = 90_000;

describe('brokers in racks', () => {
  let kafka: KafkaCluster;
  let direct: Cluster;
  let proxied: Cluster;
  let proxy: GatewayUnderTest;
  const directory = new FakeDirectory();

  before(async () => {
    kafka = await startKafkaCluster({
      name: 'racks',
      brokers: 2,
      settings: {
        'replica.selector.class': 'org.apache.kafka.common.replica.RackAwareReplicaSelector',
      },
      settingsOf: (id) => ({ 'broker.rack': rackOf(id) }),
    });
    proxy = await gatewayFor(kafka, { directory });
    direct = openCluster(kafka);
    proxied = openCluster({ bootstrap: proxy.bootstrap });
  });

  after(async () => {
    await proxied?.close();
    await direct?.close();
    await proxy?.close();
    await kafka?.stop();
  });

  async function topicWithRecords(): Promise<{ topic: string; leader: number; follower: number }> {
    const topic = uniqueName('racks');
    await createTopic(kafka, { topic, replication: 2 });
    const value = 'x'.repeat(recordBytes);
    for (let at = 0; at < recordsCount; at++) await produceBatch(kafka, { topic }, [{ value }]);
    const leader = (await direct.metadata([topic])).topics.get(topic)?.partitions[0]?.leaderId;
    assert.ok(leader === 1 || leader === 2);
    return { topic, leader, follower: 3 - leader };
  }

  async function promote(topic: string): Promise<void> {
    const found = (await direct.metadata([topic])).topics.get(topic);
    const log = new MemoryMirrorLog(0n, batch(0n, Number(spliceOffset)));
    const timeline = splice(newMirror(virtualOffset(0n)), {
      virtualEnd: virtualOffset(spliceOffset),
      nativeEnd: nativeOffset(0n),
      nativeEpoch: nativeEpoch(found?.partitions[0]?.leaderEpoch ?? 0),
      lastVirtualEpoch: virtualEpoch(5),
    });
    const topicId = found?.topicId ?? '';
    directory.put({ name: topic, topicId, mode: 'promoted', log, timeline });
  }

  /** One fetch of a client in a rack, at one node. */
  async function fetchFrom(
    cluster: Cluster,
    where: { topic: string; nodeId: number; offset: bigint; rackId: string },
  ) {
    const { topic, nodeId, offset: fetchOffset, rackId } = where;
    const info = (await cluster.metadata([topic])).topics.get(topic);
    assert.ok(info);
    const request = { ...fetchRequest(info, { offset: fetchOffset }), rackId };
    for (const one of request.topics) {
      one.partitions = [
        createFetchPartition({ partition: 0, fetchOffset, partitionMaxBytes: 1 << 20 }),
      ];
    }
    const answer = await cluster.send({ kind: 'node', nodeId }, fetchApi, request);
    const data = answer.responses[0]?.partitions[0];
    const offsets: bigint[] = [];
    forEachBatch(data?.records ?? Buffer.alloc(0), ({ baseOffset }) => offsets.push(baseOffset));
    const { errorCode = -1, preferredReadReplica = -1 } = data ?? {};
    return { errorCode: answer.errorCode || errorCode, preferredReadReplica, offsets };
  }

  /** A client of the follower's rack: where the leader sends it, and what it gets there. */
  async function followed(
    cluster: Cluster,
    { topic, leader, follower }: { topic: string; leader: number; follower: number },
    offset: bigint,
  ) {
    const rackId = rackOf(follower);
    const there = { topic, offset, rackId };
    const sent = await until('a preferred replica', async () => {
      const answer = await fetchFrom(cluster, { ...there, nodeId: leader });
      return answer.preferredReadReplica === follower ? answer : undefined;
    });
    assert.deepEqual(sent, { errorCode: 0, preferredReadReplica: follower, offsets: [] });
    return until('records of the follower', async () => {
      const answer = await fetchFrom(cluster, { ...there, nodeId: follower });
      assert.equal(answer.errorCode, 0);
      return answer.offsets.length === recordsCount - Number(offset) ? answer : undefined;
    });
  }

  test('the leader names the follower, and the follower answers, as directly', async () => {
    const found = await topicWithRecords();
    assert.deepEqual(await followed(proxied, found, 3n), await followed(direct, found, 3n));
    const own = { topic: found.topic, offset: 3n, rackId: rackOf(found.leader) };
    const answer = await fetchFrom(proxied, { ...own, nodeId: found.leader });
    assert.equal(answer.preferredReadReplica, -1, 'the leader is in the rack itself');
    assert.equal(answer.offsets.length, recordsCount - 3);
  });

  test('R4, R8: of a promoted topic the follower answers in virtual offsets', async () => {
    const found = await topicWithRecords();
    await promote(found.topic);
    const rackId = rackOf(found.follower);
    const sent = await until('a preferred replica', async () => {
      const ask = { topic: found.topic, nodeId: found.leader, offset: spliceOffset, rackId };
      const answer = await fetchFrom(proxied, ask);
      return answer.preferredReadReplica >= 0 ? answer : undefined;
    });
    assert.deepEqual(sent, { errorCode: 0, preferredReadReplica: found.follower, offsets: [] });
    for (const nodeId of [found.leader, found.follower]) {
      const copied = await fetchFrom(proxied, { topic: found.topic, nodeId, offset: 1n, rackId });
      assert.deepEqual(copied.offsets, [0n], 'the copy is answered at every node');
    }
    const native = await until('all that the follower has', async () => {
      const answer = await fetchFrom(proxied, {
        topic: found.topic,
        nodeId: found.follower,
        offset: spliceOffset + 2n,
        rackId,
      });
      assert.equal(answer.errorCode, 0);
      // A follower's high watermark comes after the leader's.
      return answer.offsets.length >= recordsCount - 2 ? answer : undefined;
    });
    const expected = Array.from(
      { length: recordsCount - 2 },
      (_, at) => spliceOffset + 2n + BigInt(at),
    );
    assert.deepEqual(native.offsets, expected);
  });

  for (const kind of ['java', 'librdkafka'] as const) {
    test(`a ${kind} consumer in the follower's rack reads there`, async (context) => {
      const skip = await skipReason(kind);
      if (skip !== false) return context.skip(skip);
      const found = await topicWithRecords();
      // A client that finds the follower behind stays with the leader for a minute.
      await followed(direct, found, BigInt(recordsCount - 1));
      await promote(found.topic);
      const since = proxy.events.since(0).at(-1)?.id ?? 0;
      const consumer = await startConsumer(kind, {
        bootstrap: proxy.bootstrap,
        topic: found.topic,
        reset: 'earliest',
        properties: { 'client.rack': rackOf(found.follower) },
      });
      const total = recordsCount + Number(spliceOffset);
      try {
        await until('all records', () => consumer.records.length >= total, { deadlineMs });
        assert.deepEqual(
          consumer.records.map(({ offset }) => offset),
          Array.from({ length: total }, (_, offset) => offset),
        );
      } finally {
        await consumer.stop();
      }
      const bytesFrom = (nodeId: number): number =>
        proxy.events
          .since(since)
          .filter(({ event }) => event === 'connection_closed')
          .filter(({ fields }) => fields?.listener === `broker ${nodeId}`)
          .reduce((sum, { fields }) => sum + Number(fields?.bytesToClient), 0);
      // A client may have several connections to a broker, which end one after the other.
      await until('the end of a connection with the records of the follower', () => {
        return bytesFrom(found.follower) > recordsCount * recordBytes;
      });
    });
  }
});

// The two halves of a promoted topic as one, in the corners: nothing below S, a partition without
// records beside others, a log start above zero, a prefix that is gone, partitions that came later,
// a topic made anew, offsets by time across S, DeleteRecords across S.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createDeleteTopicsRequest } from '../../protocol/generated/delete-topics-request.ts';
import { deleteTopicsApi } from '../../src/cluster/apis.ts';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { readTopicConfigs } from '../../src/cluster/config-requests.ts';
import { commitOffsets, committedOffsets } from '../helpers/group-offsets.ts';
import { type LinkedStage, offsets, startStage } from '../helpers/linked-stage.ts';
import { command, mirrorView, post, stopMirroring } from '../helpers/mirror-commands.ts';
import { readBatches } from '../helpers/raw-batches.ts';
import { fetchAt, listAt } from '../helpers/raw-reads.ts';
import { values, write } from '../helpers/raw-writes.ts';
import { createTopic, deleteRecords, growTopic } from '../helpers/topic-admin.ts';
import { until } from '../helpers/wait.ts';

const outOfRange = 1;
const fencedLeaderEpoch = 74;
const unknownLeaderEpoch = 75;
let stage: LinkedStage;

before(async () => {
  stage = await startStage({ linkConfigs: { 'promote.quiet.ms': '0' } });
});

after(async () => {
  await stage?.stop();
});

/** Records by partition at the source, mirrored and promoted. Returns S by partition. */
async function promoted(
  topic: string,
  counts: readonly number[],
  configs: Record<string, string> = {},
): Promise<bigint[]> {
  const fill = async (): Promise<void> => {
    for (const [partition, count] of counts.entries()) {
      if (count > 0) await write(stage.atSource, topic, partition, values('below', count));
    }
  };
  await stage.mirrorNewTopic(topic, fill, { partitions: counts.length, configs });
  const switched = await stopMirroring(stage.causeway, 'promote', topic);
  return switched.map(({ virtualEnd }) => BigInt(virtualEnd));
}

async function deleteTopic(cluster: Cluster, name: string): Promise<void> {
  const request = createDeleteTopicsRequest({ topicNames: [name], timeoutMs: 10_000 });
  const target = { kind: 'controller' } as const;
  const answer = await cluster.send(target, deleteTopicsApi, request, { versionMax: 5 });
  assert.equal(answer.responses[0]?.errorCode, 0);
}

async function retentionOfTombstones(topic: string): Promise<string | null | undefined> {
  const key = 'delete.retention.ms';
  const answers = await readTopicConfigs(stage.atDestination, [topic], [key]);
  return answers.get(topic)?.configs.find(({ name }) => name === key)?.value;
}

async function baseOffsets(topic: string, partition: number): Promise<bigint[]> {
  const batches = await readBatches(stage.atProxy, topic, partition);
  return batches.map(({ baseOffset }) => baseOffset);
}

test('R4: nothing below S, and one partition empty beside another that is not', async () => {
  assert.deepEqual(await promoted('empties', [0, 4, 0]), [0n, 4n, 0n]);
  for (const [partition, start] of [0n, 4n, 0n].entries()) {
    assert.equal(await write(stage.atProxy, 'empties', partition, values('after', 2)), start);
  }
  assert.deepEqual(await offsets(stage.atProxy, 'empties', -2n), [0n, 0n, 0n]);
  assert.deepEqual(await offsets(stage.atProxy, 'empties', -1n), [2n, 6n, 2n]);
  assert.deepEqual(await baseOffsets('empties', 0), [0n]);
  assert.deepEqual(await baseOffsets('empties', 1), [0n, 4n]);
});

test('DeleteRecords took records of a copy that Kafka keeps: its topic is only compacted', async () => {
  const { atProxy } = stage;
  const topic = 'compacted';
  const configs = { 'cleanup.policy': 'compact' };
  await stage.mirrorNewTopic(topic, values('copied', 2), { configs });
  await stopMirroring(stage.causeway, 'promote', topic);
  await write(atProxy, topic, 0, values('written', 1));
  for (const before of [1n, 2n, 3n, -1n]) {
    await assert.rejects(deleteRecords(atProxy, topic, 0, before), /error 44$/m);
  }
  assert.deepEqual(await baseOffsets(topic, 0), [0n, 2n]);
});

test('a client that left our history before a promotion, or names a wrong epoch, was let on', async () => {
  const { atProxy } = stage;
  const topic = 'parted';
  await stage.mirrorNewTopic(topic, values('copied', 2));
  await stopMirroring(stage.causeway, 'promote', topic);
  await write(atProxy, topic, 0, values('written', 3));
  const mirrored = (await fetchAt(atProxy, topic, 0, 0n)).first?.readInt32BE(12) ?? -1;
  const written = (await fetchAt(atProxy, topic, 0, 2n)).first?.readInt32BE(12) ?? -1;
  assert.ok(written > mirrored && mirrored >= 0, `epochs ${mirrored} and ${written}`);
  const parted = await fetchAt(atProxy, topic, 0, 4n, { lastFetchedEpoch: mirrored });
  assert.deepEqual([parted.errorCode, parted.diverging, parted.first], [0, [mirrored, 2n], null]);
  for (const [offset, lastFetchedEpoch] of [
    [1n, mirrored],
    [2n, mirrored],
    [4n, written],
  ] as const) {
    const { errorCode, diverging, first } = await fetchAt(atProxy, topic, 0, offset, {
      currentLeaderEpoch: written,
      lastFetchedEpoch,
    });
    assert.deepEqual([errorCode, diverging], [0, null], `at ${offset}`);
    assert.ok(first !== null);
  }
  for (const offset of [0n, 3n]) {
    const ask = (currentLeaderEpoch: number) =>
      fetchAt(atProxy, topic, 0, offset, { currentLeaderEpoch });
    assert.equal((await ask(mirrored)).errorCode, fencedLeaderEpoch);
    assert.equal((await ask(written + 1)).errorCode, unknownLeaderEpoch);
  }
});

test('a log start above zero stays, and DeleteRecords moves it up, to S and beyond', async () => {
  const { atSource, atProxy } = stage;
  const topic = 'starts';
  await stage.mirrorNewTopic(topic, async () => {
    for (const label of ['a', 'b', 'c']) await write(atSource, topic, 0, values(label, 2));
    await deleteRecords(atSource, topic, 0, 2n);
  });
  await stopMirroring(stage.causeway, 'promote', topic);
  for (const label of ['d', 'e']) await write(atProxy, topic, 0, values(label, 2));
  assert.deepEqual(await baseOffsets(topic, 0), [2n, 4n, 6n, 8n]);
  // Before the log's start nothing is left to delete, as at a broker.
  await deleteRecords(atProxy, topic, 0, 1n);
  assert.deepEqual(await offsets(atProxy, topic, -2n), [2n]);
  for (const [below, left] of [
    [4n, [4n, 6n, 8n]],
    [6n, [6n, 8n]],
    [8n, [8n]],
  ] as const) {
    await deleteRecords(atProxy, topic, 0, below);
    assert.deepEqual(await offsets(atProxy, topic, -2n), [below]);
    assert.deepEqual(await baseOffsets(topic, 0), left);
    const { errorCode } = await fetchAt(atProxy, topic, 0, below - 1n);
    assert.equal(errorCode, outOfRange, `below ${below}`);
  }
  assert.equal(await write(atProxy, topic, 0, ['f']), 10n);
});

test('offsets by time are found on both sides, the largest timestamp as well', async () => {
  const { atSource, atProxy } = stage;
  const topic = 'times';
  const fill = async (): Promise<void> => {
    for (const second of [1n, 3n, 9n]) {
      await write(atSource, topic, 0, ['x', 'y'], { timestamp: second * 1_000n });
    }
  };
  // The records are of 1970: retention would take them.
  await stage.mirrorNewTopic(topic, fill, { configs: { 'retention.ms': '-1' } });
  await stopMirroring(stage.causeway, 'promote', topic);
  const at = async (timestamp: bigint) => (await listAt(atProxy, topic, 0, timestamp)).offset;
  assert.equal(await at(3_000n), 2n);
  assert.equal(await at(9_001n), -1n);
  assert.equal(await at(-3n), 4n, 'the copy has the largest');
  await write(atProxy, topic, 0, ['z'], { timestamp: 5_000n });
  assert.equal(await at(-3n), 4n, 'still');
  assert.equal(await at(4_000n), 4n, 'the first one in the order of offsets');
  await write(atProxy, topic, 0, ['z'], { timestamp: 20_000n });
  assert.equal(await at(-3n), 7n, 'the shell has it now');
  assert.equal(await at(10_000n), 7n, 'only the shell has one');
});

test('R4: partitions that come after the promotion are ordinary, through us and past us', async () => {
  assert.deepEqual(await promoted('grows', [3]), [3n]);
  await growTopic(stage.atProxy, 'grows', 2);
  await growTopic(stage.atDestination, 'grows', 3);
  await until('three partitions', async () => {
    const info = (await stage.atProxy.metadata(['grows'])).topics.get('grows');
    return info?.partitions.filter(({ leaderId }) => leaderId >= 0).length === 3;
  });
  for (const [partition, base] of [3n, 0n, 0n].entries()) {
    await until('a leader that knows', async () => {
      assert.equal(await write(stage.atProxy, 'grows', partition, ['after']), base);
      return true;
    });
  }
  assert.deepEqual(await baseOffsets('grows', 1), [0n]);
  assert.deepEqual(await offsets(stage.atProxy, 'grows', -1n), [4n, 1n, 1n]);
});

test('a promoted topic that is deleted and made anew is another topic', async () => {
  async function madeAnew(name: string, through: Cluster): Promise<void> {
    assert.deepEqual(await promoted(name, [5]), [5n]);
    await deleteTopic(through, name);
    await until('a topic made anew', async () => {
      await createTopic(through, name);
      return true;
    });
    // The history belongs to the id: not one offset of it is seen under the name.
    await until('the other topic', async () => {
      const [start] = await offsets(stage.atProxy, name, -2n);
      const [end] = await offsets(stage.atProxy, name, -1n);
      return start === 0n && end === 0n;
    });
    assert.equal(await write(stage.atProxy, name, 0, ['first']), 0n);
    assert.deepEqual(await baseOffsets(name, 0), [0n]);
    await until('its history removed', () =>
      stage.causeway
        .log()
        .some(({ event, topic }) => event === 'promoted_topic_deleted' && topic === name),
    );
    const { error } = await command(stage.causeway, 'failover', name);
    assert.equal(error?.code, 'MIRROR_NOT_FOUND');
  }
  await Promise.all([madeAnew('again', stage.atProxy), madeAnew('anew', stage.atDestination)]);
});

test('R4, R6: a compacted topic keeps its tombstones, until it is detached and right directly', async () => {
  const { atProxy, atDestination, causeway } = stage;
  const topic = 'leaves';
  const compacted = { 'cleanup.policy': 'compact' };
  assert.deepEqual(await promoted(topic, [5, 0], compacted), [5n, 0n]);
  // While there is a copy below S, no tombstone above it may go: a deleted key would come back.
  assert.equal(await retentionOfTombstones(topic), '9223372036854775807');
  const { partitions } = await mirrorView(causeway, topic);
  assert.ok(Number(partitions[0]?.sizeBytes) > 0, 'what the history takes is shown');
  for (const value of ['f', 'g', 'h', 'i']) await write(atProxy, topic, 0, [value]);
  await commitOffsets(atProxy, 'inside', topic, [7, 0]);
  await commitOffsets(atProxy, 'behind', topic, [3, 0]);
  const before = (await fetchAt(atProxy, topic, 0, 7n)).first;
  assert.ok(before !== null);

  const detach = (query: string, dropHistory: boolean) =>
    post<{ groups: unknown; blocking: { code: string }[] }>(
      causeway,
      `/causeway/v1/mirrors/${topic}/detach${query}`,
      { dropHistory },
    );
  await assert.rejects(detach('', false), /HISTORY_LEFT: offsets 0 to 5 of partition 0/);
  const dry = await detach('?validateOnly=true', false);
  assert.deepEqual(
    dry.blocking.map(({ code }) => code),
    ['HISTORY_LEFT'],
  );
  const list = async () => JSON.stringify(await causeway.get('/causeway/v1/leftovers'));
  assert.match(await list(), /inside leaves-0","detail":"at 7, .* as 2"/);
  assert.deepEqual(await committedOffsets(atDestination, 'inside', topic, 2), [7, 0], 'dry');

  const done = await causeway.cli('mirror', 'detach', topic, '--drop-history');
  assert.match(done, /inside +0 +7 +2/);
  assert.deepEqual(await committedOffsets(atDestination, 'inside', topic, 2), [2, 0]);
  assert.deepEqual(await committedOffsets(atDestination, 'behind', topic, 2), [0, 0]);
  for (const cluster of [atDestination, atProxy]) {
    const { first } = await fetchAt(cluster, topic, 0, 2n);
    assert.ok(first !== null);
    // All but base offset and leader epoch, which lie outside the CRC.
    assert.deepEqual(first.subarray(16), before.subarray(16));
    assert.deepEqual(await offsets(cluster, topic, -1n), [4n, 0n]);
    assert.deepEqual(await offsets(cluster, topic, -2n), [0n, 0n]);
  }
  assert.equal(await write(atProxy, topic, 0, ['after']), 4n);
  assert.doesNotMatch(await list(), /leaves/);
  assert.equal(await retentionOfTombstones(topic), '86400000', 'not pinned any more');
});

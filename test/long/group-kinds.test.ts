// Groups of every kind move from the source to the destination: each is a real application that
// reads at the source, stops, and goes on through the proxy after a failover with the next record.
// (Consumers of four libraries, KIP-848 among them: test/kafka/rules-groups.test.ts; share groups:
// test/kafka/share-groups.test.ts.)
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { startConsumer } from '../helpers/foreign-clients.ts';
import { commitOffsets, committedOffsets } from '../helpers/group-offsets.ts';
import { type LinkedStage, startStage } from '../helpers/linked-stage.ts';
import { stopMirroring } from '../helpers/mirror-commands.ts';
import { values, write } from '../helpers/raw-writes.ts';
import { createTopic } from '../helpers/topic-admin.ts';
import { uniqueName, until } from '../helpers/wait.ts';
import { startConnect, startStreams } from './application-processes.ts';

const slow = { deadlineMs: 120_000 };

interface GroupRow {
  readonly group: string;
  readonly kind: string;
  readonly topic: string;
  readonly held: string | null;
}

describe('groups of every kind', { timeout: 1_200_000 }, () => {
  let stage: LinkedStage;

  before(async () => {
    const settings = { 'group.initial.rebalance.delay.ms': '0' };
    stage = await startStage({
      source: { settings },
      destination: { settings },
      linkConfigs: { 'consumer.offset.sync.enable': 'true' },
    });
  });

  after(() => stage?.stop());

  async function row(group: string, topic: string): Promise<GroupRow | undefined> {
    const { groups } = await stage.causeway.get<{ groups: readonly GroupRow[] }>(
      '/causeway/v1/links/dr/groups',
    );
    return groups.find((one) => one.group === group && one.topic === topic);
  }

  async function at(group: string, topic: string, wanted: number): Promise<void> {
    let seen: readonly number[] = [];
    await until(
      `${group} at ${wanted} of ${topic}`,
      async () => {
        seen = await committedOffsets(stage.atDestination, group, topic, 1);
        return seen[0] === wanted;
      },
      { ...slow, describe: () => `it is at ${seen.join()}` },
    );
  }

  async function kindOf(group: string, topic: string): Promise<string> {
    return until(`the kind of ${group}`, async () => (await row(group, topic))?.kind);
  }

  async function mirrorWith(prefix: string, count: number): Promise<string> {
    const topic = uniqueName(prefix);
    await stage.mirrorNewTopic(topic, values('before', count));
    return topic;
  }

  test('a group without members keeps its offsets', async () => {
    const topic = await mirrorWith('simple', 5);
    const group = uniqueName('simple');
    await commitOffsets(stage.atSource, group, topic, [3]);
    await at(group, topic, 3);
    assert.equal(await kindOf(group, topic), 'simple');
  });

  test('R6: a static member goes on under its own instance id', async () => {
    const topic = await mirrorWith('static', 5);
    const group = uniqueName('static');
    const properties = { 'group.instance.id': 'one', 'session.timeout.ms': '6000' };
    const options = { topic, group, properties };
    const { bootstrap } = stage.source;
    const reader = await startConsumer('java', { ...options, bootstrap, reset: 'earliest' });
    await reader.waitForCount(5, slow);
    await reader.commit();
    // It does not leave its group: it is a member at the source until its session ends.
    await reader.stop();
    await at(group, topic, 5);
    assert.equal(await kindOf(group, topic), 'classic');
    await stopMirroring(stage.causeway, 'failover', topic);
    await write(stage.atProxy, topic, 0, values('after', 4));
    const next = await startConsumer('java', {
      ...options,
      bootstrap: stage.causeway.bootstrap,
      reset: 'none',
    });
    await next.waitForCount(4, slow);
    await next.stop();
    assert.deepEqual(next.errors, []);
    assert.deepEqual(
      next.records.map(({ offset }) => offset),
      [5, 6, 7, 8],
    );
  });

  test('D23: a static member that has closed holds its group until its session ends', async () => {
    const topic = await mirrorWith('away', 5);
    const own = uniqueName('own');
    await createTopic(stage.atDestination, own);
    await write(stage.atDestination, own, 0, values('own', 1));
    const group = uniqueName('away');
    const member = await startConsumer('java', {
      bootstrap: stage.causeway.bootstrap,
      topic: own,
      group,
      properties: { 'group.instance.id': 'one', 'session.timeout.ms': '20000' },
    });
    await member.waitForCount(1, slow);
    await member.stop();
    await commitOffsets(stage.atSource, group, topic, [4]);
    await until(`${group} is live`, async () => (await row(group, topic))?.held === 'live', slow);
    assert.deepEqual(await committedOffsets(stage.atDestination, group, topic, 1), [-1]);
    await at(group, topic, 4);
  });

  test('R6: a sink connector goes on with the next record', async () => {
    const topic = await mirrorWith('sunk', 7);
    const output = uniqueName('from-file');
    await createTopic(stage.atSource, output);
    await createTopic(stage.atDestination, output);
    const topics = { sink: topic, source: output };
    const lines = (file: string): string[] => readFileSync(file, 'utf8').split('\n').slice(0, -1);
    const first = await startConnect(stage.source.bootstrap, topics);
    try {
      await until('everything sunk', () => lines(first.sinkFile).length === 7, slow);
      await at('connect-sink', topic, 7);
    } finally {
      await first.stop();
    }
    assert.equal(await kindOf('connect-sink', topic), 'classic');
    await stopMirroring(stage.causeway, 'failover', topic);
    const later = values('after', 3);
    await write(stage.atProxy, topic, 0, later);
    const second = await startConnect(stage.causeway.bootstrap, topics);
    try {
      await until('the rest sunk', () => lines(second.sinkFile).length >= 3, slow);
      assert.deepEqual(lines(second.sinkFile), later);
      await second.assertHealthy();
    } finally {
      await second.stop();
    }
  });

  for (const protocol of ['classic', 'streams'] as const) {
    test(`R6: a Streams application goes on, its state too, protocol ${protocol}`, async () => {
      const input = await mirrorWith(`in-${protocol}`, 9);
      const id = uniqueName(`app-${protocol}`);
      const topics = { from: input, to: uniqueName('out'), counts: uniqueName('counts') };
      for (const side of [stage.atSource, stage.atDestination]) {
        for (const topic of [topics.to, topics.counts]) await createTopic(side, topic);
      }
      const options = { id, protocol };
      const first = await startStreams(stage.source.bootstrap, topics, options);
      try {
        await at(id, input, 9);
      } finally {
        await first.stop();
      }
      assert.equal(await kindOf(id, input), protocol);
      const all = await stage.atSource.metadata('all');
      const internal = [...all.topics.keys()].filter((name) => name.startsWith(`${id}-`));
      assert.equal(internal.length, 2, `a changelog and a repartition topic: ${internal.join()}`);
      for (const topic of internal) {
        await stage.mirror(topic);
        await stage.caughtUp(topic);
        const ends = await committedOffsets(stage.atSource, id, topic, 1);
        if (ends[0] !== -1) await at(id, topic, ends[0] ?? -1);
      }
      for (const topic of [input, ...internal]) {
        await stopMirroring(stage.causeway, 'failover', topic);
      }
      const later = values('after', 10);
      await write(stage.atProxy, input, 0, later);
      const second = await startStreams(stage.causeway.bootstrap, topics, options);
      try {
        assert.deepEqual(await readAll(topics.to, later.length), later);
        const counted = await lastCounts(topics.counts, 10);
        const total = [...counted.values()].reduce((sum, count) => sum + count, 0);
        assert.equal(total, 9 + later.length, 'the counts go on from the state of the source');
        await second.assertHealthy();
      } finally {
        await second.stop();
      }
    });
  }

  async function readAll(topic: string, count: number): Promise<(string | null)[]> {
    const reader = await committedReader(topic);
    try {
      await reader.waitForCount(count, slow);
      return reader.records.map(({ value }) => value);
    } finally {
      await reader.stop();
    }
  }

  /** The last count of each key, when there are as many keys. */
  async function lastCounts(topic: string, keys: number): Promise<Map<string, number>> {
    const reader = await committedReader(topic);
    try {
      const latest = (): Map<string, number> =>
        new Map(reader.records.map(({ key, value }) => [key ?? '', Number(value)]));
      await reader.waitFor('all counts', () => latest().size >= keys, slow);
      return latest();
    } finally {
      await reader.stop();
    }
  }

  function committedReader(topic: string) {
    const { bootstrap } = stage.causeway;
    return startConsumer('java', { bootstrap, topic, isolation: 'read_committed' });
  }
});

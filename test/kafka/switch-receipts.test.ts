// What a switch says, on real brokers: what blocks it and for how long, sets that go together, the
// receipt of what is lost and its completion, what the source gets afterwards, and shells that were
// written to past us.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { TailLine } from '../../src/link/switch/export-tail.ts';
import type { TopicRecord } from '../../src/state/records.ts';
import { openNativeExtent } from '../../src/timeline/timeline.ts';
import type { KafkaCluster } from '../helpers/kafka-cluster.ts';
import { produce, Transaction } from '../helpers/own-producer.ts';
import { createTopic } from '../helpers/topic-admin.ts';
import { uniqueName, until } from '../helpers/wait.ts';
import { type LinkWorld, startLinkWorld } from './link-fixture.ts';

let source: KafkaCluster;
let world: LinkWorld;

before(async () => {
  world = await startLinkWorld({
    limits: { switchedWatchMs: 200, shellWatchMs: 500, sourceUnavailableMs: 3_000 },
  });
  source = world.sourceKafka;
  await world.createLink('dr', { 'promote.quiet.ms': '500' });
});

after(() => world?.end());

function request(command: 'promote' | 'failover', topics: readonly string[]) {
  return { command, link: null, topics, validateOnly: false, actor: 'test' } as const;
}

function nativeExtent(topic: string) {
  const view = world.directory.byName(topic)?.partition(0);
  const extent = view === undefined ? null : openNativeExtent(view.timeline);
  assert.ok(extent, `${topic} was switched`);
  return extent;
}

const blocks = (topic: string, code: string): boolean =>
  world.service.describeMirror(topic).blocking.some((reason) => reason.code === code);

async function tail(topic: string): Promise<TailLine[]> {
  const lines: TailLine[] = [];
  for await (const line of await world.service.exportTail(topic)) lines.push(line);
  return lines;
}

describe('promote', () => {
  test('waits for a source that is written to, and says so', async () => {
    const topic = uniqueName('busy');
    await world.mirrorNewTopic(topic, ['a']);
    let isWriting = true;
    const writer = (async () => {
      while (isWriting) await produce(world.source, { topic }, ['more']);
    })();
    await world.command('promote', topic);
    await until('the reason', () => blocks(topic, 'PRODUCERS_WRITING'));
    assert.equal(world.service.describeMirror(topic).state, 'PENDING_STOPPED');
    isWriting = false;
    await writer;
    await world.inState(topic, 'STOPPED');
  });

  test('of a quiet topic at zero lag is not kept waiting', async () => {
    const topic = uniqueName('quiet');
    await world.mirrorNewTopic(topic, ['a', 'b']);
    const quietFromMs = performance.now() + 600;
    await until('a source that was quiet', () => performance.now() > quietFromMs);
    await world.command('promote', topic);
    await until('promoted', () => {
      assert.equal(blocks(topic, 'PRODUCERS_WRITING'), false);
      return world.service.describeMirror(topic).state === 'STOPPED';
    });
  });

  test('says that the history has one copy, and is refused if that is too few', async () => {
    const topic = uniqueName('single');
    await world.mirrorNewTopic(topic, ['a', 'b']);
    const asked = request('promote', [topic]);
    const refused = await world.service.command({ ...asked, requireReplicated: true });
    assert.match(refused.rows[0]?.error?.message ?? '', /there is 1 copy/);
    assert.equal(world.service.describeMirror(topic).state, 'ACTIVE');
    const dry = await world.service.command({ ...asked, validateOnly: true });
    assert.equal(world.service.describeMirror(topic).state, 'ACTIVE');
    assert.equal(dry.receipt?.topics[0]?.historyCopies, 1);
    assert.equal(dry.receipt?.topics[0]?.partitions[0]?.virtualEnd, 2n);
    await world.service.command(asked);
    await world.inState(topic, 'STOPPED');
    const { notices } = world.service.describeMirror(topic);
    assert.ok(notices.some(({ code }) => code === 'HISTORY_SINGLE_COPY'));
    const done = [...world.state.view.receipts.values()].find(({ topics }) =>
      topics.some((line) => line.topic === topic),
    );
    assert.deepEqual(dry.receipt?.topics[0]?.groups, done?.topics[0]?.groups);
    assert.equal(done?.topics[0]?.partitions[0]?.virtualEnd, 2n);
    const none = uniqueName('none');
    await world.mirrorNewTopic(none, []);
    const empty = { ...request('promote', [none]), requireReplicated: true, validateOnly: true };
    assert.equal((await world.service.command(empty)).rows[0]?.error, null, 'nothing below S');
  });

  test('of a set is all or none, by one transaction', async () => {
    const [one, two] = [uniqueName('set'), uniqueName('set')];
    await world.mirrorNewTopic(one, ['a']);
    await world.mirrorNewTopic(two, ['b', 'c']);
    const none = await world.service.command({
      ...request('promote', [one, uniqueName('unknown')]),
      atomic: true,
    });
    assert.deepEqual(
      none.rows.map(({ error }) => error?.code),
      ['ATOMIC_REFUSED', 'MIRROR_NOT_FOUND'],
    );
    assert.equal(world.service.describeMirror(one).state, 'ACTIVE');
    const both = { ...request('promote', [one, two]), atomic: true };
    const { rows } = await world.service.command(both);
    assert.deepEqual(
      rows.map(({ error }) => error),
      [null, null],
    );
    await world.inState(one, 'STOPPED');
    await world.inState(two, 'STOPPED');
    const receipts = [...world.state.view.receipts.values()].filter(({ topics }) =>
      topics.some(({ topic }) => topic === one),
    );
    assert.equal(receipts.length, 1);
    assert.deepEqual(receipts[0]?.topics.map(({ topic }) => topic).sort(), [one, two].sort());
  });

  test('is followed by a count of what the source gets on, and that can be had', async () => {
    const topic = uniqueName('stray');
    await world.mirrorNewTopic(topic, ['a', 'b']);
    await world.command('promote', topic);
    await world.inState(topic, 'STOPPED');
    await until('a look', () => world.service.describeMirror(topic).strayRecords === 0n);
    await produce(world.source, { topic }, ['late', 'later']);
    await until('the strays', () => world.service.describeMirror(topic).strayRecords === 2n);
    const told = world.events.since(0).findLast(({ event }) => event === 'stray_writes');
    assert.match(told?.message ?? '', /STRAY_WRITES: source topic .* 2 records/);
    const lines = await tail(topic);
    assert.deepEqual(
      lines.map((line) => ('offset' in line ? [line.offset, line.value] : line)),
      [
        [2n, Buffer.from('late').toString('base64')],
        [3n, Buffer.from('later').toString('base64')],
      ],
    );
    // What is on record survives a restart.
    await world.restart();
    await until('the strays', () => world.service.describeMirror(topic).strayRecords === 2n);
  });
});

describe('a shell that was written to past us', () => {
  async function written(): Promise<string> {
    const topic = uniqueName('written');
    await world.mirrorNewTopic(topic, ['a', 'b', 'c']);
    await produce(world.destination, { topic }, ['behind', 'your back']);
    await world.inState(topic, 'FAILED');
    const { error } = world.service.describeMirror(topic);
    assert.equal(error?.code, 'SHELL_TOPIC_WRITTEN');
    assert.match(error?.message ?? '', /^2 records were written/);
    const { rows } = await world.command('failover', topic);
    assert.match(rows[0]?.error?.message ?? '', /2 records were written to the shell/);
    return topic;
  }

  test('goes on with what was written, from S on', async () => {
    const topic = await written();
    const adopted = { ...request('failover', [topic]), written: 'adopt' } as const;
    const { rows, receipt } = await world.service.command(adopted);
    assert.equal(rows[0]?.error, null);
    const extent = nativeExtent(topic);
    assert.deepEqual([extent.start, extent.offsetShift], [3n, 3n], 'native 0 is S');
    assert.ok(extent.epochShift >= extent.firstEpoch, 'epoch 0 of the shell is the first one');
    assert.equal(receipt?.topics[0]?.partitions[0]?.nativeEnd, 0n);
  });

  test('goes on without what was written', async () => {
    const topic = await written();
    const discarded = { ...request('failover', [topic]), written: 'discard' } as const;
    assert.equal((await world.service.command(discarded)).rows[0]?.error, null);
    const extent = nativeExtent(topic);
    assert.deepEqual([extent.start, extent.offsetShift], [3n, 1n], 'native 2 is S');
  });
});

describe('a creation that was interrupted', () => {
  async function interrupted(name: string, configs: Record<string, string>): Promise<void> {
    const info = (await world.source.metadata([name])).topics.get(name);
    assert.ok(info);
    const synced = { 'cleanup.policy': 'delete', 'max.message.bytes': '1048588' };
    const intent: TopicRecord = {
      kind: 'topic',
      name,
      topicId: null,
      link: 'dr',
      sourceTopic: name,
      sourceTopicId: info.topicId,
      state: 'PENDING_MIRROR',
      stateTimeMs: Date.now(),
      error: null,
      partitions: [],
      stoppedBy: null,
      creating: { replicationFactor: -1, configs: {} },
      syncedConfigs: { ...synced, 'message.timestamp.type': 'CreateTime' },
    };
    await world.state.commit([{ put: intent }]);
    await createTopic(world.destination, name, { configs });
  }

  test('takes over the topic that it had made', async () => {
    const name = uniqueName('ours');
    await createTopic(world.source, name);
    await interrupted(name, {
      'cleanup.policy': 'delete',
      'max.message.bytes': '1048588',
      'message.timestamp.type': 'CreateTime',
    });
    await world.inState(name, 'ACTIVE');
  });

  test('leaves a topic alone that somebody else made meanwhile', async () => {
    const name = uniqueName('theirs');
    await createTopic(world.source, name);
    await interrupted(name, {});
    await until('given up', () => world.directory.byName(name) === undefined);
    const told = world.events.since(0).findLast(({ event }) => event === 'mirror_create_abandoned');
    assert.match(told?.message ?? '', /made with cleanup\.policy=\(nothing\)/);
    const { topics } = await world.destination.metadata([name]);
    assert.equal(topics.get(name)?.errorCode, 0, 'still there');
  });
});

describe('failover', () => {
  test('of a source that dies and comes back: the receipt gets the true loss', async () => {
    const topic = uniqueName('returns');
    await world.mirrorNewTopic(topic, ['a', 'b']);
    const transaction = new Transaction(world.source, uniqueName('writer'));
    await transaction.begin(topic, [0]);
    await produce(world.source, { topic, transaction }, ['in a transaction']);
    const told = await world.service.recentWriters([topic], 600_000);
    assert.deepEqual(
      told.writers.map(({ partition, isInTransaction }) => [partition, isInTransaction]),
      [[0, true]],
    );
    assert.ok(Math.abs(Date.now() - (told.writers[0]?.lastTimeMs ?? 0)) < 600_000);
    await transaction.end('commit');
    await world.caughtUp(topic, [4n]);
    // Not fetched any more, as if the line were cut: what follows is lost.
    await world.command('pause', topic);
    await produce(world.source, { topic }, ['lost', 'lost too', 'and this']);
    await source.kill9();
    const dry = await world.command('failover', topic, { validateOnly: true });
    const { rows, receipt } = await world.service.command(request('failover', [topic]));
    assert.equal(rows[0]?.state, 'STOPPED');
    const keys = (value: object | undefined) => Object.keys(value ?? {});
    assert.deepEqual(keys(dry.receipt ?? undefined), keys(receipt ?? undefined));
    assert.deepEqual(keys(dry.receipt?.topics[0]), keys(receipt?.topics[0]));
    assert.deepEqual(
      keys(dry.receipt?.topics[0]?.partitions[0]),
      keys(receipt?.topics[0]?.partitions[0]),
    );
    const id = receipt?.id ?? '';
    assert.equal(world.service.receipt(id)?.topics[0]?.completedTimeMs, -1);
    await source.restartBroker();
    const completed = await until(
      'the true loss',
      () => {
        const line = world.service.receipt(id)?.topics[0];
        return (line?.completedTimeMs ?? -1) > 0 ? line : undefined;
      },
      { deadlineMs: 60_000 },
    );
    assert.deepEqual(completed.partitions[0]?.found, { sourceEnd: 7n, lostRecords: 3n });
    assert.equal((await tail(topic)).length, 3);
    assert.ok(world.events.since(0).some(({ event }) => event === 'receipt_completed'));
  });
});

test('R15: a restart while the source was dead forgot what was known of it', async () => {
  const topic = uniqueName('dead');
  await world.mirrorNewTopic(topic, ['a', 'b']);
  await source.pause();
  try {
    const link = () => world.service.describeLink('dr');
    await world.inState(topic, 'SOURCE_UNAVAILABLE');
    await until('what was heard is on record', () => {
      const seen = world.state.view.sourcesSeen.get('dr');
      return seen?.contactTimeMs === link().lastContactTimeMs;
    });
    const before = link();
    await world.restart();
    const after = link();
    assert.equal(after.lastContactTimeMs, before.lastContactTimeMs);
    assert.deepEqual([after.isContactRecorded, after.isAnswering], [true, false]);
    assert.ok((after.rpoSeconds ?? -1) >= (before.rpoSeconds ?? Infinity), `${after.rpoSeconds}`);
    assert.equal(after.isRpoAtMost, true);
    const failover = { command: 'failover', link: null, topics: [topic], actor: 'test' } as const;
    const { receipt } = await world.service.command({ ...failover, validateOnly: true });
    const line = receipt?.topics[0]?.partitions[0];
    assert.deepEqual([line?.sourceEnd, line?.lostRecords], [2n, 0n]);
    assert.ok((line?.lastContactTimeMs ?? -1) > 0 && (line?.lostSeconds ?? -1) > 0);
  } finally {
    source.resume();
  }
  await until('an answer', () => !world.service.describeLink('dr').isContactRecorded);
});

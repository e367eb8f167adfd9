// Which link a topic belongs to: the one that made it, and not another one that has its name since;
// and the receipts of its topics.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { zeroUuid } from '../../../protocol/index.ts';
import { Links } from '../../../src/link/links.ts';
import { MirrorTopics } from '../../../src/link/mirror/mirror-topics.ts';
import { TopicChanges } from '../../../src/link/mirror/topic-changes.ts';
import { wholeReceipt } from '../../../src/link/mirror-commands.ts';
import { SwitchedWatch } from '../../../src/link/switch/switched-watch.ts';
import type { ReceiptRecord, ReceiptTopic, TopicRecord } from '../../../src/state/records.ts';
import { until } from '../../helpers/wait.ts';
import {
  FakeCluster,
  FakeState,
  mirrorRecord,
  openTestStorage,
  shellId,
  sourceId,
  testContext,
  topicInfo,
} from './fakes.ts';

const ids = ['AAAAAAAAAAAAAAAAAAAAAQ', 'AAAAAAAAAAAAAAAAAAAAAw'] as const;

function topic(name: string, parts: Partial<TopicRecord> = {}): TopicRecord {
  return mirrorRecord({
    name,
    topicId: ids[0],
    linkId: ids[0],
    stateTimeMs: Date.now(),
    ...parts,
  });
}

/** Of the link whose switched topics are watched. */
const watchedRecord = { linkId: ids[0], sourceClusterId: 'source', paused: false };

function receiptOf(id: string, names: readonly string[]): ReceiptRecord {
  const topics = names.map((name): ReceiptTopic => {
    const partition = {
      ...{ partition: 0, virtualEnd: 5n, nativeEnd: 0n, firstEpoch: 1, sourceEnd: 5n },
      ...{ mirroredEnd: 5n, lostRecords: 0n, lostBytes: 0n, lostSeconds: 0 },
      ...{ lastContactTimeMs: 1, abortedTransactions: 0, found: null },
    };
    return {
      ...{ topic: name, link: 'dr', partitions: [partition], groups: [], groupsCount: 0 },
      duplicates: { expected: 0n, possible: 0n, readTimeMs: 1, groups: [], groupsCount: 0 },
      ...{ historyCopies: 1, completedTimeMs: -1 },
    };
  });
  return { kind: 'receipt', id, command: 'failover', actor: 'test', timeMs: 1, topics };
}

async function scene(t: TestContext, records: readonly TopicRecord[]) {
  const state = new FakeState();
  for (const record of records) state.topics.set(record.name, record);
  const { storage } = await openTestStorage(t);
  const [source, destination] = [new FakeCluster(), new FakeCluster()];
  source.clusterId = 'source';
  const context = testContext({ state, storage, destination, source });
  const topics = new MirrorTopics(context);
  await topics.start();
  t.after(() => topics.close());
  const { events, clock } = context;
  const changes = new TopicChanges({ state, events, clock, touch: () => undefined });
  return { state, source, context, topics, changes };
}

const request = {
  ...{ name: 'dr', configs: { 'bootstrap.servers': 'source:9092' } },
  ...{ validateOnly: false, actor: 'test' },
};

test('R9: a link is not made under the name of a deleted one that has left mirrors', async (t) => {
  const { state, context, topics, changes } = await scene(t, [topic('orders')]);
  const nothing = () => undefined;
  const makeTasks = () => ({ start: nothing, close: async () => undefined, wake: nothing });
  const links = new Links({ context, topics, changes, makeTasks });
  links.start();
  t.after(() => links.close());
  await assert.rejects(links.create(request), {
    code: 'LINK_IN_USE',
    message: /'dr' has left mirrors that are not stopped: 'orders': fail them over or delete them/,
  });
  assert.equal(state.links.size, 0);
  state.topics.set('orders', topic('orders', { state: 'STOPPED', stoppedBy: 'failover' }));
  const made = await links.create(request);
  assert.notEqual(made.linkId, ids[0]);
  assert.equal(links.of(topic('orders')), undefined, 'the one that made it is gone');
  assert.equal(links.of(topic('new', { linkId: made.linkId }))?.runtime.name, 'dr');
  assert.equal(links.isOf(topic('orders'), 'dr'), false, 'the list of the new one had it too');
  assert.equal(links.isOf(topic('new', { linkId: made.linkId }), 'dr'), true);
  assert.equal(links.isOf(topic('new', { linkId: made.linkId }), 'other'), false);
  const { linkId: _linkId, ...old } = topic('old');
  assert.equal(links.of(old)?.runtime.name, 'dr', 'a record of before says only the name');
});

test('receipts of many topics are completed at once, of the topics of their own link', async (t) => {
  const switched = { state: 'STOPPED', stoppedBy: 'failover' } as const;
  const names = Array.from({ length: 50 }, (_, index) => `t${index}`);
  const records = names.map((name) => topic(name, switched));
  const { state, source, context, topics, changes } = await scene(t, [
    ...records,
    topic('others', { ...switched, linkId: ids[1] }),
  ]);
  const receipts = [
    receiptOf('one', names.slice(0, 25)),
    receiptOf('two', [...names.slice(25), 'others']),
  ];
  for (const receipt of receipts) state.receipts.set(receipt.id, receipt);
  for (const name of [...names, 'others']) {
    source.topics.set(name, topicInfo(name, sourceId, [0]));
    source.ends.set(`${name}/0`, 7n);
  }
  const link = { name: 'dr', record: watchedRecord };
  const runtime = { ...link, connected: async () => source };
  const links = () => [runtime as never];
  const watch = new SwitchedWatch({ context, topics, changes, links });
  watch.start();
  t.after(() => watch.close());
  const lines = () => [...state.receipts.values()].flatMap((receipt) => receipt.topics);
  const completed = () => lines().filter(({ completedTimeMs }) => completedTimeMs >= 0);
  await until('the receipts', () => completed().length >= names.length);
  assert.equal(state.commits.length, 2, 'one for each receipt');
  assert.deepEqual(
    completed().map((line) => [line.topic, line.partitions[0]?.found]),
    names.map((name) => [name, { sourceEnd: 7n, lostRecords: 2n }]),
  );
});

test('R9: a receipt is not completed with the ends of a topic that was made again meanwhile', async (t) => {
  const switched = { state: 'STOPPED', stoppedBy: 'failover' } as const;
  const records = ['again', 'still'].map((name) => topic(name, switched));
  const { state, source, context, topics, changes } = await scene(t, records);
  state.receipts.set('one', receiptOf('one', ['again', 'still']));
  for (const { name } of records) {
    source.topics.set(name, topicInfo(name, sourceId, [0]));
    source.ends.set(`${name}/0`, 7n);
  }
  const ends = source.ends.get.bind(source.ends);
  source.ends.get = (key) => {
    if (key === 'again/0') source.topics.set('again', topicInfo('again', shellId, [0]));
    return ends(key);
  };
  const link = { name: 'dr', record: watchedRecord };
  const links = () => [{ ...link, connected: async () => source } as never];
  const watch = new SwitchedWatch({ context, topics, changes, links });
  watch.start();
  t.after(() => watch.close());
  const found = (name: string) =>
    state.receipts.get('one')?.topics.find((line) => line.topic === name)?.partitions[0]?.found;
  await until('the other one', () => found('still') !== null);
  assert.equal(found('again'), null);
});

test('R9: a receipt was completed with the ends of another cluster at the address of its source', async (t) => {
  const { state, source, context, topics, changes } = await scene(t, [
    topic('old', { state: 'STOPPED', stoppedBy: 'failover', sourceTopicId: zeroUuid }),
  ]);
  state.receipts.set('one', receiptOf('one', ['old']));
  source.topics.set('old', topicInfo('old', zeroUuid, [0]));
  source.ends.set('old/0', 7n);
  source.clusterId = 'rebuilt';
  let looks = 0;
  const connected = async () => {
    looks++;
    return source;
  };
  const links = () => [{ name: 'dr', record: watchedRecord, connected } as never];
  const limits = { ...context.limits, switchedWatchMs: 1 };
  const watch = new SwitchedWatch({ context: { ...context, limits }, topics, changes, links });
  watch.start();
  t.after(() => watch.close());
  const found = () => state.receipts.get('one')?.topics[0]?.partitions[0]?.found;
  await until('it has looked', () => looks > 2);
  assert.equal(found(), null);
  source.clusterId = 'source';
  await until('it is completed', () => found() !== null);
});

test('a receipt is shown whole by any of its ids, also when the topics of a part have failed', () => {
  const names = Array.from({ length: 12 }, (_, index) => `t${index + 1}`);
  const idOf = (part: number) => (part === 1 ? 'abc' : `abc.${part}`);
  const all = names.map((name, index) => receiptOf(idOf(index + 1), [name])).reverse();
  const receipts = new Map([...all, receiptOf('abcd', ['other'])].map((one) => [one.id, one]));
  for (const failed of ['abc', 'abc.2']) receipts.delete(failed);
  for (const asked of ['abc', 'abc.2', 'abc.11']) {
    const whole = wholeReceipt(receipts, asked);
    assert.equal(whole?.id, 'abc');
    assert.deepEqual(
      whole.topics.map(({ topic }) => topic),
      names.slice(2),
    );
  }
  assert.equal(wholeReceipt(receipts, 'ab'), undefined);
});

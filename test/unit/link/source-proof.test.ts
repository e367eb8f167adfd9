// A source that is asked by the topic's name: what it answers is appended only when it still has
// the batch that was mirrored last, or when that proves nothing; and where it has topic ids, only
// when its metadata have had the id since it last said that it does not lead the topic.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { createPartitionData } from '../../../protocol/generated/fetch-response.ts';
import { ErrorCode, zeroUuid } from '../../../protocol/index.ts';
import type { Api } from '../../../src/cluster/cluster.ts';
import { systemClock } from '../../../src/link/context.ts';
import { acceptPartition } from '../../../src/link/fetch/fetch-response.ts';
import { until } from '../../helpers/wait.ts';
import { FakeLink } from './fake-link.ts';
import { batch, FakeCluster, feedOf, openTestStorage, shellId, sourceId } from './fakes.ts';

/** Answers Fetch with what it was given. */
class Source extends FakeCluster {
  errorCode = 0;
  records: Buffer = Buffer.alloc(0);
  fetches = 0;
  answering: Promise<void> = Promise.resolve();

  override async send<Request, Response>(_: unknown, api: Api<Request, Response>) {
    assert.equal(api.name, 'Fetch');
    this.fetches++;
    await this.answering;
    const { errorCode, records } = this;
    const data = createPartitionData({ errorCode, records });
    return { errorCode: 0, responses: [{ partitions: [data] }] } as Response;
  }
}

async function scene(t: TestContext, options: { topicId?: string; isCompacted?: boolean } = {}) {
  const { storage } = await openTestStorage(t);
  const log = await storage.create({ topicId: shellId, partition: 0 }, 0n);
  await log.append(batch({ base: 0n, count: 3 }));
  await log.append(batch({ base: 3n, count: 2 }));
  await log.flush();
  const feed = feedOf(log, {
    sourceTopicId: options.topicId ?? zeroUuid,
    isCompacted: () => options.isCompacted ?? false,
  });
  const source = new Source();
  const link = new FakeLink(source);
  const accept = async (data: Parameters<typeof createPartitionData>[0], isByName = true) => {
    const parts = { link, clock: systemClock, isByName };
    await acceptPartition(feed, createPartitionData(data), parts);
    await log.flush();
  };
  return { log, feed, source, link, accept };
}

const next = { highWatermark: 9n, records: batch({ base: 5n }) };

test('R9: the batch that was mirrored last is looked at once, and then fetched on', async (t) => {
  const { log, source, accept } = await scene(t);
  source.records = batch({ base: 3n, count: 2 });
  await accept(next);
  await accept({ highWatermark: 9n, records: batch({ base: 6n }) });
  assert.deepEqual([log.end, source.fetches], [7n, 1]);
});

test('R9: another batch at its offset is another topic', async (t) => {
  const { log, source, link, accept } = await scene(t);
  source.records = batch({ base: 2n, count: 4 });
  await accept(next);
  assert.match(link.failures.join(), /^SOURCE_TOPIC_ID_CHANGED.*another batch at offset 4/);
  assert.equal(log.end, 5n);
});

test('R9: it is looked at again after the topic was not there, or has another leader', async (t) => {
  const { log, feed, source, link, accept } = await scene(t);
  source.records = batch({ base: 3n, count: 2 });
  await accept(next);
  source.records = batch({ base: 5n, count: 3 });
  await accept({ errorCode: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION });
  await accept({ highWatermark: 9n, records: batch({ base: 6n }) });
  assert.match(link.failures.join(), /^SOURCE_TOPIC_ID_CHANGED/);
  assert.equal(log.end, 6n);
  source.records = batch({ base: 5n });
  feed.follow(2, 6);
  await accept({ highWatermark: 9n, records: batch({ base: 6n }) });
  assert.deepEqual([log.end, source.fetches], [7n, 3]);
});

test('what the source does not have any more, or does not answer, proves nothing', async (t) => {
  const gone = await scene(t);
  gone.source.errorCode = ErrorCode.OFFSET_OUT_OF_RANGE;
  await gone.accept(next);
  assert.equal(gone.log.end, 6n);

  const silent = await scene(t);
  silent.source.errorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER;
  await silent.accept(next);
  assert.deepEqual([silent.log.end, silent.feed.failures, silent.link.failures], [5n, 1, []]);
});

test('a failover waited for a source that was asked for its last batch and did not answer', async (t) => {
  const { log, feed, source, link, accept } = await scene(t);
  source.records = batch({ base: 2n, count: 4 });
  let answer = (): void => undefined;
  source.answering = new Promise((resolve) => {
    answer = resolve;
  });
  const accepted = accept(next);
  await until('the source is asked', () => source.fetches === 1);
  let isHeld = false;
  // As a failover does first.
  const stopped = feed.stop().then(() => {
    isHeld = true;
  });
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
  assert.equal(isHeld, true);
  answer();
  await Promise.all([accepted, stopped]);
  assert.deepEqual([log.end, link.failures], [5n, []], 'nothing follows from what comes then');
});

test('a batch that the source has cleaned is still the one that was mirrored', async (t) => {
  const { log, source, accept } = await scene(t, { isCompacted: true });
  source.records = batch({ base: 3n, count: 1 });
  await accept(next);
  assert.equal(log.end, 6n);
});

test('where topic ids tell nobody asks', async (t) => {
  const { log, feed, source, accept } = await scene(t, { topicId: sourceId });
  await accept(next, false);
  await accept({ errorCode: ErrorCode.NOT_LEADER_OR_FOLLOWER }, false);
  assert.equal(feed.isProved, false);
  await accept({ highWatermark: 9n, records: batch({ base: 6n }) }, false);
  assert.deepEqual([log.end, source.fetches, feed.isProved], [7n, 0, true]);
});

/** The topic may have been made again: brokers from 2.8 to 3.0 know ids, and fetch by names. */
async function madeAgain(t: TestContext) {
  const staged = await scene(t, { topicId: sourceId });
  const askedBeforeMs = systemClock.monotonicMs();
  await staged.accept(next);
  assert.equal(staged.log.end, 6n, 'its id was seen when it was begun');
  await staged.accept({ errorCode: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION });
  return { ...staged, askedBeforeMs };
}

const later = { highWatermark: 9n, records: batch({ base: 6n }) };

test('R9: an answer by name is not appended before metadata have the id again', async (t) => {
  const { log, feed, link, accept, askedBeforeMs } = await madeAgain(t);
  feed.noteIdSeen(askedBeforeMs);
  const looks = link.refreshes;
  await accept(later);
  assert.equal(log.end, 6n, 'metadata that were asked for before prove nothing');
  assert.ok(link.refreshes > looks, 'the source is looked at now');
  feed.noteIdSeen(systemClock.monotonicMs());
  await accept(later);
  assert.deepEqual([log.end, link.failures], [7n, []]);
});

test('R9: a topic made again by an older epoch does not cut the copy of the first one', async (t) => {
  const { log, feed, link, accept } = await madeAgain(t);
  const divergingEpoch = { epoch: 0, endOffset: 2n };
  await accept({ highWatermark: 2n, divergingEpoch });
  assert.deepEqual([log.end, link.truncations], [6n, []]);
  feed.noteIdSeen(systemClock.monotonicMs());
  await accept({ highWatermark: 2n, divergingEpoch });
  assert.deepEqual(link.truncations, ['orders-0'], 'the same topic is followed down');
});

// What one partition's part of an answer leads to, over a real mirror log and a source that answers
// from a table: appended, followed, retried, truncated, or stopped with a cause. Never mixed, never
// skipped.
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { createPartitionData } from '../../../protocol/generated/fetch-response.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import { systemClock } from '../../../src/link/context.ts';
import { positionBehind } from '../../../src/link/fetch/answered-records.ts';
import { acceptPartition } from '../../../src/link/fetch/fetch-response.ts';
import { FakeLink } from './fake-link.ts';
import {
  batch,
  FakeCluster,
  feedOf,
  openTestStorage,
  shellId,
  sourceId,
  type TestBatch,
  topicInfo,
} from './fakes.ts';

async function scene(t: TestContext, batches: readonly TestBatch[] = [], start = 0n) {
  const { storage } = await openTestStorage(t);
  const log = await storage.create({ topicId: shellId, partition: 0 }, start);
  for (const one of batches) await log.append(batch(one));
  await log.flush();
  const feed = feedOf(log);
  const link = new FakeLink(new FakeCluster());
  link.cluster.topics.set('orders', topicInfo('orders', sourceId, [5]));
  const accept = async (data: Parameters<typeof createPartitionData>[0]) => {
    await acceptPartition(feed, createPartitionData({ highWatermark: -1n, ...data }), {
      link,
      clock: systemClock,
    });
    await link.work;
  };
  /** As a fetcher does it, which has asked for the answer where fetching goes on. */
  const take = (data: Parameters<typeof createPartitionData>[0]) => {
    const from = feed.fetchOffset;
    const answer = createPartitionData({ highWatermark: -1n, ...data });
    const ahead = positionBehind(answer.records);
    return feed.take({ from, ahead }, () =>
      acceptPartition(feed, answer, { link, clock: systemClock, from }),
    );
  };
  return { log, feed, link, accept, take };
}

test('an answer that was in flight when one before it failed does not lead on past the gap', async (t) => {
  const { feed, take } = await scene(t);
  const bad = Buffer.from(batch({ base: 0n, count: 3 }));
  bad[bad.length - 1] = (bad[bad.length - 1] ?? 0) ^ 1;
  const first = take({ records: bad });
  assert.equal(feed.fetchOffset, 3n);
  const fetchedFrom = feed.fetchOffset;
  await first;
  assert.equal(feed.fetchOffset, 0n);
  const ahead = positionBehind(batch({ base: 3n, count: 3 }));
  const late = feed.take({ from: fetchedFrom, ahead }, async () => undefined);
  assert.equal(feed.fetchOffset, 0n);
  await late;
});

describe('records', () => {
  test('are appended whole; a batch that was cut is left for the next time', async (t) => {
    const { log, feed, accept } = await scene(t);
    const whole = batch({ base: 0n, count: 3 });
    const cut = batch({ base: 3n, count: 3 }).subarray(0, 70);
    await accept({ highWatermark: 9n, records: Buffer.concat([whole, cut]) });
    assert.equal(log.end, 3n);
    assert.equal(feed.fetchOffset, 3n);
    assert.equal(feed.lag.sourceEnd, 9n);
    await accept({ records: Buffer.from(cut) });
    assert.equal(log.end, 3n);
    assert.equal(feed.failures, 0);
  });

  test('R12: are not appended without a lease, nor to a stopped feed', async (t) => {
    const { log, feed, link, accept } = await scene(t);
    link.isOwner = false;
    await accept({ records: batch({ base: 0n }) });
    assert.equal(log.end, 0n);
    link.isOwner = true;
    await feed.stop();
    await accept({ records: batch({ base: 0n }) });
    assert.equal(log.end, 0n);
  });

  test('with a wrong checksum are fetched again, and named after three times', async (t) => {
    const { log, feed, accept } = await scene(t);
    const bad = batch({ base: 0n });
    bad.writeUInt8(bad.readUInt8(bad.length - 1) ^ 1, bad.length - 1);
    for (let round = 1; round <= 3; round++) {
      await accept({ records: Buffer.from(bad) });
      assert.equal(feed.failures, round);
      assert.equal(feed.stallCause === null, round < 3);
    }
    assert.match(feed.stallCause ?? '', /^CORRUPT_BATCH: .* \(at offset 0\)$/);
    assert.equal(log.end, 0n);
    assert.ok(feed.retryAtMs > systemClock.monotonicMs());
    await accept({ records: batch({ base: 0n }) });
    assert.equal(log.end, 1n);
    assert.equal(feed.stallCause, null);
  });

  test('of an old format stop the mirror', async (t) => {
    const { link, accept } = await scene(t);
    const old = batch({ base: 0n });
    old.writeInt8(1, 16);
    await accept({ records: old });
    assert.match(link.failures.join(), /^UNSUPPORTED_MESSAGE_FORMAT/);
  });

  test('of an old format stop the mirror also when one is shorter than a header of today', async (t) => {
    const { link, accept } = await scene(t);
    const message = Buffer.alloc(40);
    message.writeInt32BE(message.length - 12, 8);
    message.writeInt8(1, 16);
    await accept({ records: message });
    assert.match(link.failures.join(), /^UNSUPPORTED_MESSAGE_FORMAT/);
  });

  test('whose epochs go back stop the mirror', async (t) => {
    const { log, link, accept } = await scene(t, [{ base: 0n, epoch: 4 }]);
    await accept({ records: batch({ base: 1n, epoch: 3 }) });
    assert.match(link.failures.join(), /^NON_MONOTONIC_LOG_APPEND_EPOCH/);
    assert.equal(log.end, 1n);
  });

  test('that overlap what we have are never appended', async (t) => {
    const { log, feed, accept } = await scene(t, [{ base: 0n, count: 5 }]);
    await accept({ records: batch({ base: 3n, count: 4 }) });
    assert.equal(log.end, 5n);
    assert.equal(feed.failures, 1);
  });
});

describe('answers that come while earlier ones are appended', () => {
  test('go on behind them, with their epoch', async (t) => {
    const { log, feed, take } = await scene(t);
    const first = take({ records: batch({ base: 0n, count: 3, epoch: 4 }) });
    assert.deepEqual([log.end, feed.fetchOffset, feed.fetchEpoch], [0n, 3n, 4]);
    const second = take({ records: batch({ base: 3n, count: 2, epoch: 5 }) });
    assert.deepEqual([feed.fetchOffset, feed.fetchEpoch], [5n, 5]);
    assert.equal(feed.isReady(systemClock.monotonicMs()), false, 'two are enough');
    await Promise.all([first, second]);
    assert.deepEqual([log.end, feed.fetchOffset, feed.fetchEpoch], [5n, 5n, 5]);
    assert.equal(feed.isReady(systemClock.monotonicMs()), true);
  });

  test('R10: are dropped when an earlier one could not be appended', async (t) => {
    const { log, feed, link, take } = await scene(t);
    const bad = batch({ base: 0n, count: 3 });
    bad.writeUInt8(bad.readUInt8(bad.length - 1) ^ 1, bad.length - 1);
    await Promise.all([
      take({ records: bad }),
      take({ records: batch({ base: 3n }) }),
      take({ errorCode: ErrorCode.OFFSET_OUT_OF_RANGE }),
      take({ divergingEpoch: { epoch: 0, endOffset: 0n } }),
    ]);
    assert.deepEqual([log.end, feed.fetchOffset], [0n, 0n]);
    assert.equal(feed.failures, 1);
    assert.deepEqual(link.failures, []);
    await take({ records: batch({ base: 0n, count: 3 }) });
    assert.equal(log.end, 3n);
  });
});

describe('a replica that is nearer than the leader', () => {
  test('is read from where the leader says so, and left when it cannot serve', async (t) => {
    const { log, feed, link, accept } = await scene(t, [{ base: 0n, epoch: 5 }]);
    await accept({ preferredReadReplica: 3 });
    assert.deepEqual([feed.readNodeId, feed.leaderId], [3, 1]);
    await accept({ records: batch({ base: 1n, epoch: 5 }) });
    assert.equal(log.end, 2n);
    for (const trouble of [
      { errorCode: ErrorCode.OFFSET_OUT_OF_RANGE },
      { divergingEpoch: { epoch: 5, endOffset: 0n } },
    ]) {
      await accept({ preferredReadReplica: 3 });
      await accept(trouble);
      assert.equal(feed.readNodeId, 1);
    }
    assert.equal(link.nearFailures, 2);
    assert.equal(log.end, 2n, 'only the leader proves a truncation');
    assert.deepEqual(link.failures, []);
    assert.equal(link.reassigned.length, 5, 'there, back, there, back, and once at the start');
  });

  test('is not followed when nobody knows it, and forgotten with its leader', async (t) => {
    const { feed, accept } = await scene(t);
    await accept({ preferredReadReplica: 7 });
    assert.equal(feed.readNodeId, 1);
    await accept({ preferredReadReplica: 3 });
    feed.follow(2, 6);
    assert.equal(feed.readNodeId, 2);
  });
});

describe('the log start', () => {
  test('follows the source, never beyond our end', async (t) => {
    const { log, accept } = await scene(t, [
      { base: 0n, count: 2 },
      { base: 2n, count: 2 },
    ]);
    await accept({ logStartOffset: 2n });
    assert.equal(log.logStart, 2n);
    await accept({ logStartOffset: 9n });
    assert.equal(log.logStart, 2n);
  });
});

describe('a leader change', () => {
  test('is followed at once when the broker says who leads', async (t) => {
    const { feed, link, accept } = await scene(t);
    await accept({
      errorCode: ErrorCode.NOT_LEADER_OR_FOLLOWER,
      currentLeader: { leaderId: 2, leaderEpoch: 6 },
    });
    assert.deepEqual([feed.leaderId, feed.leaderEpoch], [2, 6]);
    assert.deepEqual(link.reassigned, [feed]);
  });

  test('is looked up when the hint is old, unknown or missing', async (t) => {
    for (const currentLeader of [
      { leaderId: 2, leaderEpoch: 5 },
      { leaderId: 7, leaderEpoch: 6 },
      { leaderId: -1, leaderEpoch: -1 },
    ]) {
      const { feed, link, accept } = await scene(t);
      await accept({ errorCode: ErrorCode.FENCED_LEADER_EPOCH, currentLeader });
      assert.deepEqual([feed.leaderId, feed.leaderEpoch], [1, 5]);
      assert.equal(link.refreshes, 1);
      assert.equal(feed.isReady(systemClock.monotonicMs()), false);
    }
  });
});

describe('a truncation', () => {
  const history = [
    { base: 0n, count: 4, epoch: 1 },
    { base: 4n, count: 4, epoch: 2 },
    { base: 8n, count: 4, epoch: 4 },
  ];

  test('proved by epochs is followed to where the histories part', async (t) => {
    const { log, link, accept } = await scene(t, history);
    // The source's epoch 2 ends earlier than ours.
    await accept({ divergingEpoch: { epoch: 2, endOffset: 4n } });
    assert.equal(log.end, 4n);
    assert.deepEqual(link.failures, []);
    assert.deepEqual(link.truncations, ['orders-0']);
    const [event] = link.events.since(0);
    assert.match(event?.message ?? '', /\[4, 12\)/);
  });

  test('to an epoch that we never had goes to our last one below it', async (t) => {
    const { log, accept } = await scene(t, history);
    await accept({ divergingEpoch: { epoch: 3, endOffset: 11n } });
    assert.equal(log.end, 8n);
  });

  test('of all that a source had emptied the mirror as well, which was the last copy', async (t) => {
    const { log, link, accept } = await scene(t, history);
    await accept({ divergingEpoch: { epoch: 0, endOffset: 0n } });
    assert.match(link.failures.join(), /^UNEXPECTED_TRUNCATION/);
    assert.equal(log.end, 12n);
  });

  test('below everything that we have stops the mirror', async (t) => {
    const { log, link, accept } = await scene(t, [{ base: 10n, count: 5, epoch: 3 }], 10n);
    await accept({ divergingEpoch: { epoch: 3, endOffset: 7n } });
    assert.match(link.failures.join(), /^UNEXPECTED_TRUNCATION/);
    assert.equal(log.end, 15n);
  });
});

describe('an offset out of range', () => {
  const outOfRange = { errorCode: ErrorCode.OFFSET_OUT_OF_RANGE };

  test('below the source’s start is lost history, with its range (R10)', async (t) => {
    const { log, link, accept } = await scene(t, [{ base: 0n, count: 5 }]);
    link.cluster.starts.set('orders/0', 9n);
    link.cluster.ends.set('orders/0', 20n);
    await accept(outOfRange);
    assert.match(link.failures.join(), /^LOST_HISTORY.*\[5, 9\)/);
    assert.equal(log.end, 5n);
  });

  test('R9, R10: of a topic that was made again under the name says nothing of the mirrored one', async (t) => {
    const { feed, link, accept } = await scene(t, [{ base: 0n, count: 5 }]);
    link.cluster.topics.set('orders', topicInfo('orders', shellId, [0]));
    link.cluster.starts.set('orders/0', 9n);
    link.cluster.ends.set('orders/0', 20n);
    await accept(outOfRange);
    assert.deepEqual([link.failures, feed.failures, link.refreshes], [[], 1, 1]);
  });

  test('above the source’s end stops the mirror', async (t) => {
    const { link, accept } = await scene(t, [{ base: 0n, count: 5 }]);
    link.cluster.ends.set('orders/0', 3n);
    await accept(outOfRange);
    assert.match(link.failures.join(), /^UNEXPECTED_TRUNCATION.*ends at 3, the mirror at 5/);
  });

  test('inside of the range is unknown history, unless nothing lies below', async (t) => {
    const first = await scene(t, [{ base: 0n, count: 5 }]);
    first.link.cluster.starts.set('orders/0', 3n);
    first.link.cluster.ends.set('orders/0', 9n);
    await first.accept(outOfRange);
    assert.match(first.link.failures.join(), /^UNEXPECTED_TRUNCATION.*does not know/);

    const second = await scene(t, [{ base: 0n, count: 5 }]);
    second.link.cluster.starts.set('orders/0', 5n);
    second.link.cluster.ends.set('orders/0', 9n);
    await second.accept(outOfRange);
    assert.deepEqual(second.link.failures, []);
    assert.equal(second.feed.omitsLastEpoch, true);
    assert.equal(second.feed.isSuspended, false);
    await second.accept({ records: batch({ base: 5n, epoch: 2 }) });
    assert.equal(second.feed.omitsLastEpoch, false);
  });

  test('is asked again when the source does not answer', async (t) => {
    const { feed, link, accept } = await scene(t, [{ base: 0n, count: 5 }]);
    link.cluster.isDead = true;
    await accept(outOfRange);
    assert.deepEqual(link.failures, []);
    assert.equal(feed.failures, 1);
    assert.equal(link.refreshes, 1);
  });
});

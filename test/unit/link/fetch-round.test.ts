// Batches that are appended while their answer comes in: only what the answer, worked off in its
// turn, would append at the same place; whatever is not taken is left to it.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { wholeBatches, zeroUuid } from '../../../protocol/index.ts';
import { systemClock } from '../../../src/link/context.ts';
import { FetchRound } from '../../../src/link/fetch/fetch-round.ts';
import { FetchSession } from '../../../src/link/fetch/fetch-session.ts';
import type { PartitionFeed } from '../../../src/link/fetch/partition-feed.ts';
import { FakeLink } from './fake-link.ts';
import { batch, FakeCluster, feedOf, openTestStorage, shellId, sourceId } from './fakes.ts';

async function scene(t: TestContext, { sourceTopicId = sourceId, isCompacted = false } = {}) {
  const { storage } = await openTestStorage(t);
  const log = await storage.create({ topicId: shellId, partition: 0 }, 0n);
  await log.append(batch({ base: 0n }));
  const feed = feedOf(log, { sourceTopicId, isCompacted: () => isCompacted });
  const link = new FakeLink(new FakeCluster());
  const ours = new Set([feed]);
  type Answer = { byName?: boolean; highWatermark?: bigint; preferredReadReplica?: number };
  const begin = (of: FetchRound, answer: Answer = {}) => {
    const { byName = false, highWatermark = 100n, preferredReadReplica = -1 } = answer;
    const taker = of.takerOf({
      topicName: byName ? 'orders' : '',
      topicId: byName ? undefined : sourceTopicId,
      partition: 0,
      highWatermark,
      preferredReadReplica,
    });
    if (taker === null) return null;
    return (records: Buffer) => taker(records, wholeBatches(records).last);
  };
  const session = new FetchSession<PartitionFeed>();
  const newRound = () => {
    session.build([feed], 12, { waitMs: 0, bytesMax: 1 << 20, partitionBytesMax: 1 << 20 });
    return new FetchRound({ session, link, clock: systemClock, isOurs: (one) => ours.has(one) });
  };
  /** Of an answer of its own. */
  const offer = (records: Buffer, answer: Answer = {}): boolean | null =>
    begin(newRound(), answer)?.(records) ?? null;
  return { feed, log, link, ours, newRound, begin, offer };
}

test('batches that continue the log are in it before the next bytes are read', async (t) => {
  const { log, feed, newRound, begin } = await scene(t);
  const round = newRound();
  const take = begin(round);
  assert.equal(take?.(batch({ base: 1n, count: 3 })), true);
  assert.deepEqual([feed.lag.sourceEnd, log.end], [100n, 4n], 'it does not look complete');
  const rest = Buffer.concat([batch({ base: 4n }), batch({ base: 9n })]);
  assert.equal(take?.(rest), true);
  assert.equal(log.end, 10n);
  const asked = round.find({ topic: 'orders', topicId: zeroUuid }, 0);
  assert.deepEqual([asked?.askedFrom, asked?.position, feed.position], [1n, 10n, 10n]);
  assert.equal(round.takenOf(feed), round.takenBytes);
  assert.equal(round.takenBytes, batch({ base: 1n, count: 3 }).length + rest.length);
});

test('R1: batches that do not continue the log, or are damaged, are left to their turn', async (t) => {
  const { log, feed, newRound, begin, offer } = await scene(t);
  const damaged = batch({ base: 1n });
  damaged[damaged.length - 1] = (damaged[damaged.length - 1] ?? 0) ^ 1;
  assert.equal(offer(damaged), false);
  assert.equal(offer(batch({ base: 0n, count: 3 })), false, 'it straddles the end');
  assert.equal(offer(batch({ base: 1n }), { highWatermark: 1n }), false, 'beyond the source');
  assert.equal(log.end, 1n);
  // Somebody else has appended: the answer was asked for from where the log no longer ends.
  const take = begin(newRound());
  await feed.append(batch({ base: 1n }));
  assert.equal(take?.(batch({ base: 2n })), false);
  assert.equal(log.end, 2n);
});

test('R1: a partition that an answer has twice does not go on behind what was not taken', async (t) => {
  const { log, feed, newRound, begin } = await scene(t);
  const round = newRound();
  feed.isSuspended = true;
  assert.equal(begin(round)?.(batch({ base: 1n })), false);
  feed.isSuspended = false;
  assert.equal(begin(round), null, 'the second time nobody takes');
  assert.equal(log.end, 1n);
});

test('of an answer that nobody waits for any more nothing is appended', async (t) => {
  const { log, newRound, begin } = await scene(t);
  const round = newRound();
  const take = begin(round);
  assert.equal(take?.(batch({ base: 1n })), true);
  round.abandon();
  assert.equal(take?.(batch({ base: 2n })), false);
  assert.equal(log.end, 2n);
});

test('R12: nothing is appended without a lease, after a stop, or for another fetcher', async (t) => {
  const { log, feed, link, ours, offer } = await scene(t);
  const next = batch({ base: 1n });
  link.isOwner = false;
  assert.equal(offer(next), false);
  link.isOwner = true;
  ours.clear();
  assert.equal(offer(next), false);
  ours.add(feed);
  feed.isSuspended = true;
  assert.equal(offer(next), false);
  feed.isSuspended = false;
  await feed.stop();
  assert.equal(offer(next), false);
  assert.equal(log.end, 1n);
});

test('while something else works on the partition nothing is appended beside it', async (t) => {
  const { log, feed, offer } = await scene(t);
  let end = (): void => undefined;
  const working = feed.exclusively(
    () =>
      new Promise((resolve) => {
        end = resolve;
      }),
  );
  await new Promise(setImmediate);
  assert.equal(offer(batch({ base: 1n })), false);
  end();
  await working;
  const taking = feed.take({ from: 1n, ahead: null }, async () => undefined);
  assert.equal(offer(batch({ base: 1n })), false, 'an answer of before waits');
  await taking;
  assert.equal(offer(batch({ base: 1n })), true);
  assert.equal(log.end, 2n);
});

test('R9: asked by name, a topic that is not proved to be the mirrored one is not appended', async (t) => {
  const { log, feed, newRound, begin } = await scene(t, { sourceTopicId: zeroUuid });
  assert.equal(feed.isProved, false);
  const take = begin(newRound(), { byName: true });
  assert.equal(take?.(batch({ base: 1n })), false);
  feed.noteProved();
  assert.equal(take?.(batch({ base: 1n })), true);
  feed.unprove();
  assert.equal(take?.(batch({ base: 2n })), false, 'also in the middle of an answer');
  assert.equal(log.end, 2n);
});

test('what a broker sends along with a nearer replica is left to its turn', async (t) => {
  const { offer } = await scene(t);
  assert.equal(offer(batch({ base: 1n }), { preferredReadReplica: 2 }), null);
});

test('records that the source has cleaned are noticed in what is appended at once too', async (t) => {
  const { feed, offer } = await scene(t, { isCompacted: true });
  assert.equal(offer(batch({ base: 5n })), true);
  assert.notEqual(feed.unseenCleaningMs, null);
});

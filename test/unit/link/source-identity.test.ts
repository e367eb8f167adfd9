// Whether a source topic is still the one that was mirrored, and what is not done while that is not
// known: a copy is not swapped, a mirror does not grow, a receipt is not completed.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import {
  createFetchableTopicResponse,
  createFetchResponse,
  createPartitionData,
} from '../../../protocol/generated/fetch-response.ts';
import { ErrorCode, zeroUuid } from '../../../protocol/index.ts';
import { systemClock } from '../../../src/link/context.ts';
import { LagTracker } from '../../../src/link/fetch/lag.ts';
import { PartitionFeed } from '../../../src/link/fetch/partition-feed.ts';
import { rebuildCopy } from '../../../src/link/fetch/rebuild-copy.ts';
import { type GrowthParts, growMirror } from '../../../src/link/mirror/grow-mirror.ts';
import { isMirroredStill, unconfirmedSources } from '../../../src/link/source-identity.ts';
import type { LinkRecord, TopicRecord } from '../../../src/state/records.ts';
import { virtualOffset } from '../../../src/timeline/offsets.ts';
import { newMirror } from '../../../src/timeline/timeline.ts';
import { FakeLink, linkBounds } from './fake-link.ts';
import { batch, FakeCluster, openTestStorage, shellId, sourceId, topicInfo } from './fakes.ts';
import { SplitSource, successorId } from './split-source.ts';

const mirror = {
  name: 'eu.t',
  sourceTopic: 't',
  sourceTopicId: sourceId,
  partitions: [newMirror(virtualOffset(0n)), newMirror(virtualOffset(0n))],
};
const feed = { topic: 'eu.t', sourceTopic: 't', sourceTopicId: sourceId };

function sourceWith(id: string, partitions = 2): FakeCluster {
  const source = new FakeCluster();
  source.topics.set('t', topicInfo('t', id, Array(partitions).fill(0)));
  return source;
}

async function doubt(source: FakeCluster, changes: Partial<typeof mirror> = {}) {
  const record = { sourceClusterId: 'fake-cluster' };
  const found = await unconfirmedSources({ cluster: source, record }, [{ ...mirror, ...changes }]);
  return found.get(mirror.name)?.kind ?? null;
}

test('R9: a topic with its id is the mirrored one, grown or not', async () => {
  assert.equal(await doubt(sourceWith(sourceId)), null);
  assert.equal(await doubt(sourceWith(sourceId, 3)), null);
  assert.equal(await isMirroredStill({ cluster: sourceWith(sourceId) }, feed), true);
});

test('R9: another id is another topic, another cluster has none of ours', async () => {
  assert.equal(await doubt(sourceWith(successorId)), 'other');
  assert.equal(await isMirroredStill({ cluster: sourceWith(successorId) }, feed), false);
  const swapped = sourceWith(sourceId);
  swapped.clusterId = 'swapped';
  assert.equal(await doubt(swapped), 'other');
});

test('one that is not there, not readable, or seen by a broker that was left behind may come back', async () => {
  assert.equal(await doubt(new FakeCluster()), 'missing');
  assert.equal(await doubt(sourceWith(sourceId, 1)), 'unreadable');
  const denied = sourceWith(sourceId);
  const errorCode = ErrorCode.TOPIC_AUTHORIZATION_FAILED;
  denied.topics.set('t', { ...topicInfo('t', zeroUuid, []), errorCode });
  assert.equal(await doubt(denied), 'unreadable');
});

test('without ids a topic of the name with its partitions is taken for the mirrored one', async () => {
  assert.equal(await doubt(sourceWith(zeroUuid), { sourceTopicId: zeroUuid }), null);
  assert.equal(await doubt(sourceWith(zeroUuid, 1), { sourceTopicId: zeroUuid }), 'other');
});

test('R9: one broker that was left behind held up all that is read by name', async () => {
  const source = new SplitSource();
  const found = async () => {
    const record = { sourceClusterId: source.clusterId };
    const orders = { ...mirror, sourceTopic: 'orders', partitions: mirror.partitions.slice(1) };
    return (await unconfirmedSources({ cluster: source, record }, [orders])).get(mirror.name);
  };
  source.tell(sourceId, sourceId, successorId);
  assert.equal(await found(), undefined);
  source.tell(sourceId, successorId, successorId);
  assert.equal((await found())?.kind, 'other');
  source.tell(null, sourceId, successorId);
  assert.equal((await found())?.kind, 'other', 'one of three is not most');
  source.tell(sourceId, sourceId, successorId);
  source.foreign.add(2);
  assert.equal((await found())?.kind, 'other', 'another cluster has none of ours');
});

/** A copy of three batches, whose source has one of them left. */
async function rebuilding(t: TestContext, source: FakeCluster) {
  const { storage } = await openTestStorage(t);
  const log = await storage.create({ topicId: shellId, partition: 0 }, 0n);
  for (const base of [0n, 1n, 2n]) await log.append(batch({ base }));
  await log.flush();
  source.script('Fetch', (request) => {
    const [wanted] = (request as { topics: { partitions: { fetchOffset: bigint }[] }[] }).topics;
    const offset = wanted?.partitions[0]?.fetchOffset ?? 0n;
    const records = offset <= 2n ? batch({ base: 2n }) : null;
    const partitions = [createPartitionData({ records, highWatermark: 3n })];
    return createFetchResponse({ responses: [createFetchableTopicResponse({ partitions })] });
  });
  const parts = { ...feed, partition: 0, log, lag: new LagTracker(3n, 0), clock: systemClock };
  const link = new FakeLink(source);
  const rebuild = () =>
    rebuildCopy({
      feed: new PartitionFeed({ ...parts, isCompacted: () => true }),
      link,
      clock: systemClock,
      bounds: linkBounds(),
      from: { start: 0n, base: 0n },
      tombstonesMs: 60_000,
    });
  return { log, rebuild };
}

test('R9: a copy is not swapped for one of another topic', async (t) => {
  const source = sourceWith(successorId);
  const { log, rebuild } = await rebuilding(t, source);
  const before = log.sizeBytes;
  await assert.rejects(rebuild(), /cannot be confirmed to be the mirrored one/);
  assert.equal(log.sizeBytes, before);
  source.topics.set('t', topicInfo('t', sourceId, [0]));
  const { after } = await rebuild();
  assert.ok(after < before, `${after} bytes, ${before} before`);
});

test('R9: a mirror does not grow to the partitions of another topic', async () => {
  const cluster = sourceWith(successorId, 3);
  const source = { cluster, record: { sourceClusterId: cluster.clusterId } as LinkRecord };
  const record = mirror as unknown as TopicRecord;
  const grow = () => growMirror({} as GrowthParts, source, { record, count: 3 });
  assert.match((await grow()) ?? '', /was recreated/);
  cluster.topics.set('t', topicInfo('t', sourceId, [0, 0, 0]));
  await assert.rejects(grow, TypeError, 'it would go on, with what this test has not got');
});

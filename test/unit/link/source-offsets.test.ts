// Where a copy has to begin when the source's first offset lies inside a batch, and what an answer
// with an error means for it: nothing is begun at an offset that no batch of the source fits to.
//
// Owns: a source whose partition starts at 150, inside the batch at 100. Refuses to know mirrors.
// Invariant: the error of a Fetch is the test's to set.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { FetchRequest } from '../../../protocol/generated/fetch-request.ts';
import {
  createFetchableTopicResponse,
  createFetchResponse,
  createPartitionData,
} from '../../../protocol/generated/fetch-response.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import type { Api } from '../../../src/cluster/cluster.ts';
import { systemClock } from '../../../src/link/context.ts';
import { resolveOutOfRange } from '../../../src/link/fetch/out-of-range.ts';
import { sourceStarts } from '../../../src/link/mirror/start-offset.ts';
import { fetchOnce } from '../../../src/link/source-offsets.ts';
import { FakeLink } from './fake-link.ts';
import {
  batch,
  FakeCluster,
  feedOf,
  openTestStorage,
  shellId,
  sourceId,
  topicInfo,
} from './fakes.ts';

const info = topicInfo('t', sourceId, [0]);

class Cut extends FakeCluster {
  errorCode: number = ErrorCode.NONE;
  /** So many answers more are emptied by a quota. */
  heldBack = 0;
  readonly bytesAsked: (number | undefined)[] = [];

  constructor() {
    super();
    this.topics.set('t', info);
    this.starts.set('t/0', 150n);
    this.ends.set('t/0', 300n);
  }

  override async send<Request, Response>(
    target: unknown,
    api: Api<Request, Response>,
    request: unknown,
  ): Promise<Response> {
    if (api.name !== 'Fetch') return super.send(target, api, request);
    const { errorCode } = this;
    this.bytesAsked.push((request as FetchRequest).topics[0]?.partitions[0]?.partitionMaxBytes);
    if (this.heldBack-- > 0) return createFetchResponse({ throttleTimeMs: 1 }) as Response;
    const records = errorCode === ErrorCode.NONE ? batch({ base: 100n, count: 100 }) : null;
    const partitions = [createPartitionData({ errorCode, records, highWatermark: 300n })];
    const responses = [createFetchableTopicResponse({ topic: 't', partitions })];
    return createFetchResponse({ responses }) as Response;
  }
}

test('a copy begins with the batch that holds the first offset', async () => {
  assert.deepEqual(await sourceStarts(new Cut(), info), [{ start: 150n, base: 100n }]);
});

test('R10: no copy begins where a batch could not be looked at', async () => {
  const source = new Cut();
  source.errorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER;
  await assert.rejects(sourceStarts(source, info), {
    name: 'ClusterError',
    message: /t-0 at offset 150 cannot be read now: NOT_LEADER_OR_FOLLOWER/,
  });
});

test('a start that has moved is followed only when its batch could be looked at', async (t) => {
  const { storage } = await openTestStorage(t);
  const log = await storage.create({ topicId: shellId, partition: 0 }, 0n);
  const source = new Cut();
  const feed = feedOf(log, { topic: 't', sourceTopic: 't' });
  const link = new FakeLink(source);
  link.lostHistory = 'continue';
  source.errorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER;
  await resolveOutOfRange(feed, link, systemClock);
  assert.deepEqual([log.logStart, feed.failures], [0n, 1], 'tried again later');
  source.errorCode = ErrorCode.NONE;
  await resolveOutOfRange(feed, link, systemClock);
  assert.equal(link.events.since(0).length, 1, 'what is lost is told once');
  assert.deepEqual([log.logStart, feed.startOverride], [100n, 150n]);
  await feed.append(batch({ base: 100n, count: 100 }));
  assert.equal(log.end, 200n);
});

test('an answer that a quota of the source had emptied was taken for an unknown error', async () => {
  const source = new Cut();
  source.heldBack = 3;
  assert.deepEqual(await sourceStarts(source, info), [{ start: 150n, base: 100n }]);

  source.heldBack = 2;
  source.bytesAsked.length = 0;
  const wanted = { topic: 't', topicId: sourceId, partition: 0, leaderId: 1, offset: 150n };
  const { errorCode, records } = await fetchOnce(source, { ...wanted, bytesMax: 1_000 });
  assert.equal(errorCode, ErrorCode.NONE);
  assert.ok(records.equals(batch({ base: 100n, count: 100 })));
  assert.deepEqual(source.bytesAsked, [1_000, 500, 250], 'less comes sooner');

  source.heldBack = Number.POSITIVE_INFINITY;
  const given = await fetchOnce(source, { ...wanted, bytesMax: 1_000, heldBackMsMax: 20 });
  assert.equal(given.errorCode, ErrorCode.THROTTLING_QUOTA_EXCEEDED, 'not for ever');
  source.bytesAsked.length = 0;
  const isWanted = () => source.bytesAsked.length < 3;
  await fetchOnce(source, { ...wanted, bytesMax: 1_000, isWanted });
  assert.equal(source.bytesAsked.length, 3, 'nor once nobody wants it any more');
});

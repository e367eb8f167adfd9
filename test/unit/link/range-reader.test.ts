// Parallel ranges of one partition over a source that a test scripts: in order whatever the order
// of the answers, and never two histories in one log, wherever a truncation falls. The mirror log
// is a real one.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { FetchRequest } from '../../../protocol/generated/fetch-request.ts';
import {
  createFetchableTopicResponse,
  createFetchResponse,
  createPartitionData,
} from '../../../protocol/generated/fetch-response.ts';
import type { OffsetForLeaderEpochRequest } from '../../../protocol/generated/offset-for-leader-epoch-request.ts';
import {
  createEpochEndOffset,
  createOffsetForLeaderEpochResponse,
  createOffsetForLeaderTopicResult,
} from '../../../protocol/generated/offset-for-leader-epoch-response.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import type { Api } from '../../../src/cluster/cluster.ts';
import { systemClock } from '../../../src/link/context.ts';
import { ByteThrottle } from '../../../src/link/fetch/byte-throttle.ts';
import { RangeReader } from '../../../src/link/fetch/range-reader.ts';
import { SeededRandom } from '../../helpers/seeded-random.ts';
import { FakeLink } from './fake-link.ts';
import { batch, FakeCluster, feedOf, openTestStorage, shellId, sourceId } from './fakes.ts';

interface Written {
  readonly base: bigint;
  readonly count: number;
  readonly epoch: number;
  readonly valueBytes?: number;
}

/** Batches of random sizes from `base` to `end`. */
function write(
  random: SeededRandom,
  range: { base: bigint; end: bigint; epoch: number; countMax: number },
): Written[] {
  const batches: Written[] = [];
  for (let base = range.base; base < range.end; ) {
    const count = Math.min(1 + random.below(range.countMax), Number(range.end - base));
    batches.push({ base, count, epoch: range.epoch });
    base += BigInt(count);
  }
  return batches;
}

const bytesOf = (batches: readonly Written[]): Buffer => Buffer.concat(batches.map(batch));

/** A leader whose history is another one after some answers. */
class Source extends FakeCluster {
  history: readonly Written[];
  leaderEpoch = 5;
  /** Answers until `after` takes the place of the history, in a new term. */
  turn = Number.POSITIVE_INFINITY;
  after: readonly Written[] = [];
  /** Refuses requests that name another term, as brokers do. */
  fences = true;
  /** A quota empties one answer of so many; 0: none. */
  heldBackOneOf = 0;
  heldBack = 0;
  asked = 0;
  underWay = 0;
  underWayMax = 0;
  askedBytesMax = 0;
  readonly #random: SeededRandom;

  constructor(random: SeededRandom, history: readonly Written[]) {
    super();
    this.#random = random;
    this.history = history;
  }

  get end(): bigint {
    const last = this.history.at(-1);
    return last === undefined ? 0n : last.base + BigInt(last.count);
  }

  override async send<Request, Response>(
    _: unknown,
    api: Api<Request, Response>,
    request: unknown,
  ) {
    this.underWay++;
    this.underWayMax = Math.max(this.underWayMax, this.underWay);
    try {
      for (let turns = this.#random.below(6); turns > 0; turns--) {
        await new Promise((resolve) => setImmediate(resolve));
      }
      const answer =
        api.name === 'Fetch'
          ? this.#fetch(request as FetchRequest)
          : this.#epochEnd(request as OffsetForLeaderEpochRequest);
      return answer as Response;
    } finally {
      this.underWay--;
    }
  }

  #isFenced(epoch: number): boolean {
    return this.fences && epoch !== this.leaderEpoch;
  }

  #fetch(request: FetchRequest) {
    if (++this.asked > this.turn) {
      this.history = this.after;
      this.leaderEpoch = 6;
    }
    if (this.heldBackOneOf > 0 && this.#random.below(this.heldBackOneOf) === 0) {
      this.heldBack++;
      return createFetchResponse({ throttleTimeMs: 1 });
    }
    const wanted = request.topics[0]?.partitions[0];
    assert.ok(wanted);
    const { fetchOffset, currentLeaderEpoch, partitionMaxBytes } = wanted;
    this.askedBytesMax = Math.max(this.askedBytesMax, partitionMaxBytes);
    let data = createPartitionData({ errorCode: ErrorCode.FENCED_LEADER_EPOCH });
    if (!this.#isFenced(currentLeaderEpoch)) {
      const from = this.history.findIndex(({ base, count }) => base + BigInt(count) > fetchOffset);
      const rest = from < 0 ? Buffer.alloc(0) : bytesOf(this.history.slice(from, from + 40));
      // Cut anywhere, but for a first batch, which comes whole.
      const least = from < 0 ? 0 : bytesOf(this.history.slice(from, from + 1)).length;
      const records = rest.subarray(0, Math.max(least, partitionMaxBytes));
      data = createPartitionData({ records, highWatermark: this.end });
    }
    return createFetchResponse({
      responses: [createFetchableTopicResponse({ topicId: sourceId, partitions: [data] })],
    });
  }

  #epochEnd(request: OffsetForLeaderEpochRequest) {
    const wanted = request.topics[0]?.partitions[0];
    assert.ok(wanted);
    const { leaderEpoch, currentLeaderEpoch } = wanted;
    const last = this.history.findLast(({ epoch }) => epoch <= leaderEpoch);
    const end = createEpochEndOffset({
      errorCode: this.#isFenced(currentLeaderEpoch) ? ErrorCode.FENCED_LEADER_EPOCH : 0,
      leaderEpoch: last?.epoch ?? -1,
      endOffset: last === undefined ? -1n : last.base + BigInt(last.count),
    });
    return createOffsetForLeaderEpochResponse({
      topics: [createOffsetForLeaderTopicResult({ topic: 'orders', partitions: [end] })],
    });
  }
}

const chunkBytes = 400;

async function scene(t: TestContext) {
  const { storage } = await openTestStorage(t);
  return async (source: Source, partition: number) => {
    const log = await storage.create({ topicId: shellId, partition }, 0n);
    const feed = feedOf(log, { partition });
    const link = new FakeLink(source);
    const reader = new RangeReader({
      feed,
      link,
      clock: systemClock,
      settings: () => ({ chunkBytes, windowBytes: 8 * chunkBytes, bytesPerSecond: null }),
      throttle: new ByteThrottle(),
      mayFetch: () => true,
      lane: 'ranges',
      highWatermark: source.end,
      bytesPerOffset: 20,
    });
    await reader.run();
    await log.flush();
    const read = await log.read(0n, { bytesMax: 1 << 24, atLeastOneBatch: true });
    return { log, feed, bytes: Buffer.concat([...read.chunks]) };
  };
}

test('ranges are asked for beside each other and appended in order', async (t) => {
  const random = new SeededRandom();
  t.diagnostic(random.describe());
  const history = write(random, { base: 0n, end: 4_000n, epoch: 4, countMax: 9 });
  history.push(...write(random, { base: 4_000n, end: 6_000n, epoch: 5, countMax: 9 }));
  const source = new Source(random, history);
  const { log, bytes, feed } = await (await scene(t))(source, 0);
  assert.ok(bytesOf(history).subarray(0, bytes.length).equals(bytes), random.describe());
  assert.ok(log.end > 5_800n, `the rest is for the fetcher: ${log.end}`);
  assert.ok(source.underWayMax > 4, `${source.underWayMax} at a time`);
  assert.ok(source.underWayMax <= 10, `${source.underWayMax} at a time`);
  assert.equal(feed.lag.sourceEnd, 6_000n);
});

test('R14: when records had grown, answers were asked for beyond what a range may have', async (t) => {
  const random = new SeededRandom();
  t.diagnostic(random.describe());
  const history = write(random, { base: 0n, end: 200n, epoch: 5, countMax: 5 });
  const grown = write(random, { base: 200n, end: 400n, epoch: 5, countMax: 1 });
  history.push(...grown.map((one) => ({ ...one, valueBytes: 2_000 })));
  const source = new Source(random, history);
  const { log, bytes } = await (await scene(t))(source, 0);
  assert.ok(bytesOf(history).subarray(0, bytes.length).equals(bytes), random.describe());
  assert.ok(log.end > 300n, `the rest is for the fetcher: ${log.end}`);
  assert.ok(source.askedBytesMax <= 3 * chunkBytes, `${source.askedBytesMax} bytes at a time`);
});

test('an answer that a quota of the source had emptied ended the reading in ranges', async (t) => {
  const random = new SeededRandom();
  t.diagnostic(random.describe());
  const source = new Source(
    random,
    write(random, { base: 0n, end: 6_000n, epoch: 5, countMax: 9 }),
  );
  source.heldBackOneOf = 3;
  const { log, bytes, feed } = await (await scene(t))(source, 0);
  assert.ok(bytesOf(source.history).subarray(0, bytes.length).equals(bytes), random.describe());
  assert.ok(source.heldBack > 10, `${source.heldBack} answers were held back`);
  assert.ok(log.end > 5_800n, `the rest is for the fetcher: ${log.end}`);
  assert.ok(source.underWayMax <= 10, `${source.underWayMax} at a time`);
  assert.equal(feed.lag.sourceEnd, 6_000n);
});

test('R9: a truncation between ranges never joins two histories', async (t) => {
  const random = new SeededRandom();
  t.diagnostic(random.describe());
  const read = await scene(t);
  let joined = 0;
  for (let round = 0; round < 60; round++) {
    const before = write(random, { base: 0n, end: 1_500n, epoch: 5, countMax: 7 });
    const kept = before.slice(0, random.below(before.length));
    const base = kept.reduce((sum, { count }) => sum + BigInt(count), 0n);
    const after = [...kept, ...write(random, { base, end: 2_000n, epoch: 6, countMax: 7 })];
    const source = new Source(random, before);
    source.turn = random.below(60);
    source.after = after;
    // Also a broker that answers whoever asks: then the epochs alone keep the histories apart.
    source.fences = random.below(2) === 0;
    const { bytes } = await read(source, round);
    const isOf = (history: readonly Written[]): boolean =>
      bytesOf(history).subarray(0, bytes.length).equals(bytes);
    assert.ok(isOf(before) || isOf(after), `round ${round}: ${random.describe()}`);
    if (bytes.length > 0 && source.leaderEpoch === 6) joined++;
  }
  assert.ok(joined > 10, `a truncation fell into ${joined} readings`);
});

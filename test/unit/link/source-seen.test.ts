// What is known of a source that is dead when the proxy starts again: last contact, what is
// missing at least, and how much may be lost, paused and failed mirrors included.
//
// Owns: a link over mirror logs on disk whose source never answers; what it is said to have
// reported is the test's. Invariant: time passes only when the test says so.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { ClusterError } from '../../../src/cluster/cluster.ts';
import type { LinkContext } from '../../../src/link/context.ts';
import { LagTracker } from '../../../src/link/fetch/lag.ts';
import { LinkRuntime } from '../../../src/link/link.ts';
import { type MirrorTopic, MirrorTopics } from '../../../src/link/mirror/mirror-topics.ts';
import { TopicChanges } from '../../../src/link/mirror/topic-changes.ts';
import { SourceSeen } from '../../../src/link/source-seen.ts';
import { linkStatus, partitionStatuses } from '../../../src/link/status.ts';

import { Events } from '../../../src/observe/events.ts';
import { checkRecordSize } from '../../../src/state/partition-writer.ts';
import { encodeRecord } from '../../../src/state/record-format.ts';
import {
  type LinkRecord,
  type MirrorState,
  stateKey,
  type TopicRecord,
} from '../../../src/state/records.ts';
import {
  FakeCluster,
  FakeState,
  mirrorRecord,
  openTestStorage,
  sourceId,
  testContext,
} from './fakes.ts';

const names = ['live', 'paused', 'failed', 'fresh'] as const;
type Name = (typeof names)[number];

const link: LinkRecord = {
  ...{ kind: 'link', name: 'dr', linkId: sourceId, sourceClusterId: 'source' },
  ...{ configs: { 'bootstrap.servers': 'source:9092' }, paused: false, createdTimeMs: 1 },
};

function mirror(name: Name, state: MirrorState): TopicRecord {
  const topicId = `AAAAAAAAAAAAAAAAAAAAA${'ABCD'[names.indexOf(name)]}`;
  return mirrorRecord({ name, topicId, state });
}

/** Runs the link as a process does; `restart` ends it and begins the next one. */
async function scene(t: TestContext) {
  const state = new FakeState();
  const { storage, reopen } = await openTestStorage(t);
  state.links.set('dr', link);
  for (const name of names) {
    const record = mirror(name, 'ACTIVE');
    state.topics.set(name, record);
    await storage.create({ topicId: record.topicId ?? '', partition: 0 }, 0n);
  }
  // Of one process; the monotonic clock begins anew with each.
  const now = { ms: 1_000_000_000, startedMs: 1_000_000_000 };
  const clock = { monotonicMs: () => now.ms - now.startedMs, unixMs: () => now.ms };
  const begin = async (own = storage) => {
    const cluster = new FakeCluster();
    const parts = { state, storage: own, destination: cluster, source: cluster };
    const connectSource = async () => {
      throw new ClusterError('UNREACHABLE', 'the data centre is gone', { maybeSent: false });
    };
    const context = { ...testContext(parts), clock, connectSource };
    const { events } = context;
    const topics = new MirrorTopics(context);
    await topics.start();
    const changes = new TopicChanges({ state, events, clock, touch: () => undefined });
    const runtime = new LinkRuntime({ context, topics, changes, record: link });
    const ownTopics = (wanted: readonly Name[]) =>
      wanted.map((name) => topics.byName(name) ?? assert.fail(name));
    const seen = new SourceSeen({
      context,
      changes,
      link: runtime,
      topics: () => ownTopics(names),
    });
    const close = async () => {
      await runtime.close();
      topics.close();
    };
    return {
      runtime,
      seen,
      close,
      of: (...wanted: readonly Name[]) =>
        linkStatus(runtime, ownTopics(wanted.length === 0 ? names : wanted), {
          context,
          tasks: [],
        }),
      partition: (name: Name) => {
        const [topic] = ownTopics([name]);
        return partitionStatuses(topic ?? assert.fail(), runtime, context)[0] ?? assert.fail();
      },
      hears: (name: Name, sourceEnd: bigint) => {
        runtime.contacted();
        runtime.feeds
          .lag(name, 0)
          ?.observeSource(sourceEnd, { nowMs: clock.monotonicMs(), unixMs: now.ms });
      },
    };
  };
  const first = await begin();
  for (const name of names) first.runtime.sync(name);
  let current = first;
  t.after(() => current.close());
  return {
    ...{ state, now, first },
    put: (name: Name, to: MirrorState) => state.apply([{ put: mirror(name, to) }]),
    restart: async () => {
      await current.close();
      now.startedMs = now.ms;
      current = await begin(await reopen());
      current.runtime.start();
      return current;
    },
  };
}

const minuteMs = 60_000;

test('R15: RPO and last contact were unknown after a restart while the source was dead', async (t) => {
  const { state, now, first, put, restart } = await scene(t);
  for (const name of ['live', 'paused', 'failed'] as const) first.hears(name, 0n);
  first.hears('fresh', 3n);
  put('paused', 'PAUSED');
  now.ms += minuteMs;
  first.hears('live', 0n);
  put('failed', 'FAILED');
  now.ms += minuteMs;
  first.hears('live', 7n);
  const heardMs = now.ms;
  await first.seen.keep();
  now.ms += 5 * minuteMs;
  const { runtime, of, partition } = await restart();
  const status = of();
  assert.equal(status.lastContactTimeMs, heardMs);
  assert.equal(status.isContactRecorded, true);
  assert.equal(status.isAnswering, false, 'what is on record is no answer');
  assert.deepEqual([of('live').rpoSeconds, of('live').isRpoAtMost], [6 * 60, true]);
  const { lagRecords, lagRecordsMin, sourceEnd, heardTimeMs } = partition('live');
  assert.deepEqual([lagRecords, lagRecordsMin], [null, 7n], 'what is missing now is not known');
  assert.deepEqual([sourceEnd, heardTimeMs], [7n, heardMs]);
  // A receipt reads these.
  const tracker = runtime.feeds.lag('paused', 0);
  assert.deepEqual([tracker?.sourceEnd, tracker?.contactUnixMs], [0n, heardMs - 2 * minuteMs]);
  assert.equal(state.commits.length, 1, 'nothing was heard that is not on record');
});

test('paused and failed mirrors dropped out of the RPO without a word', async (t) => {
  const { now, first, put, restart } = await scene(t);
  for (const name of ['live', 'paused', 'failed'] as const) first.hears(name, 0n);
  first.hears('fresh', 3n);
  now.ms += minuteMs;
  first.hears('live', 0n);
  assert.deepEqual([first.of().rpoSeconds, first.of().rpoUnknownTopics], [null, ['fresh']]);
  for (const name of ['paused', 'failed', 'fresh'] as const) {
    put(name, name === 'paused' ? 'PAUSED' : 'FAILED');
  }
  assert.deepEqual([first.of().rpoSeconds, first.of().isRpoAtMost], [60, false]);
  assert.deepEqual(first.of().rpoUnknownTopics, ['fresh'], 'it will never be complete');
  await first.seen.keep();
  now.ms += minuteMs;
  const after = await restart();
  assert.deepEqual([after.of().rpoSeconds, after.of().isRpoAtMost], [120, true]);
  assert.deepEqual(after.of().rpoUnknownTopics, ['fresh']);
  after.hears('live', 0n);
  assert.deepEqual([after.of('live').rpoSeconds, after.of('live').isRpoAtMost], [0, false]);
  assert.equal(after.of().isContactRecorded, false);
});

test('what is heard is written down rarely, and once more when the source is lost', async (t) => {
  const { state, now, first } = await scene(t);
  const written = async () => {
    await first.seen.keep();
    return state.commits.length;
  };
  assert.equal(await written(), 0, 'nothing was heard');
  first.hears('live', 0n);
  assert.equal(await written(), 0, 'it may be heard of for long yet');
  now.ms += minuteMs;
  first.hears('live', 0n);
  assert.equal(await written(), 1);
  now.ms += minuteMs / 2;
  first.hears('live', 1n);
  assert.equal(await written(), 1);
  const heardMs = now.ms;
  now.ms += 11_000;
  state.fates = ['UNAVAILABLE'];
  await assert.rejects(first.seen.keep(), 'the destination is away for a moment');
  assert.equal(state.sourcesSeen.get('dr')?.contactTimeMs, heardMs - minuteMs / 2);
  now.ms += 5_000;
  assert.equal(await written(), 3, 'it is lost, and this is the last that was heard');
  assert.deepEqual(state.sourcesSeen.get('dr')?.topics, [
    {
      ...{ topic: 'live', logTopicId: mirror('live', 'ACTIVE').topicId, sourceEnds: [1n] },
      ...{ contactTimesMs: [heardMs], completeTimesMs: [heardMs - minuteMs / 2] },
    },
  ]);
  now.ms += 10 * minuteMs;
  assert.equal(await written(), 3, 'nothing more was heard');
  first.hears('live', 1n);
  state.isOwner = false;
  assert.equal(await written(), 3, 'it is not the owner');
});

test('what is on record of another link or an earlier topic of the name is not told', async (t) => {
  const { state, now, first, restart } = await scene(t);
  first.hears('live', 5n);
  now.ms += minuteMs;
  first.hears('live', 5n);
  await first.seen.keep();
  const record = state.sourcesSeen.get('dr') ?? assert.fail();
  const [topic] = record.topics;
  assert.ok(topic);
  state.sourcesSeen.set('dr', { ...record, topics: [{ ...topic, logTopicId: sourceId }] });
  const other = await restart();
  assert.deepEqual([other.partition('live').sourceEnd, other.of().isContactRecorded], [-1n, true]);
  state.sourcesSeen.set('dr', { ...record, linkId: 'AAAAAAAAAAAAAAAAAAAAAw' });
  const another = await restart();
  assert.deepEqual(
    [another.partition('live').sourceEnd, another.of().lastContactTimeMs],
    [-1n, -1],
  );
});

test('R15: a mirror that lacks partitions looked whole after a restart with a dead source', async (t) => {
  const { state, now, first, restart } = await scene(t);
  first.hears('live', 0n);
  const lackingMs = now.ms;
  first.runtime.growth.found(mirror('live', 'ACTIVE'), 3, null);
  first.runtime.growth.found(mirror('fresh', 'ACTIVE'), 2, null);
  now.ms += 10 * minuteMs;
  first.hears('live', 0n);
  assert.deepEqual([first.of('live').rpoSeconds, first.of('live').isRpoAtMost], [600, false]);
  await first.seen.keep();
  now.ms += minuteMs;
  const { runtime, of } = await restart();
  assert.deepEqual([of('live').rpoSeconds, of('live').isRpoAtMost], [660, false]);
  // A failover leaves them out and says so, by this.
  const { sourcePartitions, sinceTimeMs, cause } = runtime.growth.of('live') ?? {};
  assert.deepEqual([sourcePartitions, sinceTimeMs], [3, lackingMs]);
  assert.match(cause ?? '', /known from before a restart/);
  assert.equal(runtime.growth.of('fresh')?.sourcePartitions, 2, 'none of its ends was ever heard');
  const growth = { sourcePartitions: 1, sinceTimeMs: lackingMs };
  const record = state.sourcesSeen.get('dr') ?? assert.fail();
  const topics = record.topics.map((topic) => ({ ...topic, growth }));
  state.sourcesSeen.set('dr', { ...record, topics });
  const grown = await restart();
  assert.equal(grown.runtime.growth.of('live'), null, 'it grew after that was written down');
});

/** A link with so many partitions by topic, of which all was heard. */
function manyTopics(partitionCounts: readonly number[]) {
  const state = new FakeState();
  const now = { nowMs: 0, unixMs: 1_800_000_000_000 };
  const clock = { monotonicMs: () => now.nowMs, unixMs: () => now.unixMs };
  const lag = new LagTracker(0n, 0);
  lag.observeSource(2n ** 60n, now);
  const health = { hasContact: true, contactUnixMs: now.unixMs - 1, isLost: false };
  const topics = partitionCounts.map((count, index) => {
    const name = `${index}`.padStart(249, 'x');
    const partitions = Array.from({ length: count }, (_, partition) => ({ partition }));
    return { name, record: { ...mirror('live', 'ACTIVE'), name }, partitions };
  });
  const events = new Events();
  const context = { state, clock, events, limits: { sourceSeenMs: minuteMs } };
  const growth = { of: () => ({ sourcePartitions: 2 ** 31 - 1, sinceTimeMs: now.unixMs }) };
  const seen = new SourceSeen({
    context: context as unknown as LinkContext,
    changes: new TopicChanges({ ...context, touch: () => undefined }),
    link: { name: 'dr', record: link, health, growth, feeds: { lag: () => lag } } as never,
    topics: () => topics as unknown as MirrorTopic[],
  });
  const keep = async () => {
    health.contactUnixMs++;
    now.nowMs += minuteMs;
    await seen.keep();
    return state.sourcesSeen.get('dr') ?? assert.fail();
  };
  const told = () =>
    events
      .since(0)
      .map(({ level, event, fields }) => [level, event, fields.mirrors, fields.leftOut]);
  return { topics, keep, told };
}

test('nothing was kept of links with more topics than fit into one record', async () => {
  const { keep } = manyTopics(Array(30_000).fill(1));
  const record = await keep();
  assert.ok(record.topics.length > 5_000);
  checkRecordSize({ key: stateKey(record), value: encodeRecord(record) });
});

test('R15: what did not fit into the record was left out of it without a word', async () => {
  const { topics, keep, told } = manyTopics([1, 70_000, 30_000, 30_000, 30_000, 1]);
  const record = await keep();
  checkRecordSize({ key: stateKey(record), value: encodeRecord(record) });
  const kept = record.topics.map(({ sourceEnds }) => sourceEnds.length);
  assert.deepEqual(kept, [1, 30_000, 30_000, 1], 'a topic too large keeps none of the others out');
  const cutOff = ['warn', 'source_seen_cut_off', 6, 2];
  assert.deepEqual(told(), [cutOff]);
  await keep();
  assert.deepEqual(told(), [cutOff], 'told once');
  const tooMany = topics.splice(1, 2);
  await keep();
  topics.push(...tooMany);
  await keep();
  assert.deepEqual(told(), [cutOff, cutOff], 'it was whole in between');
});

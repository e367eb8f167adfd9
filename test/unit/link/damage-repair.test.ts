// A damaged range of a mirror log, over a source that answers from a script: fetched again, and
// asked for again, ever later, while the source cannot give it.
//
// Owns: one feed whose log has what the test says that it has. Invariant: time passes only when the
// test says so.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import {
  createFetchableTopicResponse,
  createFetchResponse,
  createPartitionData,
} from '../../../protocol/generated/fetch-response.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import type { Cluster } from '../../../src/cluster/cluster.ts';
import { ClusterError } from '../../../src/cluster/cluster.ts';
import { type DamagedFeed, watchDamage } from '../../../src/link/fetch/damage-repair.ts';
import type { FeedLink } from '../../../src/link/fetch/source-link.ts';
import { Events } from '../../../src/observe/events.ts';
import { StorageError } from '../../../storage/errors.ts';
import type { LogDamage } from '../../../storage/mirror-log.ts';
import { linkBounds } from './fake-link.ts';
import { batch, shellId } from './fakes.ts';

const batches = [0n, 2n, 4n].map((base) => batch({ base, count: 2 }));
const whole = Buffer.concat(batches);
const damage: LogDamage = { from: 0n, to: 6n, bytes: whole.length, reason: 'scripted' };

type Answer = Buffer | number | Error;

function scene(
  t: TestContext,
  answers: Answer[],
  options: { refuse?: Error; from?: readonly bigint[] } = {},
) {
  t.mock.timers.enable({ apis: ['setTimeout', 'Date'] });
  const known = (options.from ?? [0n]).map((from) => ({ ...damage, from }));
  const repaired: Buffer[] = [];
  const offsets: bigint[] = [];
  const events = new Events();
  let listener = (): void => undefined;
  const work: Promise<void>[] = [];
  const feed = {
    topic: 'mirror',
    sourceTopic: 'orders',
    sourceTopicId: shellId,
    partition: 0,
    leaderId: 1,
    isStopped: false as boolean,
    log: {
      get damage() {
        return [...known];
      },
      onDamage(heard: () => void) {
        listener = heard;
        return () => {
          listener = () => undefined;
        };
      },
      async repair({ from }: LogDamage, records: Buffer) {
        if (options.refuse !== undefined) throw options.refuse;
        repaired.push(records);
        const at = known.findIndex((range) => range.from === from);
        known.splice(at, 1);
      },
    },
  } satisfies DamagedFeed;
  const send = async (_: unknown, __: unknown, request: unknown) => {
    const { topics } = request as { topics: { partitions: { fetchOffset: bigint }[] }[] };
    offsets.push(topics[0]?.partitions[0]?.fetchOffset ?? -1n);
    const next = answers.shift() ?? Buffer.alloc(0);
    if (next instanceof Error) throw next;
    const isRecords = Buffer.isBuffer(next);
    const data = createPartitionData({
      errorCode: isRecords ? ErrorCode.NONE : next,
      records: isRecords ? next : null,
    });
    return createFetchResponse({
      responses: [createFetchableTopicResponse({ partitions: [data] })],
    });
  };
  const lease = { isOurs: true };
  const link = {
    name: 'dr',
    events,
    cluster: { send } as unknown as Cluster,
    mayAct: () => lease.isOurs,
    inBackground: (run: () => Promise<void>) => {
      work.push(run());
    },
  } as unknown as FeedLink;
  const clock = { monotonicMs: () => Date.now(), unixMs: () => Date.now() };
  const end = watchDamage(feed, { link, clock, bounds: linkBounds({ clock }) });
  /** What is to be done at once is done. */
  const settle = () => new Promise<void>((resolve) => setImmediate(resolve));
  return {
    repaired,
    offsets,
    feed,
    lease,
    work,
    find: (from: bigint) => {
      known.push({ ...damage, from });
      listener();
    },
    pass: async (ms: number) => {
      t.mock.timers.tick(ms);
      await settle();
    },
    stop: async () => {
      feed.isStopped = true;
      end();
      await Promise.all(work);
    },
    said: async () => {
      await settle();
      return events.since(0).map(({ event }) => event);
    },
  };
}

const lost = new ClusterError('UNREACHABLE', 'scripted', { maybeSent: false });

test('what was damaged before the feed began is fetched again, in as many answers as it takes', async (t) => {
  const answers = [batches[0] ?? whole, Buffer.concat(batches.slice(1))];
  const { repaired, offsets, said, work } = scene(t, answers);
  assert.deepEqual(await said(), ['mirror_damage_repaired']);
  assert.deepEqual(repaired, [whole]);
  assert.deepEqual(offsets, [0n, 2n]);
  await Promise.all(work);
});

test('more than the range is not written', async (t) => {
  const { repaired, said } = scene(t, [Buffer.concat([whole, batch({ base: 6n })])]);
  await said();
  assert.deepEqual(repaired, [whole]);
});

test('what the source cannot give is said once, and again when the cause is another one', async (t) => {
  const nothing = Buffer.alloc(0);
  const answers = [nothing, nothing, ErrorCode.OFFSET_OUT_OF_RANGE, lost, lost, whole];
  const { repaired, said, pass, stop } = scene(t, answers);
  const not = 'mirror_damage_not_repaired';
  assert.deepEqual(await said(), [not]);
  await pass(1_000);
  assert.deepEqual(await said(), [not], 'the same cause');
  await pass(2_000);
  await pass(4_000);
  await pass(8_000);
  assert.deepEqual(await said(), [not, not, not]);
  assert.deepEqual(repaired, []);
  await pass(16_000);
  assert.deepEqual(await said(), [not, not, not, 'mirror_damage_repaired']);
  assert.deepEqual(repaired, [whole]);
  await stop();
});

test('a repair that was given up after 36 seconds goes on, in pauses that grow to ten minutes', async (t) => {
  const { offsets, repaired, pass, stop } = scene(t, Array(40).fill(lost).concat(whole));
  await pass(0);
  let second = 0;
  const askedAt: number[] = [];
  for (let before = 1; second < 7_200; second++) {
    await pass(1_000);
    if (offsets.length > before) askedAt.push(second + 1);
    before = offsets.length;
  }
  assert.deepEqual(askedAt.slice(0, 11), [1, 3, 7, 15, 31, 63, 127, 255, 511, 1_023, 1_623]);
  assert.deepEqual(askedAt.slice(-2), [6_423, 7_023]);
  for (let attempt = offsets.length; attempt <= 40; attempt++) await pass(600_000);
  assert.deepEqual(repaired, [whole]);
  await stop();
});

test('a repair that the log refuses is asked for again as well: another leader may have it', async (t) => {
  const refuse = new StorageError('CORRUPT_BATCH', 'not a repair');
  const { said, offsets, pass, stop } = scene(t, [whole, whole], { refuse });
  assert.deepEqual(await said(), ['mirror_damage_not_repaired']);
  await pass(1_000);
  assert.deepEqual(offsets, [0n, 0n]);
  await stop();
});

test('what is found meanwhile does not wait for what cannot be had, nor ask for that earlier', async (t) => {
  const { offsets, find, pass, stop, said } = scene(t, [lost, lost, lost, whole, lost]);
  for (const ms of [0, 1_000, 2_000]) await pass(ms);
  assert.deepEqual(offsets, [0n, 0n, 0n]);
  find(100n);
  assert.equal((await said()).at(-1), 'mirror_damage_repaired');
  assert.deepEqual(offsets, [0n, 0n, 0n, 100n]);
  await pass(3_000);
  assert.equal(offsets.length, 4);
  await pass(1_000);
  assert.deepEqual(offsets.slice(4), [0n]);
  await stop();
});

test('nothing is asked without the lease', async (t) => {
  const { lease, offsets, repaired, said, pass } = scene(t, [lost, whole]);
  await said();
  lease.isOurs = false;
  for (let second = 0; second < 10; second++) await pass(1_000);
  assert.equal(offsets.length, 1);
  assert.deepEqual(await said(), ['mirror_damage_not_repaired'], 'that is no news of the range');
  lease.isOurs = true;
  await pass(1_000);
  assert.deepEqual(repaired, [whole]);
});

test('a fault of ours was taken for a cause that passes, and asked for again for ever', async (t) => {
  const { said, work, offsets, pass } = scene(t, [new TypeError('not a function'), whole]);
  await assert.rejects(Promise.all(work), /not a function/, 'the link is to tell it');
  assert.deepEqual(await said(), []);
  await pass(10_000);
  assert.equal(offsets.length, 1);
});

test('a fault of ours in one range did not end: what is found later is repaired all the same', async (t) => {
  const { said, work, find, repaired, stop } = scene(t, [new TypeError('scripted'), whole, whole]);
  await assert.rejects(Promise.all(work), TypeError);
  work.length = 0;
  find(100n);
  assert.deepEqual(await said(), ['mirror_damage_repaired', 'mirror_damage_repaired']);
  assert.equal(repaired.length, 2);
  await stop();
});

test('records of the source that do not parse are asked for again: they may come whole', async (t) => {
  const torn = Buffer.from(whole);
  torn.writeInt32BE(-7, 8);
  const { said, repaired, pass, stop } = scene(t, [torn, whole]);
  assert.deepEqual(await said(), ['mirror_damage_not_repaired']);
  await pass(1_000);
  assert.deepEqual(repaired, [whole]);
  await stop();
});

test('nothing is asked any more once the mirror is not fetched', async (t) => {
  const { offsets, said, pass, stop } = scene(t, [lost, whole]);
  await said();
  await stop();
  await pass(10_000);
  assert.equal(offsets.length, 1);
});

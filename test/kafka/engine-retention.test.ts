// What leaves a mirror's storage on real brokers: only what the source let go while it is mirrored,
// then what the promoted topic's own retention says; and what happens when the disk is full.
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { alterTopicConfigs } from '../../src/cluster/config-requests.ts';
import type { Disk, DiskSpace } from '../../storage/index.ts';
import { nodeDisk } from '../../storage/index.ts';
import { produce } from '../helpers/own-producer.ts';
import { deleteRecords } from '../helpers/topic-admin.ts';
import { uniqueName, until } from '../helpers/wait.ts';
import { type LinkWorld, startLinkWorld } from './link-fixture.ts';

let world: LinkWorld;
/** What the file system is said to have free. */
let space: DiskSpace | null = null;
let spaceOf: (() => DiskSpace) | null = null;
const disk: Disk = {
  ...nodeDisk,
  space: async (path) => spaceOf?.() ?? space ?? nodeDisk.space(path),
};

before(async () => {
  world = await startLinkWorld({
    storage: { segmentBytesMax: 4_000, disk },
    limits: { sourceWhileFullMs: 500, sourceWatchMs: 500 },
  });
  await world.createLink('dr');
});

after(() => world?.end());

afterEach(() => {
  space = null;
  spaceOf = null;
});

async function setConfig(topic: string, name: string, value: string): Promise<void> {
  const changes = new Map([[topic, [{ name, value }]]]);
  const altered = await alterTopicConfigs(world.destination, changes);
  assert.equal(altered.get(topic)?.errorCode, 0);
}

const payload = 'x'.repeat(500);

async function fill(topic: string, batches: number): Promise<bigint> {
  let end = 0n;
  for (let batch = 0; batch < batches; batch++) {
    end = (await produce(world.source, { topic }, [`${payload}${batch}`])) + 1n;
  }
  return end;
}

/** A new topic filled with so many batches, and its mirror when it has them. Returns their end. */
async function mirrored(topic: string, batches: number): Promise<bigint> {
  const [end] = await world.mirrorNewTopic(topic, () => fill(topic, batches));
  assert.equal(end, BigInt(batches));
  return end;
}

test('a promoted prefix ages out by its own retention, by whole pieces; a mirror does not', async () => {
  const topic = uniqueName('aging');
  const end = await mirrored(topic, 40);
  await setConfig(topic, 'retention.bytes', '10000');
  const log = world.logOf(topic);
  // Several looks go by.
  const { destination: asked } = world;
  for (let look = 0; look < 3; look++) await asked.metadata([topic]);
  assert.equal(log.logStart, 0n);

  await world.command('promote', topic);
  await world.inState(topic, 'STOPPED');
  await until('the head is gone', () => world.logOf(topic).logStart > 0n, {
    describe: () => world.describe(topic),
  });
  assert.ok(world.logOf(topic).sizeBytes >= 10_000, 'no more than the setting lets go');
  assert.ok(world.logOf(topic).sizeBytes < 10_000 + 2 * 4_000, `${world.logOf(topic).sizeBytes}`);
  const { logStart } = world.logOf(topic);
  const read = await world.logOf(topic).read(logStart, { bytesMax: 1, atLeastOneBatch: true });
  assert.equal(read.baseOffset, logStart, 'the start is a whole batch');

  await setConfig(topic, 'retention.ms', '1');
  const aged = () =>
    world.events.since(0).filter(({ event }) => event === 'mirror_prefix_aged_out');
  await until('all of it is gone', () => aged().at(-1)?.fields.to === String(end), {
    describe: () => world.describe(topic),
  });
  assert.equal(world.logOf(topic).logStart, end);
  assert.equal(world.logOf(topic).sizeBytes, 0);
});

test('a copy stayed when its broker had deleted what was written after it, with a hole between', async () => {
  const topic = uniqueName('outlived');
  const end = await mirrored(topic, 3);
  await world.command('promote', topic);
  await world.inState(topic, 'STOPPED');
  for (let record = 0; record < 3; record++) await produce(world.destination, { topic }, ['later']);
  assert.equal(world.logOf(topic).logStart, 0n);
  await deleteRecords(world.destination, topic, 0, 1n);
  const gone = () =>
    world.events
      .since(0)
      .findLast(
        ({ event, fields }) => event === 'mirror_prefix_aged_out' && fields.topic === topic,
      );
  await until('the copy is gone', () => gone() !== undefined, {
    describe: () => world.describe(topic),
  });
  assert.equal(world.logOf(topic).logStart, end);
  assert.match(gone()?.message ?? '', /records behind them are deleted/);
});

test('R14: a full disk stops fetching first; reads and promotion go on; it resumes by itself', async () => {
  const topic = uniqueName('full');
  const first = await mirrored(topic, 5);

  const events = () => world.events.since(0).map(({ event }) => event);
  space = { freeBytes: 1_000, totalBytes: 1_000_000 };
  await until('the full disk is noticed', () => events().includes('storage_full'));
  const second = await fill(topic, 5);
  await until('the lag is seen', () => {
    const { partitions } = world.service.describeMirror(topic);
    return partitions[0]?.mirrorEnd === first;
  });
  assert.equal((await world.stored(topic)).length, world.logOf(topic).sizeBytes, 'it is read');

  space = null;
  await world.caughtUp(topic, [second]);
  assert.ok(events().includes('storage_has_space'));

  const fulls = () => events().filter((event) => event === 'storage_full').length;
  space = { freeBytes: 1_000, totalBytes: 1_000_000 };
  await until('full again', () => fulls() > 1);
  const third = await fill(topic, 5);
  await world.command('promote', topic);
  const codes = () => world.service.describeMirror(topic).blocking.map(({ code }) => code);
  await until('the cause', () => codes().join() === 'DISK_FULL,MIRROR_LAG', {
    describe: () => world.describe(topic),
  });
  const lag = () => world.service.describeMirror(topic).partitions[0]?.lagRecords;
  await until('the lag', () => lag() === third - second, {
    describe: () => world.describe(topic),
  });
  await world.command('cancel', topic);
  await world.command('failover', topic);
  await world.inState(topic, 'STOPPED');
  const [lost] = [...world.state.view.receipts.values()].at(-1)?.topics ?? [];
  assert.equal(lost?.partitions[0]?.lostRecords, third - second);
});

test('R14: a mirror without lag is promoted while the disk is full', async () => {
  const topic = uniqueName('fullpromote');
  await mirrored(topic, 5);
  const { fills } = filling();
  space = { freeBytes: 1_000, totalBytes: 1_000_000 };
  await until('the full disk is noticed', () => fills() > 0);
  await world.command('promote', topic);
  await world.inState(topic, 'STOPPED');
  assert.equal(world.service.describeMirror(topic).stoppedBy, 'promote');
  assert.equal((await world.stored(topic)).length, world.logOf(topic).sizeBytes, 'it is read');
});

test('R14: a disk that its mirrors have filled is freed by what the source lets go', async () => {
  const topic = uniqueName('filled');
  await mirrored(topic, 10);
  const { fills, ends } = filling();
  // 5 % have to be free: some 20 batches more and it is full.
  const room = world.logOf(topic).sizeBytes + 12_000 + 50_000;
  spaceOf = () => ({ freeBytes: room - world.logOf(topic).sizeBytes, totalBytes: 1_000_000 });
  await until('the mirror has filled it', async () => {
    await fill(topic, 3);
    return fills() > 0;
  });
  const second = await fill(topic, 10);
  const stoppedAt = world.logOf(topic).end;
  assert.ok(stoppedAt < second, `${stoppedAt} of ${second}`);
  // The burst is over; the source ages out, as it does by its retention.
  await deleteRecords(world.source, topic, 0, stoppedAt - 5n);
  await world.caughtUp(topic, [second]);
  assert.ok(ends() > 0);
  assert.equal(world.logOf(topic).logStart, stoppedAt - 5n);
  assert.deepEqual(world.service.describeMirror(topic).lostRanges, []);
});

/** How often the disk was full since, and had room again. */
function filling() {
  const from = world.events.since(0).at(-1)?.id ?? 0;
  const count = (name: string) =>
    world.events.since(from).filter(({ event }) => event === name).length;
  return { fills: () => count('storage_full'), ends: () => count('storage_has_space') };
}

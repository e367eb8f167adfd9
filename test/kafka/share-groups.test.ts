// Share groups over a promotion: refused on the mirror in a way that a Java share consumer
// survives, then from S on, at virtual offsets, with markers hidden before the splice; and Kafka's
// own tool for their offsets. Everything here goes through the proxy.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type ForeignConsumer, startShareConsumer } from '../helpers/foreign-clients.ts';
import { JavaTools, shareStartAndLag } from '../helpers/java-tools.ts';
import { oneShareState } from '../helpers/kafka-settings.ts';
import { type LinkedStage, linkName, offsets, startStage } from '../helpers/linked-stage.ts';
import {
  command,
  mirrorView,
  stateRecords,
  stopMirroring,
  waitForState,
} from '../helpers/mirror-commands.ts';
import {
  addToTransaction,
  endTransaction,
  newProducer,
  startTransaction,
  values,
  write,
} from '../helpers/raw-writes.ts';
import { createTopic } from '../helpers/topic-admin.ts';
import { until } from '../helpers/wait.ts';

const topic = 'shared';
const group = 'workers';
let stage: LinkedStage;
let tools: JavaTools;
let consumer: ForeignConsumer | undefined;

before(async () => {
  stage = await startStage({
    source: { settings: oneShareState },
    destination: { settings: oneShareState },
    linkConfigs: { 'consumer.offset.sync.enable': 'true' },
  });
  tools = await JavaTools.start();
  await stage.mirrorNewTopic(topic, values('copied', 30));
});

after(async () => {
  await consumer?.stop();
  await tools?.stop();
  await stage?.stop();
});

const shareTool = async (...args: string[]): Promise<string> =>
  (await tools.run(stage.causeway, 'kafka-share-groups', args)).stdout;

const startAndLag = (name = group): Promise<string | undefined> =>
  shareStartAndLag(tools, stage.causeway, name);

/** The broker moves a start when it likes; what was read is no lag. */
const allRead = /^(3|4|5)\d 0$/;

const describedAs = (expected: RegExp): Promise<true> => {
  let seen: string | undefined;
  return until(
    `share offsets ${expected}`,
    async () => {
      seen = await startAndLag();
      return expected.test(seen ?? '') ? true : undefined;
    },
    { describe: () => `last seen ${seen}` },
  );
};

/** Aborts transactions in which nothing was written: each marker stays hidden. */
async function markShell(name: string, markers: number): Promise<void> {
  const { atProxy, atDestination } = stage;
  const marking = await newProducer(atProxy, `marking-${name}`);
  for (let marked = 1; marked <= markers; marked++) {
    await startTransaction(atProxy, marking, name, [0]);
    await endTransaction(atProxy, marking, 'abort');
    const end = async () => Number((await offsets(atDestination, name, -1n))[0]);
    await until('a marker', async () => (await end()) === marked);
  }
}

const offsetsOf = ({ records }: ForeignConsumer): number[] =>
  records.map(({ offset }) => offset).sort((left, right) => left - right);

const range = (from: number, to: number): number[] =>
  Array.from({ length: to - from }, (_, index) => from + index);

test('R6: where a share group of the source was is recorded at the promotion, and shown', async () => {
  const { atSource, causeway, source } = stage;
  const name = 'shared-before';
  await createTopic(atSource, name);
  await stage.mirror(name);
  const before = await startShareConsumer({
    bootstrap: source.bootstrap,
    topic: name,
    group: 'early',
  });
  let written = 0;
  try {
    // It begins at the end that it finds, whenever that is.
    await until('records that it has got', async () => {
      await write(atSource, name, 0, values('early', 1));
      written += 1;
      return before.records.length >= 3;
    });
  } finally {
    await before.stop();
  }
  const reset = ['--reset-offsets', '--group', 'early', '--topic', name, '--execute'];
  await tools.run(source, 'kafka-share-groups', [...reset, '--to-latest']);
  await stage.mirrored(name);
  await stopMirroring(causeway, 'promote', name);
  const path = `/causeway/v1/links/${linkName}/groups`;
  const { groups } = await causeway.get<{ groups: Record<string, unknown>[] }>(path);
  const [row] = groups.filter((one) => one.group === 'early');
  assert.deepEqual([row?.kind, row?.topic, row?.held], ['share', name, 'share']);
  assert.equal(Number(row?.sourceOffset), written);
  const record = (await stateRecords(causeway)).find(
    ({ key }) => key === `share-groups/${linkName}`,
  );
  assert.deepEqual(record?.value.offsets, [
    { group: 'early', topic: name, partition: 0, startOffset: String(written) },
  ]);
});

test('a share consumer lives through its refusal on a mirror and begins at S', async () => {
  const { causeway, atProxy } = stage;
  await markShell(topic, 1);

  const sharing = await startShareConsumer({ bootstrap: causeway.bootstrap, topic, group });
  consumer = sharing;
  await until('a refusal', () => sharing.errors.some((error) => error.includes('Authorization')), {
    describe: () => `${sharing.errors.join()} ${sharing.stderr}`,
  });
  // The tool ends with 0 also when it fails.
  const reset = ['--reset-offsets', '--group', 'others', '--topic', topic, '--to-earliest'];
  assert.match(await shareTool(...reset, '--execute'), /share groups cannot read it/);

  const [switched] = await stopMirroring(causeway, 'promote', topic);
  assert.deepEqual([switched?.virtualEnd, switched?.nativeEnd], [30, 1]);
  assert.equal(await write(atProxy, topic, 0, values('after', 20)), 30n);
  await sharing.waitForCount(20);
  assert.deepEqual(offsetsOf(sharing), range(30, 50));
  assert.deepEqual(sharing.records.map(({ value }) => value).sort(), values('after', 20).sort());
  await describedAs(allRead);
});

test('a share group reads a transaction of a promoted topic, but not its marker', async () => {
  const { atProxy } = stage;
  assert.ok(consumer);
  const writer = await newProducer(atProxy, 'writing');
  assert.equal(await addToTransaction(atProxy, writer, topic, [0]), 0);
  await write(atProxy, topic, 0, values('transactional', 3), { producer: writer, sequence: 0 });
  await endTransaction(atProxy, writer, 'commit');
  await consumer.waitForCount(23);
  assert.deepEqual(offsetsOf(consumer), range(30, 53));
  await describedAs(allRead);
});

test('kafka-share-groups resets to virtual offsets, and never before S', async () => {
  assert.ok(consumer);
  await consumer.stop();
  const reset = (...to: string[]) =>
    shareTool('--reset-offsets', '--group', group, '--topic', topic, ...to, '--execute');
  await reset('--to-latest');
  assert.equal(await startAndLag(), '54 0');
  await reset('--to-earliest');
  assert.equal(await startAndLag(), '30 24');
  await reset('--to-datetime', '2000-01-01T00:00:00.000');
  assert.equal(await startAndLag(), '30 24');

  consumer = await startShareConsumer({ bootstrap: stage.causeway.bootstrap, topic, group });
  await consumer.waitForCount(23);
  assert.deepEqual(offsetsOf(consumer), range(30, 53));
  await consumer.stop();
  await shareTool('--delete-offsets', '--group', group, '--topic', topic);
  assert.equal(await startAndLag(), undefined);
});

for (const { name, copied, markers } of [
  { name: 'as much hidden as copied', copied: 2, markers: 2 },
  { name: 'more hidden than copied', copied: 1, markers: 3 },
]) {
  test(`a share group begins at S, with nothing in the shell: ${name}`, async () => {
    const { causeway, atProxy } = stage;
    const shared = `shared-${copied}-${markers}`;
    await stage.mirrorNewTopic(shared, values('copied', copied));
    await markShell(shared, markers);
    const [switched] = await stopMirroring(causeway, 'promote', shared);
    assert.deepEqual([switched?.virtualEnd, switched?.nativeEnd], [copied, markers]);
    const sharing = `${group}-${shared}`;
    const reset = ['--reset-offsets', '--group', sharing, '--topic', shared, '--to-earliest'];
    await shareTool(...reset, '--execute');
    assert.equal(await startAndLag(sharing), `${copied} 0`);
    const reader = await startShareConsumer({
      bootstrap: causeway.bootstrap,
      topic: shared,
      group: sharing,
    });
    try {
      assert.equal(await write(atProxy, shared, 0, values('after', 3)), BigInt(copied));
      await reader.waitForCount(3);
      assert.deepEqual(offsetsOf(reader), range(copied, copied + 3));
    } finally {
      await reader.stop();
    }
  });
}

test('a promotion waits for a share group of the source that has not read to the end', async () => {
  const { causeway, atSource, source } = stage;
  const name = 'shared-behind';
  const reset = ['--reset-offsets', '--group', 'slow', '--topic', name, '--execute'];
  await stage.mirrorNewTopic(name, async () => {
    await write(atSource, name, 0, values('unread', 5));
    const atStart = await tools.run(source, 'kafka-share-groups', [...reset, '--to-earliest']);
    assert.doesNotMatch(atStart.stdout, /Error/);
  });
  assert.equal((await command(causeway, 'promote', name)).error, null);
  let seen = '';
  await until(
    'the reason',
    async () => {
      const view = await mirrorView(causeway, name);
      seen = JSON.stringify([view.state, view.blocking]);
      return view.blocking.some(
        ({ code, message }) => code === 'SHARE_GROUP_BEHIND' && /'slow' has 5 rec/.test(message),
      );
    },
    { describe: () => `last seen ${seen}` },
  );
  await tools.run(source, 'kafka-share-groups', [...reset, '--to-latest']);
  await waitForState(causeway, name, 'STOPPED');
});

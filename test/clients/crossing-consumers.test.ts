// Consumers that ran against the source itself and cross over to the proxy when it dies, without a
// restart: they have one bootstrap name, which leads to the source first and to the proxy
// afterwards.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  type ConsumerKind,
  type ForeignConsumer,
  type RecordToSend,
  skipReason,
  startConsumer,
  startProducer,
} from '../helpers/foreign-clients.ts';
import { waitForSyncedOffsets } from '../helpers/group-commits.ts';
import { createTopic } from '../helpers/kafka-setup.ts';
import { type LinkedStage, linkName, startStage } from '../helpers/linked-stage.ts';
import { type LogRecord, readLog } from '../helpers/log-records.ts';
import { Relay } from '../helpers/relay.ts';

const topic = 'crossing';
const partitions = 2;
/** What every group has committed in both partitions when the source dies: all that is there. */
const committed = 20;
/**
 * franz-go never adopts another topic id and stays behind: see the README on clients that cross.
 */
const kinds: readonly ConsumerKind[] = [
  'java',
  'java-kip848',
  'librdkafka',
  'librdkafka-kip848',
  'kafkajs',
];
const consumers = new Map<ConsumerKind, ForeignConsumer>();
const skips = new Map<ConsumerKind, string | false>();

let stage: LinkedStage;
let bootstrapName: Relay;
let log: LogRecord[];

function records(label: string, count: number): RecordToSend[] {
  return Array.from({ length: count }, (_, index) => ({
    partition: index % partitions,
    value: `${label} ${index}`,
  }));
}

async function write(bootstrap: string, label: string): Promise<void> {
  const producer = await startProducer('kafkajs', { bootstrap, topic });
  await producer.sendAll(records(label, 40));
  await producer.stop();
}

before(async () => {
  for (const kind of kinds) skips.set(kind, await skipReason(kind));
  stage = await startStage({ linkConfigs: { 'consumer.offset.sync.enable': 'true' } });
  const { source, causeway } = stage;
  bootstrapName = await Relay.start({ target: source.bootstrap });
  await createTopic(source, { topic, partitions });
  await write(bootstrapName.address, 'source');
  await stage.mirror(topic);
  await stage.mirrored(topic);
  const present = kinds.filter((kind) => skips.get(kind) === false);
  await Promise.all(
    present.map(async (kind) => {
      const options = { bootstrap: bootstrapName.address, topic, group: `crossing-${kind}` };
      consumers.set(kind, await startConsumer(kind, { ...options, autoCommitMs: 200 }));
    }),
  );
  await Promise.all([...consumers.values()].map((consumer) => consumer.waitForCount(40)));
  // Their last commits have come over: nothing is read twice.
  const offsets = [committed, committed];
  const groups = present.map((kind) => ({ group: `crossing-${kind}`, topic, offsets }));
  await waitForSyncedOffsets(causeway, linkName, groups);
  await source.kill9();
  await causeway.cli('mirror', 'failover', topic, '--yes');
  bootstrapName.pointTo(causeway.bootstrap);
  await write(bootstrapName.address, 'destination');
  log = await readLog(causeway, { name: topic, partitions });
});

after(async () => {
  await Promise.all([...consumers.values()].map((consumer) => consumer.kill()));
  await bootstrapName.stop();
  await stage.stop();
});

/**
 * A group's members are unknown to the new coordinator: they join again and go on from the commit
 * that the link has carried over. What they read between the failover and that moment may come
 * again, as after any rebalance.
 */
function assertCrossed(consumer: ForeignConsumer): void {
  const seen = new Map<string, string | null>();
  for (const { partition, offset, value } of consumer.records) {
    const place = `${partition}/${offset}`;
    const isRepeated = seen.has(place);
    assert.ok(!isRepeated || offset >= committed, `${place} came again, below the commit`);
    if (isRepeated) assert.equal(value, seen.get(place), `${place} holds another record now`);
    seen.set(place, value);
  }
  const expected = log.map(({ partition, offset, value }) => [`${partition}/${offset}`, value]);
  assert.deepEqual([...seen].sort(), expected.sort());
}

test('R6: consumers of the dead source go on at the proxy from their commits, not restarted', async (t) => {
  assert.equal(log.length, 80);
  for (const kind of kinds) {
    await t.test(kind, { skip: skips.get(kind) ?? false }, async () => {
      const consumer = consumers.get(kind);
      assert.ok(consumer !== undefined, `no ${kind} consumer was started`);
      await consumer.waitFor(
        'the last records',
        (read) => new Set(read.map(({ value }) => value)).size === log.length,
        { deadlineMs: 60_000 },
      );
      assertCrossed(consumer);
    });
  }
});

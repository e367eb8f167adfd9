// `npm run demo -- --once`: a disaster from end to end, each claim checked. The clients are real
// ones and are not restarted, except producers (README, "Before you depend on it", says why).
import {
  type ConsumedRecord,
  type ConsumerKind,
  type ForeignConsumer,
  startConsumer,
  startProducer,
} from '../test/helpers/foreign-clients.ts';
import {
  firstDifference,
  listOffset,
  openCluster,
  readBatches,
} from '../test/helpers/raw-batches.ts';
import { assertEachOnceInOrder, byPartition } from '../test/helpers/record-checks.ts';
import { until } from '../test/helpers/wait.ts';
import { Checks, ensure } from './checks.ts';
import { LiveLoad } from './live-load.ts';
import { link, partitionsCount, type Scene, topic } from './scene.ts';

const partitions = Array.from({ length: partitionsCount }, (_, index) => index);

/** Ends of all partitions as the proxy tells them to any client. */
async function ends(bootstrap: string): Promise<number[]> {
  const client = openCluster({ bootstrap });
  try {
    const found: number[] = [];
    for (const partition of partitions) {
      found.push(Number(await listOffset(client, topic, partition, -1n)));
    }
    return found;
  } finally {
    await client.close();
  }
}

const sum = (values: readonly number[]): number =>
  values.reduce((total, value) => total + value, 0);

async function compareBatches(scene: Scene): Promise<string> {
  const source = openCluster(scene.source);
  const mirror = openCluster({ bootstrap: scene.causeway.bootstrap });
  try {
    let batches = 0;
    let bytes = 0;
    for (const partition of partitions) {
      const expected = await readBatches(source, topic, partition);
      const actual = await readBatches(mirror, topic, partition);
      const difference = firstDifference(expected, actual);
      ensure(difference === null, `partition ${partition}, ${difference}`);
      batches += expected.length;
      bytes += sum(expected.map((batch) => batch.bytes.length));
    }
    ensure(batches > 0, 'no batches at all');
    return `${batches} batches, ${bytes} bytes, SHA-256 of each equal`;
  } finally {
    await source.close();
    await mirror.close();
  }
}

/** Every offset from `from` up to `to` (exclusive) was delivered, in any number of copies. */
function ensureNoneMissing(
  records: readonly ConsumedRecord[],
  from: readonly number[],
  to: readonly number[],
): number {
  const groups = byPartition(records);
  let copies = 0;
  for (const partition of partitions) {
    const group = groups.get(`${topic}-${partition}`) ?? [];
    const seen = new Set(group.map((record) => record.offset));
    copies += group.length - seen.size;
    for (let offset = from[partition] ?? 0; offset < (to[partition] ?? 0); offset++) {
      ensure(seen.has(offset), `partition ${partition}: offset ${offset} was never delivered`);
    }
  }
  return copies;
}

const reached =
  (to: readonly number[]) =>
  (records: readonly ConsumedRecord[]): boolean => {
    const last = new Map<number, number>();
    for (const { partition, offset } of records) {
      last.set(partition, Math.max(last.get(partition) ?? -1, offset));
    }
    return to.every((end, partition) => (last.get(partition) ?? -1) >= end - 1);
  };

interface Cast {
  readonly load: LiveLoad;
  /** Reads the mirror through the proxy from before the disaster. */
  readonly reader: ForeignConsumer;
  /** Run against the source, by the bootstrap name. */
  readonly crossing: readonly ForeignConsumer[];
  /** What the group `billing` committed at the source, by partition. */
  readonly committed: readonly number[];
}

/**
 * Before: writers and readers on the source, a reader on the mirror, one group that commits and
 * stops.
 */
async function before(scene: Scene, checks: Checks, kinds: readonly ConsumerKind[]): Promise<Cast> {
  const bootstrap = scene.bootstrapName.address;
  const producer = scene.own(await startProducer('java', { bootstrap, topic, isIdempotent: true }));
  const load = new LiveLoad(producer, 'before');
  await load.send(600);
  const [reader, billing, ...crossing] = await Promise.all([
    startConsumer('java', {
      bootstrap: scene.causeway.bootstrap,
      topic,
      group: 'reader',
      reset: 'earliest',
    }),
    startConsumer('java', { bootstrap, topic, group: 'billing', reset: 'earliest' }),
    ...kinds.map((kind) =>
      startConsumer(kind, {
        bootstrap,
        topic,
        group: `crossing-${kind}`,
        reset: 'earliest',
        autoCommitMs: 500,
      }),
    ),
  ]);
  for (const consumer of [reader, billing, ...crossing]) if (consumer) scene.own(consumer);
  ensure(reader !== undefined && billing !== undefined, 'the consumers started');
  await billing.waitForCount(600);
  const positions = await billing.commit();
  await billing.stop();
  const committed = partitions.map((partition) => positions[`${topic}-${partition}`] ?? 0);
  await load.send(600);
  for (const consumer of [reader, ...crossing]) await consumer.waitForCount(1200);
  await checks.check('every batch of the mirror equals the source, byte for byte', () =>
    compareBatches(scene),
  );
  await checks.check("the group's commit on the source is at the destination", async () => {
    await until('the synced commit', async () => {
      const text = await scene.causeway.cli('group', 'list', '--link', link, '-o', 'json');
      return partitions.every((partition) => isSynced(text, partition, committed[partition] ?? 0));
    });
    return `billing at ${committed.join(', ')}`;
  });
  return { load, reader, crossing, committed };
}

interface GroupRow {
  readonly group: string;
  readonly partition: number;
  readonly destinationOffset: number;
}

function isSynced(text: string, partition: number, offset: number): boolean {
  const rows = JSON.parse(text) as readonly GroupRow[];
  return rows.some(
    (row) =>
      row.group === 'billing' &&
      row.partition === partition &&
      Number(row.destinationOffset) === offset,
  );
}

interface Receipt {
  readonly id: string;
  readonly topics: readonly {
    readonly partitions: readonly { readonly virtualEnd: number | string }[];
  }[];
}

/**
 * The disaster: the source is killed under load, the mirror failed over. Returns S by partition.
 */
async function disaster(scene: Scene, checks: Checks, cast: Cast): Promise<number[]> {
  cast.load.start();
  await until('live writes', () => cast.load.acknowledged.length >= 2000);
  process.stdout.write('\nkill -9 of the source, with writers and readers on it\n');
  await scene.source.kill9();
  await cast.load.kill();
  let receipt: Receipt | null = null;
  await checks.check('failover with a dead source', async () => {
    const answer = await scene.causeway.cliJson<{ receipt: Receipt }>(
      ...['mirror', 'failover', topic],
    );
    receipt = answer.receipt;
    return `all ${partitionsCount} partitions in one call, receipt ${receipt.id}`;
  });
  scene.bootstrapName.pointTo(scene.causeway.bootstrap);
  const mirrored = await ends(scene.causeway.bootstrap);
  await checks.check("the receipt's ends are those that clients see", async () => {
    ensure(receipt !== null, 'there is no receipt');
    const said = receipt.topics.flatMap((one) =>
      one.partitions.map((partition) => Number(partition.virtualEnd)),
    );
    ensure(said.join() === mirrored.join(), `receipt ${said}, clients see ${mirrored}`);
    process.stdout.write(`\n${await scene.causeway.cli('receipt', 'show', receipt.id)}\n`);
    const { acknowledged } = cast.load;
    const lost = acknowledged.filter((one) => one.offset >= (mirrored[one.partition] ?? 0));
    return `${lost.length} of ${acknowledged.length} records acknowledged by the source are lost`;
  });
  return mirrored;
}

async function after(
  scene: Scene,
  checks: Checks,
  cast: Cast,
  mirrored: readonly number[],
): Promise<void> {
  const { bootstrap } = scene.causeway;
  const producer = scene.own(
    await startProducer('java', {
      bootstrap: scene.bootstrapName.address,
      topic,
      isIdempotent: true,
    }),
  );
  const load = new LiveLoad(producer, 'after');
  const begun = performance.now();
  const crossings = cast.crossing.map((consumer) => ({
    consumer,
    seconds: consumer
      .waitFor('a record written after the failover', (records) =>
        (records.at(-1)?.value ?? '').startsWith('after'),
      )
      .then(() => (performance.now() - begun) / 1000),
  }));
  await checks.check("writes go on at the mirror's end, offset for offset", async () => {
    await load.send(600);
    const first = partitions.map((partition) =>
      Math.min(
        ...load.acknowledged.filter((one) => one.partition === partition).map((one) => one.offset),
      ),
    );
    ensure(first.join() === mirrored.join(), `first offsets ${first}, ends ${mirrored}`);
    return `first new offsets ${first.join(', ')}`;
  });
  const total = await ends(bootstrap);
  await checks.check('the group goes on with its next record (reset = none)', async () => {
    const billing = scene.own(
      await startConsumer('java', { bootstrap, topic, group: 'billing', reset: 'none' }),
    );
    await billing.waitFor('everything after the commit', reached(total));
    await billing.stop();
    const expected = sum(total) - sum(cast.committed);
    const copies = ensureNoneMissing(billing.records, cast.committed, total);
    ensure(copies === 0, `${copies} records came twice`);
    ensure(billing.records.length === expected, `${billing.records.length} of ${expected} records`);
    return `${expected} records, from ${cast.committed.join(', ')}`;
  });
  await checks.check('a consumer on the proxy reads on without a restart, each once', async () => {
    await cast.reader.waitFor('the new records', reached(total));
    assertEachOnceInOrder(cast.reader.records);
    ensureNoneMissing(
      cast.reader.records,
      partitions.map(() => 0),
      total,
    );
    return `${cast.reader.records.length} records in order`;
  });
  for (const { consumer, seconds } of crossings) {
    await checks.check(`${consumer.kind} consumer of the dead source crosses over by itself`, () =>
      crossed(consumer, total, seconds),
    );
  }
  await Promise.all([producer, cast.reader, ...cast.crossing].map((client) => client.stop()));
}

async function crossed(
  consumer: ForeignConsumer,
  total: readonly number[],
  seconds: Promise<number>,
): Promise<string> {
  const first = `first new record after ${(await seconds).toFixed(1)} s`;
  await consumer.waitFor('the new records', reached(total), { deadlineMs: 60_000 });
  const copies = ensureNoneMissing(
    consumer.records,
    partitions.map(() => 0),
    total,
  );
  const all = `${consumer.records.length} records, none missing, ${copies} read again`;
  return `${first}; ${all} (since the last synced commit)`;
}

/** Plays everything; true only if every check held. */
export async function playOnce(scene: Scene, withoutLibrdkafka: string | null): Promise<boolean> {
  const checks = new Checks();
  const kinds: ConsumerKind[] = withoutLibrdkafka === null ? ['java', 'librdkafka'] : ['java'];
  if (withoutLibrdkafka !== null) checks.skip('librdkafka consumer crosses', withoutLibrdkafka);
  try {
    const cast = await before(scene, checks, kinds);
    const mirrored = await disaster(scene, checks, cast);
    await after(scene, checks, cast, mirrored);
  } catch (error) {
    await checks.check('the story could be told to its end', () => {
      throw error;
    });
  }
  checks.print();
  return !checks.hasFailed;
}

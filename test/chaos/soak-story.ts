// The soak: 24 partitions of mixed topics, written to at full speed while the proxy is killed
// with -9, leaders move and a broker of the source comes and goes; after each round the copy is
// compared with the source, batch by batch.
//
// Owns: the topics, the rounds, the faults and the comparison. Knows the product from outside
// only. Invariant: every random choice comes from the seed, and every failure names it; what was
// compared is deleted at the source, so that a soak of any length needs bounded space.

import assert from 'node:assert/strict';
import { readBatchHeader } from '../../protocol/index.ts';
import { openRecords } from '../../protocol/records.ts';
import { type LinkedStage, offsets } from '../helpers/linked-stage.ts';
import { mirrorView } from '../helpers/mirror-commands.ts';
import { firstDifference, type RawBatch, readBatches } from '../helpers/raw-batches.ts';
import type { SeededRandom } from '../helpers/seeded-random.ts';
import { createTopic, deleteRecords } from '../helpers/topic-admin.ts';
import { until } from '../helpers/wait.ts';
import { SoakWriters } from './soak-writers.ts';

interface SoakTopic {
  readonly name: string;
  readonly partitions: number;
  readonly configs: Readonly<Record<string, string>>;
}

const compacted = 'soak-compacted';
/** 24 partitions. */
export const soakTopics: readonly SoakTopic[] = [
  { name: 'soak-plain', partitions: 8, configs: {} },
  { name: 'soak-codecs', partitions: 5, configs: {} },
  { name: 'soak-transactional', partitions: 4, configs: {} },
  { name: 'soak-large', partitions: 3, configs: { 'max.message.bytes': '4194304' } },
  {
    name: compacted,
    partitions: 4,
    configs: {
      'cleanup.policy': 'compact',
      'segment.ms': '1000',
      'min.cleanable.dirty.ratio': '0.1',
    },
  },
];

/** Settings of the source's brokers: leaders go back to where they were by themselves. */
export const soakSource = {
  brokers: 2,
  heapMb: 512,
  settings: {
    'replica.lag.time.max.ms': '5000',
    'leader.imbalance.check.interval.seconds': '5',
    'message.max.bytes': '4194304',
    'replica.fetch.max.bytes': '4194304',
  },
} as const;

export interface SoakRound {
  readonly kills: number;
  readonly restartsBroker: boolean;
}

export interface SoakCount {
  batches: number;
  bytes: number;
  kills: number;
  brokerRestarts: number;
}

const patient = { deadlineMs: 120_000 };

export class SoakStory {
  readonly count: SoakCount = { batches: 0, bytes: 0, kills: 0, brokerRestarts: 0 };
  readonly #stage: LinkedStage;
  readonly #random: SeededRandom;
  readonly #writers: SoakWriters;
  /** How far each partition was compared, by `topic-partition`. */
  readonly #compared = new Map<string, bigint>();

  constructor(stage: LinkedStage, random: SeededRandom) {
    this.#stage = stage;
    this.#random = random;
    this.#writers = new SoakWriters(stage, random);
  }

  async begin(): Promise<void> {
    for (const { name, partitions, configs } of soakTopics) {
      await createTopic(this.#stage.atSource, name, { partitions, replication: 2, configs });
      await this.#stage.mirror(name);
    }
    await this.#writers.begin(soakTopics);
  }

  end(): Promise<void> {
    return this.#writers.end();
  }

  /** Writes under faults, then compares what there is. */
  async round({ kills, restartsBroker }: SoakRound): Promise<void> {
    this.#writers.start();
    try {
      const broker = restartsBroker ? this.#restartBroker() : Promise.resolve();
      for (let kill = 0; kill < kills; kill++) await this.#killProxy();
      await broker;
    } finally {
      await this.#writers.stop();
    }
    for (const topic of soakTopics) await this.#compare(topic);
  }

  async #killProxy(): Promise<void> {
    const { causeway } = this.#stage;
    await this.#writers.written(1 + this.#random.below(60));
    await causeway.kill9();
    await causeway.start();
    this.count.kills++;
  }

  /** Every leader is on one broker meanwhile; what comes back follows it first. */
  async #restartBroker(): Promise<void> {
    const { source } = this.#stage;
    if (this.#random.below(2) === 0) await source.kill9(2);
    else await source.stopBroker(2);
    await this.#writers.written(20);
    await source.restartBroker(2);
    this.count.brokerRestarts++;
  }

  async #caughtUp(topic: string): Promise<void> {
    const { atSource, causeway } = this.#stage;
    let seen = '';
    await until(
      `the mirror of ${topic} complete`,
      async () => {
        const ends = await offsets(atSource, topic, -1n);
        const { state, error, partitions } = await mirrorView(causeway, topic);
        const reached = partitions.map(({ mirrorEnd }) => BigInt(mirrorEnd));
        seen = `${state} ${JSON.stringify(error)}: ${reached} of ${ends}`;
        return state === 'ACTIVE' && reached.join() === ends.join();
      },
      { ...patient, describe: () => `${seen}; ${this.#random.describe()}` },
    );
  }

  async #compare({ name, partitions }: SoakTopic): Promise<void> {
    await this.#caughtUp(name);
    for (let partition = 0; partition < partitions; partition++) {
      const key = `${name}-${partition}`;
      const from = this.#compared.get(key) ?? 0n;
      const expected = await this.#read('atSource', { name, partition, from });
      const actual = await this.#read('atProxy', { name, partition, from });
      if (name === compacted) await this.#assertSameKeys(key, expected, actual);
      else this.#assertSame(key, expected, actual);
      this.count.batches += actual.length;
      for (const { bytes } of actual) this.count.bytes += bytes.length;
      const end = expected.at(-1)?.nextOffset;
      if (end === undefined || name === compacted) continue;
      this.#compared.set(key, end);
      await until(
        `a higher start of ${key}`,
        async () => {
          await deleteRecords(this.#stage.atSource, name, partition, end);
          return true;
        },
        patient,
      );
    }
  }

  #read(
    where: 'atSource' | 'atProxy',
    at: { name: string; partition: number; from: bigint },
  ): Promise<RawBatch[]> {
    const from = at.name === compacted ? undefined : at.from;
    return until(
      `a reading of ${at.name}-${at.partition} ${where}`,
      () => readBatches(this.#stage[where], at.name, at.partition, from),
      patient,
    );
  }

  #assertSame(what: string, expected: readonly RawBatch[], actual: readonly RawBatch[]): void {
    const difference = firstDifference(expected, actual);
    assert.equal(difference, null, `${what}: ${difference}; ${this.#random.describe()}`);
  }

  /**
   * What the source's cleaner has not changed is the same in the copy, which has every batch that
   * the source has; the last value of each key is the same whatever was cleaned.
   */
  async #assertSameKeys(
    what: string,
    expected: readonly RawBatch[],
    actual: readonly RawBatch[],
  ): Promise<void> {
    const copies = new Map(actual.map((batch) => [batch.baseOffset, batch]));
    for (const { baseOffset, bytes } of expected) {
      const { recordsCount } = readBatchHeader(bytes, 0);
      const copy = copies.get(baseOffset);
      if (recordsCount === 0 && copy === undefined) continue;
      const where = `${what} at ${baseOffset}; ${this.#random.describe()}`;
      assert.ok(copy !== undefined, `${where}: missing in the copy`);
      const isCleaned = readBatchHeader(copy.bytes, 0).recordsCount !== recordsCount;
      assert.ok(isCleaned || copy.bytes.equals(bytes), `${where}: differs`);
    }
    assert.deepEqual(await lastValues(actual), await lastValues(expected), what);
  }
}

async function lastValues(batches: readonly RawBatch[]): Promise<Map<string, string>> {
  const values = new Map<string, string>();
  for (const { bytes } of batches) {
    for (const { key, value } of await openRecords(bytes)) {
      const name = String(key);
      if (value === null) values.delete(name);
      else values.set(name, value.toString('base64'));
    }
  }
  return new Map([...values].sort(([left], [right]) => left.localeCompare(right)));
}

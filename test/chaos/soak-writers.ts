// The writers of the soak: what is written to the source, at full speed, while everything around
// it is killed and moved.
//
// Owns: one loop per kind of writer and the Java producers. Refuses to know copies and checks.
// Invariant: a write that failed is followed by another one and never claimed: what is in the log
// the source alone says. All loops have ended when `stop` resolves.

import assert from 'node:assert/strict';
import { buildBatch } from '../../protocol/index.ts';
import { ClusterError } from '../../src/cluster/cluster.ts';
import { type ForeignProducer, startProducer } from '../helpers/foreign-clients.ts';
import type { LinkedStage } from '../helpers/linked-stage.ts';
import { produceBatch } from '../helpers/own-producer.ts';
import {
  endTransaction,
  newProducer,
  type Producer,
  startTransaction,
  tryWrite,
  values,
} from '../helpers/raw-writes.ts';
import type { SeededRandom } from '../helpers/seeded-random.ts';
import { until } from '../helpers/wait.ts';

interface Written {
  readonly name: string;
  readonly partitions: number;
}

const codecs = ['none', 'gzip', 'snappy', 'lz4', 'zstd'] as const;
const largeBytes = 3 << 20;
/** Large records come one after so many rounds of the others: they would fill the disk. */
const largeEvery = 12;
/** After a write that failed; a broker that is being restarted refuses at once. */
const pauseMs = 50;

export class SoakWriters {
  readonly #stage: LinkedStage;
  readonly #random: SeededRandom;
  readonly #producers: ForeignProducer[] = [];
  #topics: readonly Written[] = [];
  #loops: Promise<void>[] = [];
  #isStopping = false;
  #writes = 0;
  #failures = 0;
  #lastFailure = 'none';

  constructor(stage: LinkedStage, random: SeededRandom) {
    this.#stage = stage;
    this.#random = random;
  }

  async begin(topics: readonly Written[]): Promise<void> {
    this.#topics = topics;
    const { bootstrap } = this.#stage.source;
    for (const compression of codecs) {
      const options = { bootstrap, topic: 'soak-codecs', compression, lingerMs: 10 };
      this.#producers.push(await startProducer('java', { ...options, isIdempotent: true }));
    }
  }

  async end(): Promise<void> {
    await this.stop();
    await Promise.all(this.#producers.map((producer) => producer.kill()));
  }

  start(): void {
    this.#isStopping = false;
    const loops: (() => Promise<void>)[] = [
      () => this.#plain(),
      () => this.#large(),
      () => this.#compacted(),
      () => this.#transactions(),
    ];
    for (const [partition, producer] of this.#producers.entries()) {
      loops.push(() => this.#codec(producer, partition));
    }
    this.#loops = loops.map((write) => this.#loop(write));
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    const loops = this.#loops;
    this.#loops = [];
    await Promise.all(loops);
  }

  /** Resolves when so many more writes of any kind were acknowledged. */
  async written(count: number): Promise<void> {
    const wanted = this.#writes + count;
    await until(`${count} writes`, () => this.#writes >= wanted || this.#isStopping, {
      deadlineMs: 120_000,
      describe: () =>
        `${this.#failures} failed, the last: ${this.#lastFailure}; ${this.#random.describe()}`,
    });
  }

  async #loop(write: () => Promise<void>): Promise<void> {
    while (!this.#isStopping) {
      try {
        await write();
        this.#writes++;
      } catch (error) {
        // A broker that is going, gone or coming; anything else shows as no progress.
        if (!(error instanceof Error)) throw error;
        this.#failures++;
        this.#lastFailure = error.message;
        await new Promise((resolve) => setTimeout(resolve, pauseMs));
      }
    }
  }

  #partition(topic: string): number {
    const found = this.#topics.find(({ name }) => name === topic);
    assert.ok(found);
    return this.#random.below(found.partitions);
  }

  async #write(topic: string, partition: number, texts: readonly string[]): Promise<void> {
    const { errorCode } = await tryWrite(this.#stage.atSource, topic, partition, texts);
    if (errorCode !== 0) throw new Error(`Produce to ${topic}: error ${errorCode}`);
  }

  /** Tiny batches and batches of about 200 KiB. */
  async #plain(): Promise<void> {
    const topic = 'soak-plain';
    const isTiny = this.#random.below(3) > 0;
    const texts = isTiny ? values('tiny', 1) : values('plain', 200, 1_000);
    await this.#write(topic, this.#partition(topic), texts);
  }

  async #large(): Promise<void> {
    const wanted = this.#writes + largeEvery;
    await until('the turn of a large record', () => this.#writes >= wanted || this.#isStopping, {
      deadlineMs: 120_000,
    });
    const topic = 'soak-large';
    await this.#write(topic, this.#partition(topic), values('large', 1, largeBytes));
  }

  /** The same few keys again and again, and now and then one is deleted. */
  async #compacted(): Promise<void> {
    const topic = 'soak-compacted';
    const records = Array.from({ length: 20 }, () => ({
      key: Buffer.from(`key-${this.#random.below(50)}`),
      value: this.#random.below(8) === 0 ? null : Buffer.from(`${this.#random.next()}`.repeat(5)),
      timestamp: BigInt(Date.now()),
    }));
    const target = { topic, partition: this.#partition(topic) };
    await produceBatch(this.#stage.atSource, target, buildBatch({ baseOffset: 0n, records }));
  }

  async #transactions(): Promise<void> {
    const topic = 'soak-transactional';
    const { atSource } = this.#stage;
    // A new epoch each time ends what a fault has left open.
    const producer: Producer = await newProducer(atSource, 'soak-transactional');
    const partitions = [0, 1, 2, 3];
    const first = this.#random.below(3);
    await startTransaction(atSource, producer, topic, partitions);
    for (let batch = 0; batch < 2; batch++) {
      for (const partition of partitions.slice(first)) {
        const texts = values('transaction', 5, 100);
        const writing = { producer, sequence: batch * texts.length };
        const { errorCode } = await tryWrite(atSource, topic, partition, texts, writing);
        if (errorCode !== 0)
          throw new ClusterError('UNREACHABLE', `error ${errorCode}`, {
            maybeSent: true,
          });
      }
    }
    await endTransaction(atSource, producer, this.#random.pick(['commit', 'abort'] as const));
  }

  async #codec(producer: ForeignProducer, partition: number): Promise<void> {
    const texts = values(`codec ${partition}`, 100, 300);
    await producer.sendAll(texts.map((value, index) => ({ partition, key: `${index}`, value })));
  }
}

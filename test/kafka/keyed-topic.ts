// A compacted topic of the source that is overwritten at random, and what a copy of it must hold.
//
// Owns: the truth about each key at each offset, and the comparison of a copy with it. Knows
// nothing of mirrors' states. Invariant: a copy up to offset S is right when each key has in it the
// last value that was written below S, and keys whose last write was a tombstone have none.

import assert from 'node:assert/strict';
import { buildBatch, forEachBatch } from '../../protocol/index.ts';
import { openRecords } from '../../protocol/records.ts';
import type { Cluster } from '../../src/cluster/cluster.ts';
import type { MirrorLog } from '../../storage/mirror-log.ts';
import { produceBatch } from '../helpers/own-producer.ts';
import { readBatches } from '../helpers/raw-batches.ts';
import type { SeededRandom } from '../helpers/seeded-random.ts';
import { createTopic } from '../helpers/topic-admin.ts';

const recordsPerBatch = 20;

/** Makes the broker clean a topic as often as it can. */
export const cleanedOften: Readonly<Record<string, string>> = {
  'cleanup.policy': 'compact',
  'segment.bytes': '1048576',
  'segment.ms': '300',
  'min.cleanable.dirty.ratio': '0.01',
  'max.compaction.lag.ms': '300',
  'delete.retention.ms': '300',
};

interface Write {
  readonly key: string;
  readonly value: string | null;
}

export class KeyedTopic {
  readonly name: string;
  readonly #cluster: Cluster;
  readonly #random: SeededRandom;
  readonly #keys: number;
  /** By offset. */
  readonly #writes: Write[] = [];

  constructor(parts: { cluster: Cluster; name: string; random: SeededRandom; keys: number }) {
    this.name = parts.name;
    this.#cluster = parts.cluster;
    this.#random = parts.random;
    this.#keys = parts.keys;
  }

  create(): Promise<void> {
    return createTopic(this.#cluster, this.name, { configs: { ...cleanedOften } });
  }

  get end(): bigint {
    return BigInt(this.#writes.length);
  }

  /** So many batches of overwrites, every tenth record a tombstone. */
  async overwrite(batches: number): Promise<void> {
    for (let count = 0; count < batches; count++) {
      await this.#put(Array.from({ length: recordsPerBatch }, () => this.#write()));
    }
  }

  /** A tombstone for each key. */
  async deleteAll(): Promise<void> {
    await this.#put(Array.from({ length: this.#keys }, (_, key) => tombstone(key)));
  }

  /** Base offset of the first batch that the source still has. */
  async firstOffset(): Promise<bigint> {
    const [first] = await readBatches(this.#cluster, this.name, 0);
    return first?.baseOffset ?? -1n;
  }

  async #put(writes: readonly Write[]): Promise<void> {
    const batch = buildBatch({
      baseOffset: 0n,
      records: writes.map(({ key, value }) => ({
        key: Buffer.from(key),
        value: value === null ? null : Buffer.from(value),
        timestamp: BigInt(Date.now()),
      })),
    });
    const base = await produceBatch(this.#cluster, { topic: this.name }, batch);
    assert.equal(base, this.end, 'nobody else writes here');
    this.#writes.push(...writes);
  }

  #write(): Write {
    const index = this.#random.below(this.#keys);
    if (this.#random.below(10) === 0) return tombstone(index);
    return {
      key: keyOf(index),
      value: `${this.#writes.length}:${this.#random.below(1e9)}`.padEnd(400, '.'),
    };
  }

  /** Every live key is found in the copy, with its last value, and no deleted one. */
  async check(log: MirrorLog, end: bigint): Promise<void> {
    const expected = lastValues(this.#writes.slice(0, Number(end)));
    const found = lastValues(await readWrites(log, end));
    for (const [key, value] of expected) {
      assert.equal(found.get(key), value, `${key} below offset ${end} of ${this.name}`);
    }
    for (const key of found.keys()) {
      assert.ok(expected.has(key), `${key} was deleted below offset ${end} of ${this.name}`);
    }
  }
}

function keyOf(index: number): string {
  return `key-${index}`;
}

function tombstone(index: number): Write {
  return { key: keyOf(index), value: null };
}

function lastValues(writes: readonly Write[]): Map<string, string> {
  const values = new Map<string, string>();
  for (const { key, value } of writes) {
    if (value === null) values.delete(key);
    else values.set(key, value);
  }
  return values;
}

async function readWrites(log: MirrorLog, end: bigint): Promise<Write[]> {
  const writes: Write[] = [];
  let offset = log.logStart;
  while (offset < end) {
    const read = await log.read(offset, { bytesMax: 1 << 20, atLeastOneBatch: true });
    if (read.bytes === 0) break;
    for (const chunk of read.chunks) {
      const positions: number[] = [];
      forEachBatch(chunk, (_, position) => positions.push(position));
      for (const position of positions) {
        for (const { key, value } of await openRecords(chunk.subarray(position))) {
          writes.push({ key: String(key), value: value?.toString() ?? null });
        }
      }
    }
    offset = read.nextOffset;
  }
  return writes;
}

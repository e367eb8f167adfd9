// A writer and a reader of our own that go on through whatever happens to the proxy, and record it
// for the checker of histories.
//
// Owns: an idempotent producer that repeats a batch until it has an answer to it, and a reader that
// follows every partition from its start. Knows nothing of kills and commands. Invariant: a value
// is sent under one sequence number only; a record counts as read once it was opened.

import { isControl, nextOffset, readBatchHeader } from '../../protocol/index.ts';
import { openRecords } from '../../protocol/records.ts';
import { type Cluster, ClusterError } from '../../src/cluster/cluster.ts';
import type { Session, Write } from '../helpers/history.ts';
import { fetchAt } from '../helpers/raw-reads.ts';
import { newProducer, type Producer, tryWrite, type Written } from '../helpers/raw-writes.ts';
import { until } from '../helpers/wait.ts';

const noError = 0;
const policyViolation = 44;
/** Known to the broker, but so old that it has forgotten the offset. */
const duplicateSequence = 46;
const pauseMs = 5;

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, pauseMs));
}

export interface WriterPlace {
  readonly cluster: Cluster;
  readonly topic: string;
  readonly partitionsCount: number;
  readonly side: Write['side'];
}

export class RawWriter {
  readonly writes: Write[] = [];
  readonly #place: WriterPlace;
  readonly #sequences = new Map<number, number>();
  #isStopping = false;
  #done: Promise<void> = Promise.resolve();

  constructor(place: WriterPlace) {
    this.#place = place;
  }

  get acknowledgedCount(): number {
    return this.writes.filter(({ outcome }) => outcome === 'acknowledged').length;
  }

  start(): void {
    this.#done = this.#run();
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#done;
  }

  async #run(): Promise<void> {
    const { topic, side, partitionsCount } = this.#place;
    let producer: Producer | null = null;
    for (let count = 0; !this.#isStopping; count++) {
      producer ??= await this.#newProducer();
      if (producer === null) return;
      const partition = count % partitionsCount;
      const value = `${topic} ${side} ${count}`;
      const { outcome, offset } = await this.#write(producer, partition, value);
      this.writes.push({
        writer: `raw ${side} producer`,
        kind: 'idempotent',
        side,
        partition,
        value,
        outcome,
        offset,
        transaction: null,
      });
      // Nobody knows whether the sequence number was used up.
      if (outcome === 'unknown') {
        producer = null;
        this.#sequences.clear();
      }
      await pause();
    }
  }

  async #newProducer(): Promise<Producer | null> {
    while (!this.#isStopping) {
      try {
        return await newProducer(this.#place.cluster);
      } catch (error) {
        if (!(error instanceof Error)) throw error;
        await pause();
      }
    }
    return null;
  }

  async #write(
    producer: Producer,
    partition: number,
    value: string,
  ): Promise<Pick<Write, 'outcome' | 'offset'>> {
    const sequence = this.#sequences.get(partition) ?? 0;
    let wasLost = false;
    while (!this.#isStopping) {
      const answer = await this.#try(producer, partition, value, sequence);
      if (answer === 'lost') wasLost = true;
      else if (answer.errorCode === noError || answer.errorCode === duplicateSequence) {
        this.#sequences.set(partition, sequence + 1);
        const offset = answer.errorCode === noError ? Number(answer.baseOffset) : null;
        return { outcome: 'acknowledged', offset };
      } else if (answer.errorCode === policyViolation && !wasLost) {
        return { outcome: 'refused', offset: null };
      } else if (answer.errorCode === policyViolation) break;
      await pause();
    }
    return { outcome: 'unknown', offset: null };
  }

  async #try(
    producer: Producer,
    partition: number,
    value: string,
    sequence: number,
  ): Promise<Written | 'lost'> {
    const { cluster, topic } = this.#place;
    try {
      return await tryWrite(cluster, topic, partition, [value], { producer, sequence });
    } catch (error) {
      if (error instanceof ClusterError) return 'lost';
      throw error;
    }
  }
}

/** Follows one partition, from 0 on. */
class PartitionReader {
  readonly reads: { offset: number; value: string | null }[] = [];
  readonly #fetch: (offset: bigint) => ReturnType<typeof fetchAt>;
  #next = 0n;
  #lastError = 'none';

  constructor(fetch: (offset: bigint) => ReturnType<typeof fetchAt>) {
    this.#fetch = fetch;
  }

  get next(): bigint {
    return this.#next;
  }

  get lastError(): string {
    return this.#lastError;
  }

  /** One step on, if there is one. */
  async step(): Promise<void> {
    try {
      const { errorCode, first } = await this.#fetch(this.#next);
      if (errorCode !== noError) this.#lastError = `error ${errorCode} at ${this.#next}`;
      if (first === null) return await pause();
      const header = readBatchHeader(first, 0);
      const records = isControl(header) ? [] : await openRecords(first);
      for (const { offset, value } of records) {
        if (offset < this.#next) continue;
        this.reads.push({ offset: Number(offset), value: value?.toString() ?? null });
      }
      this.#next = nextOffset(header);
    } catch (error) {
      this.#lastError = error instanceof Error ? error.message : String(error);
      await pause();
    }
  }
}

export class RawReader {
  readonly #partitions: readonly PartitionReader[];
  #isStopping = false;
  #done: Promise<unknown> = Promise.resolve();

  constructor(cluster: Cluster, topic: string, partitionsCount: number) {
    this.#partitions = Array.from(
      { length: partitionsCount },
      (_, partition) => new PartitionReader((offset) => fetchAt(cluster, topic, partition, offset)),
    );
  }

  start(): void {
    const follow = async (reader: PartitionReader): Promise<void> => {
      while (!this.#isStopping) await reader.step();
    };
    this.#done = Promise.all(this.#partitions.map(follow));
  }

  /** Waits until it has read up to these ends, then stops. */
  async finish(ends: readonly bigint[]): Promise<Session[]> {
    const seen = (): string =>
      this.#partitions.map(({ next, lastError }) => `${next} (last error: ${lastError})`).join();
    await until(
      `the reader at ${ends.join()}`,
      () => this.#partitions.every(({ next }, partition) => next >= (ends[partition] ?? 0n)),
      { describe: seen },
    );
    await this.stop();
    return this.#partitions.map(({ reads }, partition) => ({
      reader: 'raw reader',
      isolation: 'read_uncommitted',
      partition,
      committed: 0,
      furthest: 0,
      isLast: true,
      reads,
    }));
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#done;
  }
}

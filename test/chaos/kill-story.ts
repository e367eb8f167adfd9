// kill -9 of the proxy at random moments, and what must hold after each (R11). Used by the short
// test of every change and by the long one.
//
// Owns: the rounds (one topic each: created, mirrored under load, switched, written to), the
// moments and the checks. Knows the product from outside only. Invariant: every random choice comes
// from the seed, and every failure names it; timing is the machine's own.

import assert from 'node:assert/strict';
import { readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { isControl, readBatchHeader, readControlType } from '../../protocol/index.ts';
import { ClusterError } from '../../src/cluster/cluster.ts';
import { compareTopic, type LinkedStage, offsets } from '../helpers/linked-stage.ts';
import { command, mirrorView, receiptsOf, type Switched } from '../helpers/mirror-commands.ts';
import { fetchAt } from '../helpers/raw-reads.ts';
import { newProducer, startTransaction, tryWrite, values, write } from '../helpers/raw-writes.ts';
import type { SeededRandom } from '../helpers/seeded-random.ts';
import { createTopic } from '../helpers/topic-admin.ts';
import { until } from '../helpers/wait.ts';

/**
 * `aborting`: as soon as ABORT batches are in the mirror logs, most likely before the switch is
 * committed.
 */
export type Moment = 'creating' | 'mirroring' | 'switching' | 'aborting' | 'writing';
export type Verb = 'promote' | 'failover';

const partitionsCount = 3;
const slow = { deadlineMs: 60_000 };

interface Acknowledged {
  readonly partition: number;
  readonly offset: bigint;
  readonly bytes: string;
}

/**
 * Writes on until stopped; remembers what was acknowledged. Refusals and lost answers are tried
 * again.
 */
class Load {
  readonly acknowledged: Acknowledged[] = [];
  #isStopping = false;
  readonly #done: Promise<void>;

  constructor(
    writeOne: (partition: number, text: string) => Promise<bigint | null>,
    label: string,
  ) {
    this.#done = this.#run(writeOne, label);
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#done;
  }

  async #run(
    writeOne: (partition: number, text: string) => Promise<bigint | null>,
    label: string,
  ): Promise<void> {
    for (let count = 0; !this.#isStopping; count++) {
      const partition = count % partitionsCount;
      const text = `${label} ${count}`;
      try {
        const offset = await writeOne(partition, text);
        if (offset !== null) this.acknowledged.push({ partition, offset, bytes: text });
      } catch (error) {
        if (!(error instanceof ClusterError)) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }
}

export class KillStory {
  readonly #stage: LinkedStage;
  readonly #random: SeededRandom;
  readonly #switched = new Map<string, readonly Switched[]>();
  killsCount = 0;
  /** Failovers that a kill between ABORT batches and the switch has undone. */
  undoneCount = 0;
  #roundsCount = 0;

  constructor(stage: LinkedStage, random: SeededRandom) {
    this.#stage = stage;
    this.#random = random;
  }

  /**
   * One topic through its whole life, killed once at each of the moments given. A failover meets a
   * transaction left open in every partition, so that ABORT batches are appended before the switch
   * is committed.
   */
  async round(verb: Verb, moments: readonly Moment[]): Promise<void> {
    const topic = `chaos-${++this.#roundsCount}`;
    await createTopic(this.#stage.atSource, topic, { partitions: partitionsCount });
    if (verb === 'failover') await this.#leaveTransactionOpen(topic);
    const load = this.#sourceLoad(topic);
    try {
      await this.#create(topic, moments.includes('creating'));
      if (moments.includes('mirroring')) await this.#killDuring(1_500);
      await this.#stage.caughtUp(topic);
      // A promotion needs writers that have stopped; a failover does not wait for them.
      if (verb === 'promote') await load.stop();
      if (verb === 'failover' && moments.includes('aborting')) {
        await load.stop();
        await this.#stage.caughtUp(topic);
        await this.#killAtAborts(topic);
      }
      await this.#switch(topic, verb, moments.includes('switching'));
    } finally {
      await load.stop();
    }
    await this.#checkCopy(topic, verb, load.acknowledged);
    if (verb === 'failover') await this.#checkAborted(topic);
    await this.#writeOn(topic, moments.includes('writing'));
    await this.#checkSwitchedOnce();
  }

  async #leaveTransactionOpen(topic: string): Promise<void> {
    const { atSource } = this.#stage;
    const producer = await newProducer(atSource, `${topic}-open`);
    const partitions = Array.from({ length: partitionsCount }, (_, index) => index);
    await startTransaction(atSource, producer, topic, partitions);
    for (const partition of partitions) {
      await write(atSource, topic, partition, values('never ended', 2), { producer });
    }
  }

  #sourceLoad(topic: string): Load {
    return new Load((partition, text) => {
      const count = 1 + this.#random.below(20);
      return write(this.#stage.atSource, topic, partition, values(text, count, 200));
    }, `${topic} source`);
  }

  /** Starts something that may fail, kills the proxy within so many ms, and starts it again. */
  async #killDuring(withinMs: number, work?: () => Promise<unknown>): Promise<void> {
    const { causeway } = this.#stage;
    const outcome = work?.().catch((error: unknown) => error);
    const delayMs = this.#random.below(withinMs);
    await new Promise((resolve) => setTimeout(resolve, delayMs));
    await causeway.kill9();
    this.killsCount++;
    await outcome;
    await causeway.start();
  }

  async #create(topic: string, isKilled: boolean): Promise<void> {
    if (isKilled) await this.#killDuring(400, () => this.#stage.mirror(topic));
    await until(
      `a mirror of ${topic}`,
      async () => {
        // Taken up again by the proxy itself where the intent was committed, else asked for again.
        const view = await mirrorView(this.#stage.causeway, topic).catch(() => null);
        if (view?.state === 'ACTIVE') return true;
        if (view === null) await this.#stage.mirror(topic);
        return false;
      },
      slow,
    );
  }

  async #switch(topic: string, verb: Verb, isKilled: boolean): Promise<void> {
    const { causeway } = this.#stage;
    if (isKilled) await this.#killSwitch(topic, verb);
    let last: unknown;
    await until(
      `${topic} STOPPED by ${verb}`,
      async () => {
        const view = await mirrorView(causeway, topic);
        last = { state: view.state, blocking: view.blocking };
        if (view.state === 'STOPPED') return true;
        if (view.state !== 'PENDING_STOPPED') await command(causeway, verb, topic);
        return false;
      },
      { ...slow, describe: () => JSON.stringify(last) },
    );
    const receipts = await receiptsOf(causeway, topic);
    const [receipt = []] = receipts;
    assert.equal(receipts.length, 1, `${topic} has one receipt; ${this.#random.describe()}`);
    this.#switched.set(topic, receipt);
  }

  /**
   * Anywhere from before the command arrives to after it; a promotion mostly while it is draining.
   */
  async #killSwitch(topic: string, verb: Verb): Promise<void> {
    const { causeway } = this.#stage;
    const isDraining = verb === 'promote' && this.#random.below(4) > 0;
    if (!isDraining) return this.#killDuring(300, () => command(causeway, verb, topic));
    const { error } = await command(causeway, verb, topic);
    assert.equal(error, null, `${verb} of ${topic}; ${this.#random.describe()}`);
    return this.#killDuring(300);
  }

  /** Nothing else makes the logs grow now, so their growth is the sign. */
  async #killAtAborts(topic: string): Promise<void> {
    const { causeway } = this.#stage;
    const { topicId } = await mirrorView(causeway, topic);
    const directory = path.join(causeway.storageDirectory, 'logs');
    const sizeOf = (): number => {
      let bytes = 0;
      for (const name of readdirSync(directory).filter((one) => one.startsWith(topicId))) {
        for (const file of readdirSync(path.join(directory, name))) {
          if (file.endsWith('.log')) bytes += statSync(path.join(directory, name, file)).size;
        }
      }
      return bytes;
    };
    const before = sizeOf();
    const outcome = command(causeway, 'failover', topic).catch((error: unknown) => error);
    await until('ABORT batches in the logs', () => sizeOf() > before, { intervalMs: 0 });
    process.kill(causeway.pid, 'SIGKILL');
    await causeway.kill9();
    this.killsCount++;
    await outcome;
    await causeway.start();
    const { state } = await until('the switch done or undone', async () => {
      const view = await mirrorView(causeway, topic);
      return view.state === 'STOPPED' || view.state === 'ACTIVE' ? view : undefined;
    });
    if (state === 'STOPPED') return;
    // Undone: where our ABORT batches were the source's own records come now.
    this.undoneCount++;
    for (let partition = 0; partition < partitionsCount; partition++) {
      await write(this.#stage.atSource, topic, partition, values('after the undoing', 3));
    }
    await this.#stage.caughtUp(topic);
  }

  /**
   * Below S the copy is the source's, batch for batch; a promotion lost nothing that was
   * acknowledged.
   */
  async #checkCopy(
    topic: string,
    verb: Verb,
    acknowledged: readonly Acknowledged[],
  ): Promise<void> {
    const { atSource, atProxy } = this.#stage;
    const switched = this.#switched.get(topic) ?? [];
    // The ABORT batch of the open transaction is ours, at the last offset below S.
    const ends = switched.map(({ virtualEnd }) => virtualEnd - (verb === 'failover' ? 1 : 0));
    const { batches, difference } = await compareTopic(atSource, atProxy, topic, ends);
    assert.equal(difference, null, this.#random.describe());
    assert.ok(batches > 0, `${topic} was mirrored at all; ${this.#random.describe()}`);
    if (verb === 'failover') return;
    for (const { partition, offset } of acknowledged) {
      const end = ends[partition] ?? 0;
      assert.ok(offset < end, `${topic}-${partition} at ${offset}; ${this.#random.describe()}`);
    }
  }

  /** However often it was begun and undone: one ABORT batch, the last one below S. */
  async #checkAborted(topic: string): Promise<void> {
    for (const { partition, virtualEnd } of this.#switched.get(topic) ?? []) {
      const where = `${topic}-${partition}; ${this.#random.describe()}`;
      const offset = BigInt(virtualEnd - 1);
      const { errorCode, first } = await fetchAt(this.#stage.atProxy, topic, partition, offset);
      assert.equal(errorCode, 0, where);
      assert.ok(first !== null, where);
      const header = readBatchHeader(first, 0);
      assert.equal(header.baseOffset, offset, where);
      assert.ok(isControl(header), `${where}: the batch below S is no marker`);
      assert.equal(readControlType(first, 0, header), 'ABORT', where);
    }
  }

  /** What is acknowledged after the switch is in the log, at its offset, from S on. */
  async #writeOn(topic: string, isKilled: boolean): Promise<void> {
    const { atProxy } = this.#stage;
    const load = new Load(async (partition, text) => {
      const answer = await tryWrite(atProxy, topic, partition, [text]);
      return answer.errorCode === 0 ? answer.baseOffset : null;
    }, `${topic} after`);
    try {
      await until('writes after the switch', () => load.acknowledged.length >= 10, slow);
      if (isKilled) {
        await this.#killDuring(600);
        const before = load.acknowledged.length;
        await until('writes after the kill', () => load.acknowledged.length >= before + 5, slow);
      }
    } finally {
      await load.stop();
    }
    const switched = this.#switched.get(topic) ?? [];
    for (const { partition, offset, bytes } of load.acknowledged) {
      const where = `${topic}-${partition} at ${offset}; ${this.#random.describe()}`;
      assert.ok(offset >= (switched[partition]?.virtualEnd ?? Number.NaN), where);
      const { errorCode, first } = await fetchAt(atProxy, topic, partition, offset);
      assert.equal(errorCode, 0, where);
      assert.equal(first?.readBigInt64BE(0), offset, where);
      assert.ok(first?.includes(bytes), `${where}: not what was acknowledged there`);
    }
  }

  /**
   * No kill changes a timeline that was switched: same receipt, same S, same start of the native
   * part.
   */
  async #checkSwitchedOnce(): Promise<void> {
    const { causeway, atProxy, atDestination } = this.#stage;
    for (const [topic, switched] of this.#switched) {
      const receipts = await receiptsOf(causeway, topic);
      assert.deepEqual(receipts, [switched], `${topic}; ${this.#random.describe()}`);
      const virtual = await offsets(atProxy, topic, -1n);
      const native = await offsets(atDestination, topic, -1n);
      const shifts = virtual.map((end, partition) => Number(end - (native[partition] ?? 0n)));
      const expected = switched.map(({ virtualEnd, nativeEnd }) => virtualEnd - nativeEnd);
      assert.deepEqual(shifts, expected, `shift of ${topic}; ${this.#random.describe()}`);
    }
  }
}

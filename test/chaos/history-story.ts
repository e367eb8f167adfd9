// A topic from its creation at the source through promote or failover to writes at the destination,
// under faults, with real clients writing and reading all the while: the history of it, judged.
//
// Owns: the rounds, the faults and their moments. Knows the product from outside only. Invariant:
// every random choice comes from the seed, and every failure names it; timing is the machine's own.

import assert from 'node:assert/strict';
import { forEachBatch } from '../../protocol/index.ts';
import { EpochWatch } from '../helpers/epoch-watch.ts';
import type { ConsumerKind, ProducerKind } from '../helpers/foreign-clients.ts';
import { commitOffsets, waitForSyncedOffsets } from '../helpers/group-commits.ts';
import type { Act, History, Isolation, Verb, Write, WriterKind } from '../helpers/history.ts';
import { violationsOf } from '../helpers/history-checks.ts';
import { type LinkedStage, linkName } from '../helpers/linked-stage.ts';
import { type LogRecord, readLog } from '../helpers/log-records.ts';
import { command, mirrorView, receiptsOf, type Switched } from '../helpers/mirror-commands.ts';
import { readBatches } from '../helpers/raw-batches.ts';
import {
  endTransaction,
  newProducer,
  type Producer,
  startTransaction,
  write,
} from '../helpers/raw-writes.ts';
import { Relay } from '../helpers/relay.ts';
import type { SeededRandom } from '../helpers/seeded-random.ts';
import { createTopic } from '../helpers/topic-admin.ts';
import { until } from '../helpers/wait.ts';
import { HistoryReader } from './history-readers.ts';
import { HistoryWriter, type WriterPlan } from './history-writers.ts';

const partitionsCount = 2;
const slow = { deadlineMs: 90_000 };

export const faults = [
  'kill the proxy',
  'stop the proxy for a while',
  'restart the destination',
  'restart the source',
  'stop the source for a while',
  'cut the lines of the link',
  'restart a reader',
] as const;
export type Fault = (typeof faults)[number];

export interface RoundPlan {
  readonly verb: Verb;
  readonly writers: readonly (readonly [ProducerKind, WriterKind])[];
  readonly readers: readonly (readonly [ConsumerKind, Isolation])[];
  /** One after the other, while the topic is mirrored. */
  readonly whileMirroring: readonly Fault[];
  /** As soon as the command was given. */
  readonly whileSwitching: Fault | null;
  readonly afterwards: readonly Fault[];
}

interface Cast {
  readonly sources: readonly HistoryWriter[];
  readonly destinations: readonly HistoryWriter[];
  readonly readers: readonly HistoryReader[];
  readonly watch: EpochWatch;
}

/** A transaction that is open when the command is given, written by hand. */
interface OpenTransaction {
  readonly id: string;
  readonly producer: Producer;
  readonly writes: readonly Write[];
}

async function delayed(ms: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, ms));
}

export class HistoryStory {
  readonly #stage: LinkedStage;
  readonly #random: SeededRandom;
  readonly #relay: Relay;
  #roundsCount = 0;
  /** How often the proxy was fenced with nobody there who could have, and was started again. */
  fencedByNobodyCount = 0;

  private constructor(stage: LinkedStage, random: SeededRandom, relay: Relay) {
    this.#stage = stage;
    this.#random = random;
    this.#relay = relay;
  }

  /** Puts a line that can be cut between the link and its source. */
  static async begin(stage: LinkedStage, random: SeededRandom): Promise<HistoryStory> {
    const { source, causeway } = stage;
    const relay = await Relay.start({ target: source.bootstrap });
    const map = source.brokers.map(({ advertised }) => `${advertised}=${relay.address}`).join(',');
    await causeway.cli('link', 'config', 'set', linkName, `address.map=${map}`);
    return new HistoryStory(stage, random, relay);
  }

  end(): Promise<void> {
    return this.#relay.stop();
  }

  /** Resolves with how much was written and read, when nothing was found. */
  async round(plan: RoundPlan): Promise<{ writes: number; reads: number }> {
    const topic = `history-${++this.#roundsCount}`;
    await createTopic(this.#stage.atSource, topic, { partitions: partitionsCount });
    const cast = this.#cast(topic, plan);
    try {
      await this.#mirror(topic, cast);
      for (const fault of plan.whileMirroring) await this.#meanwhile(fault, cast);
      const open = await this.#leaveOpen(topic);
      const receipt =
        plan.verb === 'promote'
          ? await this.#promote(topic, plan, { cast, open })
          : await this.#failOver(topic, plan, cast);
      for (const writer of cast.destinations) await writer.waitForMore(5);
      for (const fault of plan.afterwards) await this.#meanwhile(fault, cast);
      return await this.#judge(topic, { plan, cast, open, receipt });
    } finally {
      const { sources, destinations, readers, watch } = cast;
      await watch.stop();
      await Promise.all([...sources, ...destinations, ...readers].map((client) => client.kill()));
    }
  }

  #cast(topic: string, plan: RoundPlan): Cast {
    const { source, causeway, atProxy } = this.#stage;
    const place = { topic, partitionsCount };
    const writer = (side: Write['side'], bootstrap: string) =>
      plan.writers.map(([client, kind]) => {
        const full: WriterPlan = { ...place, client, kind, side, bootstrap };
        return new HistoryWriter(full, this.#random);
      });
    return {
      sources: writer('source', source.bootstrap),
      destinations: writer('destination', causeway.bootstrap),
      readers: plan.readers.map(([client, isolation], index) => {
        const group = `${topic}-${index}`;
        const { bootstrap } = causeway;
        const committed = [2, 1];
        return new HistoryReader({ ...place, client, isolation, bootstrap, group, committed });
      }),
      watch: new EpochWatch(atProxy, topic),
    };
  }

  async #mirror(topic: string, { sources, destinations, readers, watch }: Cast): Promise<void> {
    const { source, causeway } = this.#stage;
    for (const writer of sources) writer.start();
    await this.#stage.mirror(topic);
    // Until the switch they are refused.
    for (const writer of destinations) writer.start();
    for (const writer of sources) await writer.waitForMore(10);
    const groups = readers.map((_, index) => ({
      ...{ group: `${topic}-${index}`, topic, offsets: [2, 1] },
    }));
    for (const group of groups) await commitOffsets(source, group);
    await waitForSyncedOffsets(causeway, linkName, groups);
    watch.start();
    await Promise.all(readers.map((reader) => reader.start()));
    for (const reader of readers) await reader.waitForMore(5);
  }

  /** The fault, then proof that everybody goes on. */
  async #meanwhile(fault: Fault, { sources, destinations, readers }: Cast): Promise<void> {
    for (const reader of readers) await reader.commit();
    await this.#strike(fault, readers);
    const isSwitched = destinations.some(({ acknowledgedCount }) => acknowledgedCount > 0);
    for (const writer of isSwitched ? destinations : sources) await writer.waitForMore(3);
    for (const reader of readers) await reader.waitForMore(3);
  }

  async #strike(fault: Fault, readers: readonly HistoryReader[]): Promise<void> {
    const { causeway, source, destination } = this.#stage;
    await delayed(this.#random.below(300));
    switch (fault) {
      case 'kill the proxy':
        await causeway.kill9();
        return causeway.start();
      case 'stop the proxy for a while':
        await causeway.pause();
        // From a blink to longer than its lease.
        await delayed(200 + this.#random.below(5_000));
        causeway.resume();
        await causeway.waitUntilReady();
        return this.#ownAgain();
      case 'restart the destination':
        await destination.kill9();
        await destination.restartBroker(1);
        return this.#ownAgain();
      case 'restart the source':
        await source.kill9();
        return source.restartBroker(1);
      case 'stop the source for a while':
        await source.pause();
        await delayed(200 + this.#random.below(3_000));
        return source.resume();
      case 'cut the lines of the link':
        return this.#relay.cut();
      case 'restart a reader':
        return this.#random.pick(readers).restart();
    }
  }

  /**
   * Waits until the proxy acts again. Its writer may have been fenced by the broker itself; it
   * cannot tell that from a successor and stays a standby until it is started again, by whatever
   * supervises it.
   */
  async #ownAgain(): Promise<void> {
    const { causeway } = this.#stage;
    const role = await until(
      'an owner, or a word that there is none',
      async () => {
        const { role: now } = await causeway.get<{ role: string }>('/causeway/v1/status');
        const events = causeway.log().map(({ event }) => event);
        const lost = events.lastIndexOf('lease_lost');
        if (lost > events.lastIndexOf('starting')) return 'lost';
        return now === 'owner' ? now : undefined;
      },
      slow,
    );
    if (role !== 'lost') return;
    this.fencedByNobodyCount++;
    await causeway.kill9();
    await causeway.start();
  }

  async #leaveOpen(topic: string): Promise<OpenTransaction> {
    const { atSource } = this.#stage;
    const id = `${topic} open`;
    const producer = await newProducer(atSource, id);
    await startTransaction(atSource, producer, topic, [0, 1]);
    const writes: Write[] = [];
    for (const partition of [0, 1]) {
      const value = `${id} ${partition}`;
      const offset = Number(await write(atSource, topic, partition, [value], { producer }));
      writes.push({
        ...{ writer: id, kind: 'transactional', side: 'source', outcome: 'acknowledged' },
        ...{ partition, value, offset, transaction: id },
      });
    }
    return { id, producer, writes };
  }

  async #promote(
    topic: string,
    plan: RoundPlan,
    { cast, open }: { cast: Cast; open: OpenTransaction },
  ): Promise<readonly Switched[]> {
    const { causeway, atSource } = this.#stage;
    await Promise.all(cast.sources.map((writer) => writer.stop()));
    await this.#give('promote', topic);
    await until('a promotion that waits for the open transaction', async () => {
      const { blocking } = await mirrorView(causeway, topic);
      return blocking.some(({ code }) => code === 'TRANSACTION_OPEN');
    });
    const struck =
      plan.whileSwitching === null
        ? Promise.resolve()
        : this.#strike(plan.whileSwitching, cast.readers);
    await endTransaction(atSource, open.producer, 'commit').catch((error: unknown) => {
      // The source may be away just now: the transaction is ended by the next writer of its id.
      if (plan.whileSwitching === null) throw error;
    });
    await struck;
    return this.#switched('promote', topic);
  }

  async #failOver(topic: string, plan: RoundPlan, cast: Cast): Promise<readonly Switched[]> {
    const { source } = this.#stage;
    const { whileSwitching } = plan;
    // What is open has come over: its ABORT batches are needed.
    await this.#stage.caughtUp(topic);
    const hangs = this.#random.below(2) === 0;
    if (hangs) await source.pause();
    else await source.kill9();
    try {
      const given = this.#give('failover', topic);
      if (whileSwitching !== null) await this.#strike(whileSwitching, cast.readers);
      await given;
      const receipt = await this.#switched('failover', topic);
      await Promise.all(cast.sources.map((writer) => writer.kill()));
      return receipt;
    } finally {
      if (hangs) source.resume();
      else await source.restartBroker(1);
    }
  }

  /** Until it is accepted: the proxy may be on its way down or up. */
  async #give(verb: Verb, topic: string): Promise<void> {
    let last: unknown;
    await until(
      `${verb} of ${topic} accepted`,
      async () => {
        last = (await command(this.#stage.causeway, verb, topic)).error;
        return last === null;
      },
      { ...slow, describe: () => `${JSON.stringify(last)}; ${this.#random.describe()}` },
    );
  }

  async #switched(verb: Verb, topic: string): Promise<readonly Switched[]> {
    const { causeway } = this.#stage;
    let last: unknown;
    await until(
      `${topic} STOPPED by ${verb}`,
      async () => {
        const { state, phase, blocking } = await mirrorView(causeway, topic);
        last = { state, phase, blocking };
        if (state !== 'STOPPED' && state !== 'PENDING_STOPPED')
          await command(causeway, verb, topic);
        return state === 'STOPPED';
      },
      { ...slow, describe: () => `${JSON.stringify(last)}; ${this.#random.describe()}` },
    );
    const receipts = await receiptsOf(causeway, topic);
    assert.equal(receipts.length, 1, `${topic} was switched once; ${this.#random.describe()}`);
    return receipts[0] ?? [];
  }

  async #judge(
    topic: string,
    round: {
      plan: RoundPlan;
      cast: Cast;
      open: OpenTransaction;
      receipt: readonly Switched[];
    },
  ): Promise<{ writes: number; reads: number }> {
    const { causeway } = this.#stage;
    const { sources, destinations, readers, watch } = round.cast;
    await Promise.all(destinations.map((writer) => writer.stop()));
    const whole = { name: topic, partitions: partitionsCount };
    const log: Record<Isolation, LogRecord[]> = {
      read_uncommitted: await readLog(causeway, whole, 'read_uncommitted'),
      read_committed: await readLog(causeway, whole, 'read_committed'),
    };
    for (const reader of readers) await reader.finish(log[reader.isolation]);
    await watch.stop();
    const writers = [...sources, ...destinations];
    const { verb } = round.plan;
    const openOutcome = verb === 'promote' ? 'committed' : 'aborted';
    const history: History = {
      verb,
      switchedAt: round.receipt.map(({ virtualEnd }) => virtualEnd),
      mirroredTo: round.receipt.map(({ mirroredEnd }) => mirroredEnd),
      writes: [...writers.flatMap(({ writes }) => writes), ...round.open.writes],
      transactions: new Map([
        ...writers.flatMap(({ transactions }) => [...transactions]),
        [round.open.id, openOutcome] as const,
      ]),
      sessions: readers.flatMap((reader) => reader.sessions()),
      told: watch.told,
      acts: this.#acts(),
      stateEpochs: await this.#stateEpochs(),
      log,
    };
    assert.deepEqual(violationsOf(history), [], `${topic}; ${this.#random.describe()}`);
    return {
      writes: history.writes.length,
      reads: history.sessions.flatMap((s) => s.reads).length,
    };
  }

  /** Out of the log of all instances: a new one begins with each start of the process. */
  #acts(): Act[] {
    const kinds: Readonly<Record<string, Act['kind']>> = {
      lease_acquired: 'acquired',
      lease_lost: 'lost',
      mirror_state_changed: 'acted',
      mirror_grown: 'acted',
      failover_undone: 'acted',
    };
    let starts = 0;
    return this.#stage.causeway.log().flatMap(({ event, time, message }) => {
      if (event === 'starting') starts++;
      const kind = kinds[event ?? ''];
      if (kind === undefined) return [];
      const timeMs = Date.parse(String(time));
      return [{ instance: `instance ${starts}`, timeMs, kind, what: String(message) }];
    });
  }

  async #stateEpochs(): Promise<number[]> {
    const epochs: number[] = [];
    const { atDestination } = this.#stage;
    for (const { bytes } of await readBatches(atDestination, '__causeway_state', 0)) {
      forEachBatch(bytes, ({ producerEpoch }) => epochs.push(producerEpoch));
    }
    return epochs;
  }
}

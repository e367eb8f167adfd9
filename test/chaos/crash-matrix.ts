// One topic through its whole life, with the proxy killed -9 at one named step of create, growth,
// promote or failover, and a writer and a reader through it all.
//
// Owns: leading the proxy to the step, the legal outcome after its restart, and the history.
// Knows the product from outside only, but for the names of the steps. Invariant: whatever the
// outcome, the life goes on to the end and its history keeps the rules.

import assert from 'node:assert/strict';
import {
  createCreatePartitionsRequest,
  createCreatePartitionsTopic,
} from '../../protocol/generated/create-partitions-request.ts';
import { createPartitionsApi } from '../../src/cluster/apis.ts';
import type { FaultPoint, FaultPoints } from '../helpers/fault-points.ts';
import type { Verb, Write } from '../helpers/history.ts';
import { violationsOf } from '../helpers/history-checks.ts';
import { type LinkedStage, linkName, offsets } from '../helpers/linked-stage.ts';
import { readLog } from '../helpers/log-records.ts';
import {
  command,
  type MirrorView,
  mirrorView,
  post,
  receiptsOf,
  type Switched,
} from '../helpers/mirror-commands.ts';
import { endTransaction, newProducer, startTransaction, write } from '../helpers/raw-writes.ts';
import { createTopic } from '../helpers/topic-admin.ts';
import { GiveUp, until } from '../helpers/wait.ts';
import { RawReader, RawWriter } from './raw-clients.ts';

const partitionsAtFirst = 2;
const partitionsGrown = 3;
const slow = { deadlineMs: 60_000 };

/**
 * After the restart: `undone`, as if the command had not been given; `resumed`, finished by the
 * proxy itself; `done`, it had happened.
 */
type Outcome = 'undone' | 'resumed' | 'done';

const undone: ReadonlySet<FaultPoint> = new Set([
  'create.before-intent',
  'promote.before-start',
  'failover.closing',
  'failover.before-cuts',
  'failover.cuts-committed',
  'failover.aborts-appended',
  'failover.before-commit',
]);
const done: ReadonlySet<FaultPoint> = new Set([
  'create.active-committed',
  'promote.committed',
  'failover.committed',
]);

function outcomeOf(point: FaultPoint): Outcome {
  if (undone.has(point)) return 'undone';
  return done.has(point) ? 'done' : 'resumed';
}

export class CrashMatrix {
  readonly #stage: LinkedStage;
  readonly #faults: FaultPoints;

  constructor(stage: LinkedStage, faults: FaultPoints) {
    this.#stage = stage;
    this.#faults = faults;
  }

  /** `points`: at most one of each command. */
  async life(topic: string, points: readonly FaultPoint[]): Promise<void> {
    const at = (name: string): FaultPoint | null =>
      points.find((point) => point.startsWith(`${name}.`)) ?? null;
    const verb: Verb = at('promote') === null ? 'failover' : 'promote';
    const { atSource, atProxy } = this.#stage;
    await createTopic(atSource, topic, { partitions: partitionsAtFirst });
    const place = { topic, partitionsCount: partitionsAtFirst };
    const atFirst = new RawWriter({ ...place, cluster: atSource, side: 'source' });
    const later = new RawWriter({ ...place, cluster: atProxy, side: 'destination' });
    const reader = new RawReader(atProxy, topic, partitionsGrown);
    try {
      atFirst.start();
      // Waits for the topic to appear, and must get nothing into it before the switch.
      later.start();
      await this.#create(topic, at('create'));
      reader.start();
      await this.#grow(topic, at('grow'));
      const open = await this.#leaveOpen(topic);
      await atFirst.stop();
      await this.#stage.caughtUp(topic);
      assert.equal(later.acknowledgedCount, 0, `${topic}: written into a shell`);
      await this.#checkShellIsEmpty(topic);
      if (verb === 'promote') await open.end();
      const receipt = await this.#switch(topic, verb, at(verb));
      await until('writes after the switch', () => later.acknowledgedCount >= 20, slow);
      await later.stop();
      const writes = [...atFirst.writes, ...later.writes, ...open.writes];
      await this.#check(topic, { verb, receipt, writes, reader, transaction: open.outcome(verb) });
    } finally {
      await Promise.all([atFirst.stop(), later.stop(), reader.stop()]);
    }
  }

  /** Does something that reaches the point, and starts the proxy again after it has died there. */
  async #killAt(point: FaultPoint, work: () => Promise<unknown>): Promise<void> {
    const { causeway } = this.#stage;
    await this.#faults.arm(point);
    const answer = work().catch((error: unknown) => error);
    await until(
      `the kill at ${point}`,
      () => {
        if (!causeway.isRunning && this.#faults.isArmed(point)) throw new GiveUp('died elsewhere');
        return !causeway.isRunning;
      },
      slow,
    );
    await answer;
    await causeway.start();
  }

  #requestMirror(topic: string): Promise<unknown> {
    const base = `/kafka/v3/clusters/${this.#stage.destination.clusterId}/links`;
    return post(this.#stage.causeway, `${base}/${linkName}/mirrors`, { source_topic_name: topic });
  }

  async #create(topic: string, point: FaultPoint | null): Promise<void> {
    if (point === null) return this.#stage.mirror(topic);
    await this.#killAt(point, () => this.#requestMirror(topic));
    const { causeway } = this.#stage;
    if (outcomeOf(point) === 'undone') {
      await assert.rejects(mirrorView(causeway, topic), /404/, `${point}: nothing was created`);
      const { topics } = await this.#stage.atDestination.metadata([topic]);
      assert.equal(topics.get(topic)?.errorCode, 3, `${point}: no topic in the destination`);
      await this.#stage.mirror(topic);
    }
    await this.#waitFor(topic, point, ({ state }) => state === 'ACTIVE');
  }

  async #grow(topic: string, point: FaultPoint | null): Promise<void> {
    const grow = async (): Promise<void> => {
      const asked = { name: topic, count: partitionsGrown, assignments: null };
      const topics = [createCreatePartitionsTopic(asked)];
      const request = createCreatePartitionsRequest({ topics, timeoutMs: 20_000 });
      const target = { kind: 'controller' } as const;
      const { results } = await this.#stage.atSource.send(target, createPartitionsApi, request);
      assert.equal(results[0]?.errorCode, 0);
      await until('the new partition', () =>
        write(this.#stage.atSource, topic, partitionsGrown - 1, ['first of the new partition']),
      );
    };
    if (point === null) await grow();
    else await this.#killAt(point, grow);
    await this.#waitFor(
      topic,
      point ?? 'grow.committed',
      ({ state, partitions }) => state === 'ACTIVE' && partitions.length === partitionsGrown,
    );
  }

  /** A transaction open in two partitions: ended before a promotion, left to a failover. */
  async #leaveOpen(topic: string) {
    const { atSource } = this.#stage;
    const transactionalId = `${topic}-open`;
    const producer = await newProducer(atSource, transactionalId);
    const writes: Write[] = [];
    await startTransaction(atSource, producer, topic, [0, 1]);
    for (const partition of [0, 1]) {
      const value = `${topic} of the open transaction ${partition}`;
      const offset = Number(await write(atSource, topic, partition, [value], { producer }));
      const outcome = 'acknowledged';
      writes.push({
        ...{ writer: transactionalId, kind: 'transactional', side: 'source', outcome },
        ...{ partition, value, offset, transaction: transactionalId },
      });
    }
    const end = () => endTransaction(atSource, producer, 'commit');
    const outcome = (verb: Verb) =>
      new Map([[transactionalId, verb === 'promote' ? 'committed' : 'aborted'] as const]);
    return { writes, end, outcome };
  }

  async #checkShellIsEmpty(topic: string): Promise<void> {
    const ends = await offsets(this.#stage.atDestination, topic, -1n);
    assert.deepEqual(ends, [0n, 0n, 0n], `${topic}: its shell is empty`);
  }

  async #switch(topic: string, verb: Verb, point: FaultPoint | null): Promise<readonly Switched[]> {
    const { causeway } = this.#stage;
    const give = () => command(causeway, verb, topic);
    if (point === null) await give();
    else {
      await this.#killAt(point, give);
      const outcome = outcomeOf(point);
      const isUndone = ({ state, phase }: MirrorView) => state === 'ACTIVE' && phase === null;
      if (outcome === 'undone') {
        await this.#waitFor(topic, point, isUndone);
        await this.#giveAgain(topic, verb);
      } else if (outcome === 'done') {
        const { state } = await mirrorView(causeway, topic);
        assert.equal(state, 'STOPPED', `${point}: it had happened`);
      }
    }
    await this.#waitFor(topic, point ?? `${verb}.committed`, ({ state }) => state === 'STOPPED');
    const receipts = await receiptsOf(causeway, topic);
    assert.equal(receipts.length, 1, `${topic} was switched once`);
    return receipts[0] ?? [];
  }

  /** A new instance waits one lease before it takes commands. */
  async #giveAgain(topic: string, verb: Verb): Promise<void> {
    let refusal: string | undefined;
    await until(
      `${verb} of ${topic} accepted`,
      async () => {
        const { error } = await command(this.#stage.causeway, verb, topic);
        refusal = error?.message;
        return error === null;
      },
      { ...slow, describe: () => refusal ?? 'no answer' },
    );
  }

  async #waitFor(
    topic: string,
    point: FaultPoint,
    isReached: (view: MirrorView) => boolean,
  ): Promise<void> {
    let last: unknown;
    await until(
      `${topic} where it has to be after ${point}`,
      async () => {
        const { partitions, ...view } = await mirrorView(this.#stage.causeway, topic);
        last = { ...view, partitions: partitions.length };
        return isReached({ ...view, partitions });
      },
      { ...slow, describe: () => JSON.stringify(last) },
    );
  }

  async #check(
    topic: string,
    life: {
      verb: Verb;
      receipt: readonly Switched[];
      writes: readonly Write[];
      reader: RawReader;
      transaction: ReadonlyMap<string, 'committed' | 'aborted'>;
    },
  ): Promise<void> {
    const { atProxy, causeway } = this.#stage;
    const sessions = await life.reader.finish(await offsets(atProxy, topic, -1n));
    const whole = { name: topic, partitions: partitionsGrown };
    const [read_uncommitted, read_committed] = await Promise.all([
      readLog(causeway, whole, 'read_uncommitted'),
      readLog(causeway, whole, 'read_committed'),
    ]);
    const grown: Write = {
      ...{ writer: 'raw source producer', kind: 'plain', side: 'source', transaction: null },
      ...{ partition: partitionsGrown - 1, value: 'first of the new partition' },
      ...{ outcome: 'acknowledged', offset: 0 },
    };
    const violations = violationsOf({
      verb: life.verb,
      switchedAt: life.receipt.map(({ virtualEnd }) => virtualEnd),
      mirroredTo: life.receipt.map(({ mirroredEnd }) => mirroredEnd),
      writes: [...life.writes, grown],
      transactions: life.transaction,
      sessions,
      told: [],
      acts: [],
      stateEpochs: [],
      log: { read_uncommitted, read_committed },
    });
    assert.deepEqual(violations, [], topic);
    assert.ok(
      sessions.every(({ reads }) => reads.length > 0),
      `${topic}: all partitions were read`,
    );
  }
}

// Real consumers, each in a group of its own, and the record of what they were given: assignment by
// assignment, with what the group had committed before.
//
// Owns: starting, committing and restarting them. Knows nothing of faults and of what is right.
// Invariant: they start with `reset = none`: a reset of positions cannot pass unseen.

import { ForeignClientError } from '../helpers/client-process.ts';
import {
  type ConsumerKind,
  type ForeignConsumer,
  startConsumer,
} from '../helpers/foreign-clients.ts';
import type { Isolation, Session } from '../helpers/history.ts';
import type { LogRecord } from '../helpers/log-records.ts';
import { GiveUp, until } from '../helpers/wait.ts';

export interface ReaderPlan {
  readonly client: ConsumerKind;
  readonly isolation: Isolation;
  readonly bootstrap: string;
  readonly topic: string;
  readonly partitionsCount: number;
  readonly group: string;
  /** What the group has committed at the source, by partition. */
  readonly committed: readonly number[];
}

/** One program's life. */
interface Life {
  readonly consumer: ForeignConsumer;
  /** What was committed before it began, then what it has committed itself, by partition. */
  readonly commits: (readonly number[])[];
}

export class HistoryReader {
  readonly #plan: ReaderPlan;
  readonly #lives: Life[] = [];

  constructor(plan: ReaderPlan) {
    this.#plan = plan;
  }

  get name(): string {
    return `${this.#plan.client} in ${this.#plan.group}`;
  }

  get isolation(): Isolation {
    return this.#plan.isolation;
  }

  get #life(): Life {
    const life = this.#lives.at(-1);
    if (life === undefined) throw new Error(`${this.name} was not started`);
    return life;
  }

  get #committed(): readonly number[] {
    return this.#life.commits.at(-1) ?? this.#plan.committed;
  }

  get count(): number {
    return this.#lives.reduce((sum, { consumer }) => sum + consumer.records.length, 0);
  }

  async start(committed: readonly number[] = this.#plan.committed): Promise<void> {
    const { client, isolation, bootstrap, topic, group } = this.#plan;
    const consumer = await startConsumer(client, {
      ...{ bootstrap, topic, group, isolation, reset: 'none' },
      // Small answers, so that markers and boundaries come in answers of their own.
      ...(client.startsWith('java') || client.startsWith('librdkafka')
        ? { properties: { 'max.partition.fetch.bytes': '600' } }
        : {}),
    });
    this.#lives.push({ consumer, commits: [committed] });
  }

  /** Commits where it is; a commit that fails changes nothing that is known. */
  async commit(): Promise<void> {
    const { consumer, commits } = this.#life;
    try {
      const offsets = await consumer.commit();
      const { topic } = this.#plan;
      const now = this.#committed.map((before, index) => offsets[`${topic}-${index}`] ?? before);
      commits.push(now);
    } catch (error) {
      if (!(error instanceof ForeignClientError)) throw error;
    }
  }

  /** Commits, leaves the group and comes back as another program. */
  async restart(): Promise<void> {
    const before = this.#life.commits.length;
    await until(`a commit of ${this.name}`, async () => {
      await this.commit();
      return this.#life.commits.length > before;
    });
    const committed = this.#committed;
    await this.#life.consumer.stop();
    await this.start(committed);
  }

  waitForMore(count: number): Promise<boolean> {
    const { consumer } = this.#life;
    return consumer.waitForCount(consumer.records.length + count, { deadlineMs: 90_000 });
  }

  /** Waits until it has been given the last record of every partition. */
  async finish(visible: readonly LogRecord[]): Promise<void> {
    const last = new Map<number, number>();
    for (const { partition, offset } of visible) last.set(partition, offset);
    const reached = (partition: number): number => {
      const own = this.#lives.flatMap(({ consumer }) => consumer.records);
      return Math.max(-1, ...own.filter((r) => r.partition === partition).map((r) => r.offset));
    };
    const isThere = ([partition, offset]: readonly [number, number]): boolean =>
      reached(partition) >= offset || (this.#plan.committed[partition] ?? 0) > offset;
    await until(
      `${this.name} at the end`,
      () => {
        if ([...last].every(isThere)) return true;
        const { consumer } = this.#life;
        if (!consumer.isRunning) throw new GiveUp(`${this.name} ended: ${consumer.stderr}`);
        return false;
      },
      {
        deadlineMs: 90_000,
        describe: () =>
          `${[...last].map(([p, offset]) => `${p}: ${reached(p)} of ${offset}`).join(', ')}; ` +
          `${this.#life.consumer.errors.slice(-3).join(' | ')}`,
      },
    );
    await this.kill();
  }

  async kill(): Promise<void> {
    await this.#lives.at(-1)?.consumer.kill();
  }

  sessions(): Session[] {
    const partitions = Array.from({ length: this.#plan.partitionsCount }, (_, index) => index);
    return partitions.flatMap((partition) => {
      const sessions = this.#lives.flatMap((life) => this.#sessionsOf(life, partition));
      return sessions.map((session, index) => ({
        ...session,
        isLast: index === sessions.length - 1,
      }));
    });
  }

  #sessionsOf({ consumer, commits }: Life, partition: number): Session[] {
    const name = `${this.#plan.topic}-${partition}`;
    const starts = consumer.assignments
      .filter(({ partitions }) => partitions.includes(name))
      .map(({ after, commitsBefore }) => ({ after, known: commits[commitsBefore] }));
    let position = commits[0]?.[partition] ?? 0;
    return starts.map(({ after: start, known }, index) => {
      const isMine = (record: { partition: number }): boolean => record.partition === partition;
      const reads = consumer.records.slice(start, starts[index + 1]?.after).filter(isMine);
      // A commit that was answered after the assignment may have come too late for its position.
      const committed = known?.[partition] ?? 0;
      const furthest = Math.max(position, committed);
      position = Math.max(position, (reads.at(-1)?.offset ?? -1) + 1);
      return {
        ...{ reader: this.name, isolation: this.#plan.isolation, partition },
        ...{ committed, furthest, isLast: false },
        reads: reads.map(({ offset, value }) => ({ offset, value })),
      };
    });
  }
}

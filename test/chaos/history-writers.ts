// Real producers that write on through whatever happens, and the record of what became of each
// value.
//
// Owns: one producer program after the other under one name, its transactions, and the outcome of
// each write as far as its client said. Knows nothing of faults. Invariant: a value is handed over
// once; what a client did not clearly acknowledge or refuse is unknown.

import {
  type Acknowledged,
  type ForeignProducer,
  type ProducerKind,
  startProducer,
} from '../helpers/foreign-clients.ts';
import type { TransactionOutcome, Write, WriterKind } from '../helpers/history.ts';
import type { SeededRandom } from '../helpers/seeded-random.ts';
import { until } from '../helpers/wait.ts';

const inFlight = 4;
const pauseMs = 30;

/** Soon enough for a test; the libraries' own defaults are minutes. */
const properties: Partial<Record<ProducerKind, Record<string, string>>> = {
  java: { 'request.timeout.ms': '5000', 'delivery.timeout.ms': '30000', 'max.block.ms': '20000' },
  librdkafka: { 'socket.timeout.ms': '5000', 'message.timeout.ms': '30000' },
};

export interface WriterPlan {
  readonly client: ProducerKind;
  readonly kind: WriterKind;
  readonly side: Write['side'];
  readonly bootstrap: string;
  readonly topic: string;
  readonly partitionsCount: number;
}

type Result = Pick<Write, 'outcome' | 'offset'>;

function resultOf(sent: PromiseSettledResult<Acknowledged>): Result {
  if (sent.status === 'fulfilled') return { outcome: 'acknowledged', offset: sent.value.offset };
  // POLICY_VIOLATION, as each library words it: only mirrors give it, and they never take a record.
  const isRefused = /policy/i.test(String(sent.reason));
  return { outcome: isRefused ? 'refused' : 'unknown', offset: null };
}

export class HistoryWriter {
  readonly writes: Write[] = [];
  readonly transactions = new Map<string, TransactionOutcome>();
  readonly name: string;
  readonly #plan: WriterPlan;
  readonly #random: SeededRandom;
  #producer: ForeignProducer | null = null;
  #isStopping = false;
  #count = 0;
  #done: Promise<void> = Promise.resolve();

  constructor(plan: WriterPlan, random: SeededRandom) {
    this.#plan = plan;
    this.#random = random;
    this.name = `${plan.client} ${plan.kind} at the ${plan.side}`;
  }

  get acknowledgedCount(): number {
    return this.writes.filter(({ outcome }) => outcome === 'acknowledged').length;
  }

  start(): void {
    this.#done = this.#run();
  }

  /** Waits for what is under way, then ends the program. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#done;
    await this.#producer?.stop();
    this.#producer = null;
  }

  /** Ends the program with -9: what is under way stays unknown. */
  async kill(): Promise<void> {
    this.#isStopping = true;
    await this.#producer?.kill();
    await this.#done;
    await this.#producer?.kill();
  }

  waitForMore(count: number): Promise<boolean> {
    const wanted = this.acknowledgedCount + count;
    const what = `${count} more writes of ${this.name}`;
    const describe = (): string => JSON.stringify(this.writes.slice(-3));
    return until(what, () => this.acknowledgedCount >= wanted, { deadlineMs: 90_000, describe });
  }

  async #run(): Promise<void> {
    while (!this.#isStopping) {
      const producer = await this.#running();
      if (producer === null) continue;
      const isFine =
        this.#plan.kind === 'transactional'
          ? await this.#transaction(producer)
          : await this.#burst(producer);
      if (!isFine) await this.#replace();
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }

  async #running(): Promise<ForeignProducer | null> {
    if (this.#producer?.isRunning) return this.#producer;
    const { client, kind, bootstrap, topic } = this.#plan;
    const own = properties[client];
    try {
      this.#producer = await startProducer(client, {
        bootstrap,
        topic,
        isIdempotent: kind === 'idempotent',
        ...(kind === 'transactional' ? { transactionalId: `${topic} ${this.name}` } : {}),
        ...(own === undefined ? {} : { properties: own }),
      });
      return this.#producer;
    } catch {
      // Not while its cluster is away: tried again by the next turn, until it is stopped.
      return null;
    }
  }

  /** As an application does after an error that its client calls fatal. */
  async #replace(): Promise<void> {
    await this.#producer?.kill();
    this.#producer = null;
  }

  async #send(producer: ForeignProducer, transaction: string | null): Promise<boolean> {
    const { kind, side, partitionsCount, topic } = this.#plan;
    const planned = Array.from({ length: 1 + this.#random.below(inFlight) }, () => ({
      partition: this.#random.below(partitionsCount),
      value: `${topic} ${this.name} ${this.#count++}`,
    }));
    const sent = await Promise.allSettled(planned.map((record) => producer.send(record)));
    for (const [index, one] of sent.entries()) {
      const record = planned[index];
      if (record === undefined) continue;
      this.writes.push({
        writer: this.name,
        kind,
        side,
        ...record,
        ...resultOf(one),
        transaction,
      });
    }
    return sent.every(({ status }) => status === 'fulfilled');
  }

  /** False: the program has to be replaced. */
  async #burst(producer: ForeignProducer): Promise<boolean> {
    const isSent = await this.#send(producer, null);
    const last = this.writes.at(-1)?.outcome;
    return isSent || last === 'refused' || this.#plan.kind === 'plain';
  }

  async #transaction(producer: ForeignProducer): Promise<boolean> {
    const id = `${this.#plan.topic} ${this.name} transaction ${this.#count}`;
    const wantsAbort = this.#random.below(4) === 0;
    this.transactions.set(id, 'unknown');
    try {
      await producer.begin();
      const isSent = await this.#send(producer, id);
      if (isSent && !wantsAbort) {
        await producer.commit();
        this.transactions.set(id, 'committed');
      } else {
        await producer.abort();
        this.transactions.set(id, 'aborted');
      }
      return true;
    } catch {
      // Its outcome stays unknown; the next program has the same transactional id and settles it.
      return false;
    }
  }
}

// A keyed producer that keeps writing, and remembers what was acknowledged to it. Owns: the pace,
// the keys and the record of acknowledgements. An unanswered send when its cluster dies is counted,
// not hidden.
import type { Acknowledged, ForeignProducer } from '../test/helpers/foreign-clients.ts';

const keysCount = 50;
const roundRecords = 20;
const pauseMs = 40;

export class LiveLoad {
  readonly acknowledged: Acknowledged[] = [];
  unansweredCount = 0;
  readonly #producer: ForeignProducer;
  readonly #label: string;
  #sentCount = 0;
  #isStopping = false;
  #running: Promise<void> | null = null;

  constructor(producer: ForeignProducer, label: string) {
    this.#producer = producer;
    this.#label = label;
  }

  /** Sends so many records and waits for every answer. */
  async send(count: number): Promise<void> {
    const records = Array.from({ length: count }, () => this.#next());
    this.acknowledged.push(...(await this.#producer.sendAll(records)));
  }

  /** Writes on and on in the background. */
  start(): void {
    this.#isStopping = false;
    this.#running = this.#loop();
  }

  async #loop(): Promise<void> {
    while (!this.#isStopping) {
      const round = Array.from({ length: roundRecords }, () => this.#producer.send(this.#next()));
      for (const answer of await Promise.allSettled(round)) {
        if (answer.status === 'fulfilled') this.acknowledged.push(answer.value);
        else this.unansweredCount++;
      }
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }

  /** Ends the loop; the producer lives on. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    await this.#running;
  }

  /** Ends the producer as its host would: what is unanswered stays so. */
  async kill(): Promise<void> {
    this.#isStopping = true;
    await this.#producer.kill();
    await this.#running;
  }

  #next(): { key: string; value: string } {
    const number = this.#sentCount++;
    return { key: `customer-${number % keysCount}`, value: `${this.#label} ${number}` };
  }
}

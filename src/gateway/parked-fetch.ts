// A fetch that waits for records: woken by the mirror logs that it reads, by a change of one of its
// topics (a promotion ends it at once), by the client's end, or by its deadline. Refuses to know
// what is fetched. Invariant: an event between two waits is not lost, and after `close` nothing of
// it stays subscribed.
import type { MirrorLog } from '../../storage/mirror-log.ts';
import type { TopicDirectory } from './topic-directory.ts';

export interface ParkedOn {
  readonly logs: Iterable<MirrorLog>;
  readonly directory: TopicDirectory;
  /** Names; changes of other topics do not wake. */
  readonly topics: ReadonlySet<string>;
  readonly closed: AbortSignal;
}

export class ParkedFetch {
  readonly #unsubscribe: (() => void)[] = [];
  readonly #logs: ReadonlySet<MirrorLog>;
  #isWoken = false;
  #resume: (() => void) | undefined;

  constructor(on: ParkedOn) {
    const wake = (): void => this.#wake();
    this.#logs = new Set(on.logs);
    for (const log of this.#logs) this.#unsubscribe.push(log.onAdvance(wake));
    this.#unsubscribe.push(on.directory.onChangeOf(on.topics, wake));
    on.closed.addEventListener('abort', wake, { once: true });
    this.#unsubscribe.push(() => on.closed.removeEventListener('abort', wake));
  }

  /** False when a log was opened anew since: its records would not wake this fetch. */
  covers(logs: Iterable<MirrorLog>): boolean {
    return [...logs].every((log) => this.#logs.has(log));
  }

  /**
   * Resolves at the next event, at once when there was one since the last wait, or after the time.
   */
  wait(timeoutMs: number): Promise<void> {
    if (this.#isWoken) {
      this.#isWoken = false;
      return Promise.resolve();
    }
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.#resume?.(), Math.max(0, timeoutMs));
      this.#resume = () => {
        clearTimeout(timer);
        this.#resume = undefined;
        this.#isWoken = false;
        resolve();
      };
    });
  }

  close(): void {
    for (const unsubscribe of this.#unsubscribe) unsubscribe();
    this.#resume?.();
  }

  #wake(): void {
    this.#isWoken = true;
    this.#resume?.();
  }
}

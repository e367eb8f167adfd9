// Mirrors of a link that have fewer partitions than their sources. Owns since when, why, and when
// it is tried again; refuses to know how a mirror grows. Invariant: a mirror that lacks partitions
// is shown so until it has them, over restarts too, and why it cannot have them is an event, once
// for each cause.
import type { Cluster } from '../../cluster/cluster.ts';
import type { LinkRecord, SeenGrowth, TopicRecord } from '../../state/records.ts';
import { backOffMs } from '../../tasks/back-offs.ts';
import { isOperatingError } from '../link-error.ts';
import { messageOf } from '../signal.ts';
import { type GrowthParts, growMirror } from './grow-mirror.ts';

/** What waits for the source may be over with its next answer. */
const waitToldMs = 10_000;
const retryMsMin = 2_000;
const retryMsMax = 60_000;
const recallCause = 'it is known from before a restart, the source has not answered since';

export interface GrowingLink {
  readonly name: string;
  readonly record: LinkRecord;
  readonly cluster: Cluster;
  inBackground(work: () => Promise<void>): void;
}

/** What a mirror lacks of its source. */
export interface Growth extends SeenGrowth {
  /** Why it has not grown yet; null while it is at it. */
  readonly cause: string | null;
}

interface Growing {
  sourcePartitions: number;
  readonly sinceMs: number;
  readonly sinceTimeMs: number;
  /** Of the last attempt. */
  cause: string | null;
  /** Why nothing is attempted now; null: something is. */
  idleCause: string | null;
  failures: number;
  retryAtMs: number;
  isRunning: boolean;
  toldCause: string | null;
}

export class MirrorGrowth {
  readonly #parts: GrowthParts;
  readonly #link: GrowingLink;
  readonly #growing = new Map<string, Growing>();

  constructor(parts: GrowthParts & { readonly link: GrowingLink }) {
    this.#parts = parts;
    this.#link = parts.link;
  }

  of(name: string): Growth | null {
    const growing = this.#growing.get(name);
    if (growing === undefined) return null;
    const { sourcePartitions, sinceTimeMs, cause, idleCause } = growing;
    return { sourcePartitions, sinceTimeMs, cause: idleCause ?? cause };
  }

  /** Monotonic ms since which it is known to lack partitions; null: it lacks none. */
  sinceMs(name: string): number | null {
    return this.#growing.get(name)?.sinceMs ?? null;
  }

  /** It has all partitions, or is nobody's to grow. */
  clear(name: string): void {
    this.#growing.delete(name);
  }

  /** What was known of it before a restart. It may have grown after that was written down. */
  recall({ name, partitions }: TopicRecord, seen: SeenGrowth | undefined): void {
    if (seen === undefined || seen.sourcePartitions <= partitions.length) return;
    const { clock } = this.#parts.context;
    const nowMs = clock.monotonicMs();
    // Of a clock that was set back meanwhile it is not from the future.
    const sinceMs = nowMs - Math.max(0, clock.unixMs() - seen.sinceTimeMs);
    const { sourcePartitions, sinceTimeMs } = seen;
    this.#growing.set(name, {
      ...{ sourcePartitions, sinceMs, sinceTimeMs, cause: null, idleCause: recallCause },
      ...{ failures: 0, retryAtMs: nowMs, isRunning: false, toldCause: null },
    });
  }

  /** Forgets the others: nobody looks at their sources. */
  keep(isWatched: (name: string) => boolean): void {
    for (const name of this.#growing.keys()) if (!isWatched(name)) this.#growing.delete(name);
  }

  /** The source answers, but how many partitions it has is not known: what was known stays. */
  notTold(name: string, why: string): void {
    const growing = this.#growing.get(name);
    if (growing !== undefined) growing.idleCause = why;
  }

  /** The source has so many partitions, more than the mirror. Not null: why it may not grow now. */
  found(record: TopicRecord, sourcePartitions: number, whyIdle: string | null): void {
    const { clock } = this.#parts.context;
    const nowMs = clock.monotonicMs();
    let growing = this.#growing.get(record.name);
    if (growing === undefined) {
      growing = {
        ...{ sourcePartitions, sinceMs: nowMs, sinceTimeMs: clock.unixMs(), cause: null },
        ...{ idleCause: null, failures: 0, retryAtMs: nowMs, isRunning: false, toldCause: null },
      };
      this.#growing.set(record.name, growing);
    }
    growing.sourcePartitions = sourcePartitions;
    growing.idleCause = whyIdle;
    if (whyIdle !== null || growing.isRunning || nowMs < growing.retryAtMs) return;
    growing.isRunning = true;
    const own = growing;
    this.#link.inBackground(() => this.#grow(record, own));
  }

  async #grow(record: TopicRecord, growing: Growing): Promise<void> {
    const count = growing.sourcePartitions;
    try {
      const cause = await growMirror(this.#parts, this.#link, { record, count });
      if (cause !== null) this.#waits(record, growing, cause);
      else if (growing.sourcePartitions === count) this.#growing.delete(record.name);
    } catch (error) {
      const cause = causeOf(error);
      growing.failures++;
      const delayMs = backOffMs(growing.failures, retryMsMin, retryMsMax);
      growing.retryAtMs = this.#parts.context.clock.monotonicMs() + delayMs;
      growing.cause = cause;
      this.#tell(record, growing);
    } finally {
      growing.isRunning = false;
    }
  }

  #waits(record: TopicRecord, growing: Growing, cause: string): void {
    growing.cause = cause;
    const waitedMs = this.#parts.context.clock.monotonicMs() - growing.sinceMs;
    if (waitedMs >= waitToldMs) this.#tell(record, growing);
  }

  #tell({ name, partitions }: TopicRecord, growing: Growing): void {
    const { cause, sourcePartitions } = growing;
    if (cause === growing.toldCause) return;
    growing.toldCause = cause;
    this.#parts.context.events.warn(
      'mirror_growth_failed',
      `Topic '${name}' has ${partitions.length} of the ${sourcePartitions} partitions of its ` +
        `source, the others are not mirrored: ${cause}`,
      { topic: name, link: this.#link.name, partitions: sourcePartitions, cause },
    );
  }
}

function causeOf(error: unknown): string {
  if (!isOperatingError(error)) throw error;
  return `${error.code}: ${messageOf(error)}`;
}

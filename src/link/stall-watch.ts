// Tells when partitions begin to be STALLED, and when they no longer are, whatever the cause. Owns
// what was told; refuses to know why one stalls (status.ts). Invariant: a stall that lasts until it
// is looked at is told once when it begins and once when it has ended; a source that is lost with
// thousands of partitions makes few events, not thousands.
import { partitionKey } from '../cluster/partition-key.ts';
import type { LinkContext } from './context.ts';
import type { LinkRuntime } from './link.ts';
import type { MirrorTopic } from './mirror/mirror-topics.ts';
import { Loop } from './signal.ts';
import { stallCauses } from './status.ts';

/** Of one look, besides the one that tells what is left. */
const eventsMax = 20;

interface Stall {
  readonly link: string;
  readonly topic: string;
  readonly partition: number;
  readonly cause: string;
  /** When it was seen first. */
  readonly sinceMs: number;
}

export interface StallWatchParts {
  readonly context: LinkContext;
  readonly topics: { readonly all: Iterable<MirrorTopic> };
  readonly linkOf: (topic: MirrorTopic) => LinkRuntime | undefined;
}

export class StallWatch {
  readonly #parts: StallWatchParts;
  #stalls: ReadonlyMap<string, Stall> = new Map();
  readonly #loop: Loop;

  constructor(parts: StallWatchParts) {
    this.#parts = parts;
    this.#loop = new Loop(async () => {
      this.look();
      return parts.context.limits.stallWatchMs;
    });
  }

  start(): void {
    this.#loop.start();
  }

  async close(): Promise<void> {
    await this.#loop.close();
  }

  /** One look. An instance that may not act has nothing to say of what does not move. */
  look(): void {
    const { context } = this.#parts;
    if (!context.state.lease.isValid()) return;
    const before = this.#stalls;
    this.#stalls = this.#stalled();
    for (const { where, cause, fields } of grouped(without(this.#stalls, before))) {
      context.events.warn('mirror_stall_begun', `${where} STALLED: ${cause}`, fields);
    }
    const nowMs = context.clock.monotonicMs();
    for (const { where, cause, fields, sinceMs } of grouped(without(before, this.#stalls))) {
      const seconds = Math.round((nowMs - sinceMs) / 1000);
      const message = `${where} not STALLED any more, after ${seconds} s: ${cause}`;
      context.events.info('mirror_stall_ended', message, { ...fields, seconds });
    }
  }

  #stalled(): Map<string, Stall> {
    const { context, topics, linkOf } = this.#parts;
    const nowMs = context.clock.monotonicMs();
    const stalls = new Map<string, Stall>();
    for (const topic of topics.all) {
      const { name, link } = topic;
      for (const [partition, cause] of stallCauses(topic, linkOf(topic), context)) {
        const key = partitionKey(name, partition);
        const { sinceMs } = this.#stalls.get(key) ?? { sinceMs: nowMs };
        stalls.set(key, { link, topic: name, partition, cause, sinceMs });
      }
    }
    return stalls;
  }
}

/** What one event tells of. */
interface Group {
  readonly where: string;
  readonly cause: string;
  readonly fields: Readonly<Record<string, string | number>>;
  readonly sinceMs: number;
}

/** By topic and cause; what would be too many events is one, the last. */
function grouped(stalls: readonly Stall[]): readonly Group[] {
  const byCause = new Map<string, [Stall, ...Stall[]]>();
  for (const stall of stalls) {
    const key = `${stall.topic} ${stall.cause}`;
    const group = byCause.get(key);
    if (group === undefined) byCause.set(key, [stall]);
    else group.push(stall);
  }
  const groups = [...byCause.values()];
  const told = groups.slice(0, eventsMax).map(groupOfTopic);
  const others = groups.slice(eventsMax);
  return others[0] === undefined ? told : [...told, groupOfOthers(others.flat(), others[0][0])];
}

function groupOfTopic(stalls: readonly [Stall, ...Stall[]]): Group {
  const [{ link, topic, cause }] = stalls;
  const partitions = stalls.map(({ partition }) => partition).join(',');
  const are = stalls.length === 1 ? `partition ${partitions} is` : `partitions ${partitions} are`;
  const fields = { link, topic, partitions, count: stalls.length, cause };
  return { where: `'${topic}': ${are}`, cause, fields, sinceMs: oldest(stalls) };
}

function groupOfOthers(stalls: readonly Stall[], { topic, cause }: Stall): Group {
  const where = `${stalls.length} partitions more, of '${topic}' and other topics, are`;
  return { where, cause, fields: { count: stalls.length, cause }, sinceMs: oldest(stalls) };
}

function oldest(stalls: readonly Stall[]): number {
  return stalls.reduce((least, { sinceMs }) => Math.min(least, sinceMs), Number.POSITIVE_INFINITY);
}

function without(
  stalls: ReadonlyMap<string, Stall>,
  others: ReadonlyMap<string, Stall>,
): readonly Stall[] {
  return [...stalls].filter(([key]) => !others.has(key)).map(([, stall]) => stall);
}

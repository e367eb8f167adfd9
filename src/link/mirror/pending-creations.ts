// Mirrors whose making was cut short by a crash or a lost answer: gone on with, in the background.
// Owns which link's are at it; refuses to know how mirrors are made. Invariants: a source that does
// not answer holds up the mirrors of its own link and nothing else; of one link so many are made at
// a time.
import type { LinkContext } from '../context.ts';
import type { LinkRuntime } from '../link.ts';
import { isOperatingError } from '../link-error.ts';
import { forEachLimited, messageOf } from '../signal.ts';
import type { MirrorCreator } from './create-mirror.ts';

const creationsInFlight = 16;

export interface PendingCreationsParts {
  readonly context: Pick<LinkContext, 'state' | 'events'>;
  readonly creator: Pick<MirrorCreator, 'resume'>;
  readonly link: (name: string) => LinkRuntime | undefined;
}

export class PendingCreations {
  readonly #parts: PendingCreationsParts;
  /** By link. */
  readonly #underWay = new Map<string, Promise<void>>();
  #isClosed = false;

  constructor(parts: PendingCreationsParts) {
    this.#parts = parts;
  }

  /** Begins with those of each link that is not at it. */
  takeUp(): void {
    if (this.#isClosed) return;
    const { state } = this.#parts.context;
    const byLink = new Map<string, string[]>();
    for (const record of state.view.topics.values()) {
      if (record.state !== 'PENDING_MIRROR') continue;
      byLink.set(record.link, [...(byLink.get(record.link) ?? []), record.name]);
    }
    for (const [name, topics] of byLink) {
      const link = this.#parts.link(name);
      if (link === undefined || this.#underWay.has(name)) continue;
      const run = forEachLimited(topics, creationsInFlight, (topic) => this.#resume(link, topic));
      this.#underWay.set(
        name,
        run.finally(() => this.#underWay.delete(name)),
      );
    }
  }

  /** Whoever calls has ended the connections to the sources. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all(this.#underWay.values());
  }

  /** Does not reject. */
  async #resume(link: LinkRuntime, topic: string): Promise<void> {
    const { creator, context } = this.#parts;
    if (this.#isClosed || !context.state.lease.isValid()) return;
    try {
      await creator.resume(link, topic);
    } catch (error) {
      context.events.emit(
        isOperatingError(error) ? 'warn' : 'error',
        'mirror_create_pending',
        `Topic '${topic}' cannot be created yet: ${messageOf(error)}`,
        { topic, link: link.name },
      );
    }
  }
}

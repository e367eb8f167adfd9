// Events: the one way in which the service says that something that matters has happened. A
// bounded ring in memory for the admin API, and subscribers (the log). Names are stable, values
// carry no secrets. Invariants (R14): the ring keeps of each text only the beginning, and loses the
// oldest of what it has most of; a client chooses its own name, and may be refused as often as it
// likes, which takes nothing else away.
import { mayHaveSecret, scrubSecrets } from './scrub.ts';

export type EventFields = Readonly<Record<string, string | number | boolean | null>>;

export interface ServiceEvent {
  readonly id: number;
  readonly timeMs: number;
  readonly level: 'info' | 'warn' | 'error';
  /** Stable snake_case name, e.g. `mirror_state_changed`, `lease_lost`, `link_unreachable`. */
  readonly event: string;
  /** One sentence for a person. */
  readonly message: string;
  readonly fields: EventFields;
}

/** Of each text that is kept in the ring; subscribers get all of it. */
const messageCharactersMax = 1000;
const fieldCharactersMax = 300;
/** No event has more. */
const fieldsMax = 12;

/** What one event in the ring takes at most, at two bytes a character. */
export const eventBytesMax = 2 * (messageCharactersMax + fieldsMax * fieldCharactersMax);

/** For texts that are kept and whose length is somebody else's choice. */
export function beginning(text: string, charactersMax: number): string {
  if (text.length <= charactersMax) return text;
  // A copy: a slice would keep the whole text in memory.
  return Buffer.from(`${text.slice(0, charactersMax - 1)}…`, 'utf16le').toString('utf16le');
}

function withTexts(fields: EventFields, change: (text: string) => string): EventFields {
  const changed = Object.entries(fields).map(
    ([name, value]) => [name, typeof value === 'string' ? change(value) : value] as const,
  );
  return Object.fromEntries(changed);
}

function isShort({ message, fields }: ServiceEvent): boolean {
  const isLong = (text: string): boolean => text.length > fieldCharactersMax;
  return message.length <= messageCharactersMax && !hasText(fields, isLong);
}

function hasText(fields: EventFields, is: (text: string) => boolean): boolean {
  for (const name in fields) {
    const value = fields[name];
    if (typeof value === 'string' && is(value)) return true;
  }
  return false;
}

function shortened(entry: ServiceEvent): ServiceEvent {
  return {
    ...entry,
    message: beginning(entry.message, messageCharactersMax),
    fields: withTexts(entry.fields, (text) => beginning(text, fieldCharactersMax)),
  };
}

export class Events {
  readonly #ring: ServiceEvent[] = [];
  readonly #ringMax: number;
  /** How many of each name are in the ring. */
  readonly #counts = new Map<string, number>();
  readonly #listeners = new Set<(event: ServiceEvent) => void>();
  readonly #now: () => number;
  #nextId = 1;

  constructor(options: { ringMax?: number; now?: () => number } = {}) {
    this.#ringMax = options.ringMax ?? 10_000;
    this.#now = options.now ?? Date.now;
  }

  emit(
    level: ServiceEvent['level'],
    event: string,
    message: string,
    fields: EventFields = {},
  ): void {
    const entry = {
      id: this.#nextId++,
      timeMs: this.#now(),
      level,
      event,
      message: scrubSecrets(message),
      fields: hasText(fields, mayHaveSecret) ? withTexts(fields, scrubSecrets) : fields,
    };
    this.#ring.push(isShort(entry) ? entry : shortened(entry));
    this.#counts.set(event, (this.#counts.get(event) ?? 0) + 1);
    if (this.#ring.length > this.#ringMax) this.#drop();
    for (const listener of this.#listeners) listener(entry);
  }

  #drop(): void {
    let [most, mostCount] = ['', 0];
    for (const [name, count] of this.#counts) {
      if (count > mostCount) [most, mostCount] = [name, count];
    }
    const oldest = this.#ring.findIndex(({ event }) => event === most);
    this.#ring.splice(oldest, 1);
    if (mostCount > 1) this.#counts.set(most, mostCount - 1);
    else this.#counts.delete(most);
  }

  info(event: string, message: string, fields?: EventFields): void {
    this.emit('info', event, message, fields);
  }

  warn(event: string, message: string, fields?: EventFields): void {
    this.emit('warn', event, message, fields);
  }

  error(event: string, message: string, fields?: EventFields): void {
    this.emit('error', event, message, fields);
  }

  /** Events with an id above `afterId`, oldest first. */
  since(afterId: number): readonly ServiceEvent[] {
    return this.#ring.filter((entry) => entry.id > afterId);
  }

  subscribe(listener: (event: ServiceEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

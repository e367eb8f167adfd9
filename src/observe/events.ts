// Events: the one way in which the service says that something that matters has happened. A bounded
// ring in memory for the admin API, and subscribers (the log). Names are stable, values carry no
// secrets.

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

export class Events {
  readonly #ring: ServiceEvent[] = [];
  readonly #ringMax: number;
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
    const entry = { id: this.#nextId++, timeMs: this.#now(), level, event, message, fields };
    this.#ring.push(entry);
    if (this.#ring.length > this.#ringMax) this.#ring.shift();
    for (const listener of this.#listeners) listener(entry);
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

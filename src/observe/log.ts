// The log: one JSON line on stdout for each event that matters, none per request. A subscriber of
// Events; besides, one line for each client connection opened and closed, which is no event:
// thousands of clients would push everything else out of the ring. Invariant: `event` is a stable
// name, and no secret passes.
import { type Logger, pino } from 'pino';
import type { CausewayConfig } from '../config/config.ts';
import type { EventFields, Events } from './events.ts';
import { scrubSecrets } from './scrub.ts';

export type { Logger } from 'pino';

/** Where lines go; anything with pino's `write(line)`. */
export interface LogTarget {
  write(line: string): void;
}

export interface LoggerOptions {
  readonly level: CausewayConfig['log']['level'];
  /** The instance name, on every line. */
  readonly name: string;
  /** Default: stdout, written at once, so that the last lines before an end are not lost. */
  readonly target?: LogTarget;
}

export function createLogger(options: LoggerOptions): Logger {
  const target = options.target ?? pino.destination({ fd: 1, sync: true });
  return pino(
    {
      level: options.level,
      base: { service: 'causeway', name: options.name },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      messageKey: 'message',
    },
    target,
  );
}

function line(
  head: Readonly<Record<string, unknown>>,
  values: EventFields,
): Record<string, unknown> {
  const fields: Record<string, unknown> = { ...head };
  for (const [key, value] of Object.entries(values)) {
    // Names that the line itself needs are kept apart, so that no field can pass for one of them.
    const name = key in fields || key === 'level' || key === 'message' ? `field_${key}` : key;
    fields[name] = typeof value === 'string' ? scrubSecrets(value) : value;
  }
  return fields;
}

/** Writes every event from now on. Returns the function that stops it. */
export function logEvents(events: Events, logger: Logger): () => void {
  return events.subscribe((event) => {
    const head = { event: event.event, id: event.id };
    logger[event.level](line(head, event.fields), scrubSecrets(event.message));
  });
}

/** Writes the line of a client connection. */
export function logConnection(
  logger: Logger,
  phase: 'opened' | 'closed',
  connection: EventFields,
): void {
  const event = `connection_${phase}`;
  logger.info(line({ event }, connection), `Connection of ${connection.client} ${phase}.`);
}

// The log: one JSON line on stdout for each event that matters, none per request. A subscriber of Events;
// nothing else in the service writes log lines. Invariant: `event` is a stable name, and no secret passes.
import { type Logger, pino } from 'pino';
import type { CausewayConfig } from '../config/config.ts';
import type { Events, ServiceEvent } from './events.ts';
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

function line(event: ServiceEvent): Record<string, unknown> {
  const fields: Record<string, unknown> = { event: event.event, id: event.id };
  for (const [key, value] of Object.entries(event.fields)) {
    // Names that the line itself needs are kept apart, so that no field can pass for one of them.
    const name = key in fields || key === 'level' || key === 'message' ? `field_${key}` : key;
    fields[name] = typeof value === 'string' ? scrubSecrets(value) : value;
  }
  return fields;
}

/** Writes every event from now on. Returns the function that stops it. */
export function logEvents(events: Events, logger: Logger): () => void {
  return events.subscribe((event) => {
    logger[event.level](line(event), scrubSecrets(event.message));
  });
}

// The long poll on events: answers at once when there are events after an id, otherwise with the
// first that comes, or with none when the time is over, the client has gone, or the server closes.
// Holds no timer and no subscription afterwards.
import type { Events, ServiceEvent } from '../observe/events.ts';

export interface EventWait {
  readonly since: number;
  readonly waitMs: number;
  readonly signals: readonly AbortSignal[];
}

export function waitForEvents(events: Events, wait: EventWait): Promise<readonly ServiceEvent[]> {
  const found = events.since(wait.since);
  const isOver = wait.signals.some((signal) => signal.aborted);
  if (found.length > 0 || wait.waitMs === 0 || isOver) return Promise.resolve(found);
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      unsubscribe();
      for (const signal of wait.signals) signal.removeEventListener('abort', done);
      resolve(events.since(wait.since));
    };
    const timer = setTimeout(done, wait.waitMs);
    const unsubscribe = events.subscribe((event) => {
      if (event.id > wait.since) done();
    });
    for (const signal of wait.signals) signal.addEventListener('abort', done, { once: true });
  });
}

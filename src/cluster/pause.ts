// Waiting for a time, for back-off: ends early, without an error, when the signal is aborted, so
// that whoever waits looks at its own state again. Invariant: no timer outlives its signal.
export function pauseMs(waitMs: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted || waitMs <= 0) return Promise.resolve();
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, waitMs);
    signal.addEventListener('abort', done);
  });
}

// A serving process: starts the service, and ends it in order on a signal, or after a fault that
// nobody handled, which is logged and ends the process: shared state may be wrong then.
import closeWithGrace from 'close-with-grace';
import { connectDestination } from './clients.ts';
import type { CausewayConfig } from './config/config.ts';
import { type OffsetShift, parseOffsetShift } from './gateway/shifted-directory.ts';
import { startCauseway } from './main.ts';
import { createLogger } from './observe/log.ts';
import { scrubSecrets } from './observe/scrub.ts';
import { connectionWarnings } from './startup.ts';
import { importState, type TransferResult } from './state/transfer.ts';

/** After this the process ends without waiting any longer. */
const closeTimeoutMs = 15_000;

/** Not a setting for users: foreign test suites are run through it (test/compat/). */
function offsetShift(): OffsetShift | undefined {
  const text = process.env.CAUSEWAY_TEST_OFFSET_SHIFT;
  return text === undefined ? undefined : parseOffsetShift(text);
}

const checkTimeoutMs = 3_000;

/**
 * Never resolves once the service runs: the process ends from within. Rejects when the start fails.
 */
export async function serveUntilSignal(
  config: CausewayConfig,
  options: { acceptLoss: boolean; takeOver: boolean },
): Promise<never> {
  const logger = createLogger({ level: config.log.level, name: config.name });
  const starting = startCauseway(config, { ...options, offsetShift: offsetShift(), logger });
  const grace = closeWithGrace(
    { delay: closeTimeoutMs, logger: null, skip: ['beforeExit'] },
    async ({ err, signal }) => {
      if (err !== undefined) {
        const detail = scrubSecrets(err.stack ?? String(err));
        logger.fatal({ event: 'unhandled_fault', detail }, 'A fault that nobody handled.');
      } else if (signal !== undefined) {
        logger.info({ event: 'signal', signal }, `Stopping on ${signal}.`);
      }
      // A start that has not finished is left where it is: everything it does is safe to cut.
      const service = await Promise.race([starting, Promise.resolve(undefined)]);
      await service?.close();
    },
  );
  try {
    await starting;
  } catch (error) {
    grace.uninstall();
    throw error;
  }
  return new Promise<never>(() => undefined);
}

/** What `serve --check` asks of the destination. */
export async function destinationWarnings(config: CausewayConfig): Promise<string[]> {
  const cluster = connectDestination(config, { requestTimeoutMs: checkTimeoutMs });
  try {
    return await connectionWarnings(config, cluster);
  } finally {
    await cluster.close();
  }
}

export async function importStateFromFile(
  config: CausewayConfig,
  file: string,
): Promise<TransferResult> {
  const cluster = connectDestination(config);
  try {
    return await importState({
      name: config.name,
      cluster,
      clock: { now: () => performance.now(), wallMs: () => Date.now() },
      file,
    });
  } finally {
    await cluster.close();
  }
}

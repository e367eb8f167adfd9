// The CliIo of a real process: stdout, stderr, stdin, environment, Ctrl-C. Signals are listened to
// only while a command follows something, so that Ctrl-C ends all others at once, as usual.
import { createInterface } from 'node:readline/promises';
import { setTimeout as delay } from 'node:timers/promises';
import type { CliIo } from './io.ts';

async function readAll(): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of process.stdin) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks).toString('utf8');
}

async function ask(question: string): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return await lines.question(question);
  } finally {
    lines.close();
  }
}

/** From now on Ctrl-C fires the signal instead of ending the process. */
function catchInterrupt(): AbortSignal {
  const interrupt = new AbortController();
  process.once('SIGINT', () => interrupt.abort());
  process.once('SIGTERM', () => interrupt.abort());
  return interrupt.signal;
}

export function processIo(): CliIo {
  let interrupted: AbortSignal | undefined;
  return {
    out: (text) => void process.stdout.write(text),
    error: (text) => void process.stderr.write(text),
    environment: process.env,
    isInteractive: process.stdin.isTTY === true && process.stderr.isTTY === true,
    ask,
    readInput: readAll,
    get interrupted() {
      interrupted ??= catchInterrupt();
      return interrupted;
    },
    pause: async (ms) => {
      await delay(ms);
    },
    now: () => performance.now(),
  };
}

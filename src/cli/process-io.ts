// The CliIo of a real process: stdout, stderr, stdin, environment, Ctrl-C. Signals are listened to
// only while a command follows something, so that Ctrl-C ends all others at once, as usual.
// Invariant: output that nobody reads any more (`| head`) ends the command without a word, output
// that cannot be written with one line.
import { writeSync } from 'node:fs';
import { createInterface } from 'node:readline/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { type CliIo, ExitCode } from './io.ts';

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

/** Only once it is written to: `serve` writes its log past it, and leaves it as it was. */
function writerTo(stream: 'stdout' | 'stderr'): (text: string) => void {
  let isOpen = false;
  return (text) => {
    const output = process[stream];
    if (!isOpen) output.on('error', endWithout);
    isOpen = true;
    output.write(text);
  };
}

function endWithout({ message, code }: NodeJS.ErrnoException): never {
  if (code !== 'EPIPE') writeSync(2, `causeway: the output cannot be written: ${message}\n`);
  process.exit(ExitCode.failed);
}

export function processIo(): CliIo {
  let interrupted: AbortSignal | undefined;
  return {
    out: writerTo('stdout'),
    error: writerTo('stderr'),
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

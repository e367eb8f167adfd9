// Runs of the command line inside the test's process: what it says and how it ends, by itself or
// against an admin server with a LinkService in memory. Knows nothing of the commands. Invariant:
// waiting costs no time, the clock moves with each pause.
import assert from 'node:assert/strict';
import { afterEach, beforeEach } from 'node:test';
import { type AdminServer, startAdminServer } from '../../../src/admin/server.ts';
import type { CliIo } from '../../../src/cli/io.ts';
import { runWith } from '../../../src/cli/main.ts';
import { type FakeServices, fakeServices } from '../admin/fake-services.ts';

export interface Outcome {
  readonly code: number;
  readonly out: string;
  readonly error: string;
}

export interface IoOptions {
  readonly url?: string;
  readonly input?: string;
  /** Answers to questions; without them nobody is there to be asked. */
  readonly answers?: string[];
  readonly interrupted?: AbortSignal;
  readonly onOut?: (text: string) => void;
}

export async function runCli(
  url: string,
  argv: readonly string[],
  options: IoOptions = {},
): Promise<Outcome> {
  const written = { out: '', error: '' };
  let clock = 0;
  const io: CliIo = {
    out: (text) => {
      written.out += text;
      options.onOut?.(text);
    },
    error: (text) => {
      written.error += text;
    },
    environment: { CAUSEWAY_URL: options.url ?? url },
    isInteractive: options.answers !== undefined,
    ask: async () => options.answers?.shift() ?? '',
    readInput: async () => options.input ?? '',
    interrupted: options.interrupted ?? new AbortController().signal,
    pause: async (ms) => {
      clock += ms;
    },
    now: () => clock,
  };
  const code = await runWith(argv, io);
  return { code, ...written };
}

export function assertOneLine(outcome: Outcome, code: number, word: RegExp): void {
  assert.equal(outcome.code, code, outcome.error + outcome.out);
  assert.match(outcome.error, /^causeway: [^\n]+\n$/);
  assert.match(outcome.error, word);
}

/** Each test of the file that makes one gets a server of its own, with services of its own. */
export class ServedCli {
  services = fakeServices();
  #server: AdminServer | undefined;

  constructor(fill: (services: FakeServices) => void = () => undefined) {
    beforeEach(async () => {
      this.services = fakeServices();
      fill(this.services);
      this.#server = await startAdminServer(this.services, { bind: '127.0.0.1', port: 0 });
    });
    afterEach(() => this.close());
  }

  get url(): string {
    return this.#server?.url ?? '';
  }

  run(argv: readonly string[], options: IoOptions = {}): Promise<Outcome> {
    return runCli(this.url, argv, options);
  }

  async close(): Promise<void> {
    await this.#server?.close();
  }
}

// The named places at which a test can have the proxy killed with -9: each step of create, growth,
// promote and failover, before and after what it changes.
//
// Owns: the names, and arming one of them. The places themselves are put into the proxy from
// outside, by fault-preload.ts: a build for production has none. Invariant: an armed point kills
// the proxy once, the next time that it is reached.

import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { rootDirectory } from './repository.ts';

export const faultPoints = [
  'create.before-intent',
  'create.intent-committed',
  'create.before-shell',
  'create.shell-created',
  'create.log-created',
  'create.before-active',
  'create.active-committed',
  'grow.before-shell',
  'grow.shell-grown',
  'grow.log-created',
  'grow.before-commit',
  'grow.committed',
  'promote.before-start',
  'promote.start-committed',
  'promote.draining',
  'promote.final-offsets',
  'promote.switching',
  'promote.before-commit',
  'promote.committed',
  'failover.closing',
  'failover.before-cuts',
  'failover.cuts-committed',
  'failover.aborts-appended',
  'failover.before-commit',
  'failover.committed',
] as const;

export type FaultPoint = (typeof faultPoints)[number];

/** Where fault-preload.ts looks whether a point is armed. */
export const faultDirectoryVariable = 'CAUSEWAY_TEST_FAULTS';

export class FaultPoints {
  readonly #directory: string;

  private constructor(directory: string) {
    this.#directory = directory;
  }

  static async prepare(): Promise<FaultPoints> {
    return new FaultPoints(await mkdtemp(path.join(os.tmpdir(), 'causeway-faults-')));
  }

  /** For the environment of a proxy. */
  get env(): Record<string, string> {
    // Compiled, like the proxy: it has to change the very classes that the proxy runs.
    const preload = path.join(rootDirectory, 'dist/test/helpers/fault-preload.js');
    return {
      NODE_OPTIONS: `--import ${pathToFileURL(preload).href}`,
      [faultDirectoryVariable]: this.#directory,
    };
  }

  async arm(point: FaultPoint): Promise<void> {
    await writeFile(path.join(this.#directory, point), '');
  }

  isArmed(point: FaultPoint): boolean {
    return existsSync(path.join(this.#directory, point));
  }

  async remove(): Promise<void> {
    await rm(this.#directory, { recursive: true, force: true });
  }
}

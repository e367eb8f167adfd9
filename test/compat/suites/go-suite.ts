// Test suites of Go modules: their sources are in the module archive that `go mod download` brings.
// Owns the writable copy, the compiled test binary, and what `-test.v` says of a test.

import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { withFileLock } from '../../helpers/file-lock.ts';
import { cacheDirectory } from '../../helpers/repository.ts';
import { mustRun, runCommand, type TestRun } from './suite.ts';

export interface GoModule {
  /** `path@version`. */
  readonly module: string;
  readonly package: string;
  readonly tags?: string;
  /** What is changed in a file of the package before it is compiled. */
  readonly change?: {
    readonly file: string;
    readonly from: string;
    readonly to: string;
    /** A file that the change needs beside it. */
    readonly added?: { readonly file: string; readonly text: string };
  };
}

/** The binary, and the package's own directory, in which it has to run. */
export interface GoTests {
  readonly binary: string;
  readonly directory: string;
}

const testTimeoutMs = 300_000;

async function moduleDirectory(module: string): Promise<string> {
  // Outside of any module, so that the answer does not depend on one.
  const said = await mustRun('go', ['mod', 'download', '-json', module], { cwd: '/' });
  const { Dir } = JSON.parse(said.slice(said.indexOf('{'))) as { Dir: string };
  return Dir;
}

/** A text that is not there is an error: the change would be lost with the next version. */
async function changeFile(
  directory: string,
  { file, from, to, added }: NonNullable<GoModule['change']>,
): Promise<void> {
  const where = path.join(directory, file);
  const text = await readFile(where, 'utf8');
  if (!text.includes(from)) throw new Error(`${where} has no '${from}' to be changed`);
  await writeFile(where, text.replace(from, to));
  if (added !== undefined) await writeFile(path.join(directory, added.file), added.text);
}

/** Sources with another change are other sources. */
function nameOf(change: GoModule['change']): string {
  if (change === undefined) return '';
  return `-${createHash('sha256').update(JSON.stringify(change)).digest('hex').slice(0, 8)}`;
}

/** Compiles the tests of a package, once for each version and each change to it. */
export async function compileGoTests(module: GoModule): Promise<GoTests> {
  const { change } = module;
  const name = module.module.replaceAll(/[^\w.@-]+/g, '_') + nameOf(change);
  const root = path.join(cacheDirectory, 'compat', name);
  const directory = path.join(root, module.package);
  const binary = path.join(root, 'compat.test');
  await mkdir(path.dirname(root), { recursive: true });
  await withFileLock(`${root}.lock`, async () => {
    if (existsSync(binary)) return;
    process.stderr.write(`# fetching ${module.module} and compiling its tests, once\n`);
    await rm(root, { recursive: true, force: true });
    await cp(await moduleDirectory(module.module), root, { recursive: true });
    await mustRun('chmod', ['-R', 'u+w', root]);
    if (change !== undefined) await changeFile(directory, change);
    const tags = module.tags === undefined ? [] : ['-tags', module.tags];
    await mustRun('go', ['test', '-c', ...tags, '-o', binary, '.'], { cwd: directory });
  });
  return { binary, directory };
}

export async function listGoTests(
  { binary, directory }: GoTests,
  env: Readonly<Record<string, string>> = {},
): Promise<string[]> {
  const said = await mustRun(binary, ['-test.list', '.*'], { cwd: directory, env });
  return said.split('\n').filter((line) => line.startsWith('Test'));
}

/** One test in a process of its own. */
export async function runGoTest(
  { binary, directory }: GoTests,
  test: string,
  env: Readonly<Record<string, string>>,
): Promise<TestRun> {
  const args = ['-test.run', `^${test}$`, '-test.v', '-test.timeout', `${testTimeoutMs}ms`];
  const { code, output } = await runCommand(binary, args, {
    cwd: directory,
    env,
    timeoutMs: testTimeoutMs + 10_000,
  });
  if (code !== 0) return { verdict: 'fail', output };
  const isSkipped = output.includes(`--- SKIP: ${test} `);
  return { verdict: isSkipped ? 'skip' : 'pass', output };
}

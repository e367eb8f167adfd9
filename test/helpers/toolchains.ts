// What foreign clients need before they can be started, made once and kept in `.cache/`.
//
// Owns: compiling the Java and Go programs, the Python environment with librdkafka, and the reason
// to skip when a toolchain is missing. Registries and proxies are left to each tool's own settings.
// Invariant: a finished artefact carries the hash of what it was made from; a change makes it anew.

import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { withFileLock } from './file-lock.ts';
import { kafkaJars } from './kafka-jars.ts';
import { cacheDirectory, rootDirectory } from './repository.ts';

const run = promisify(execFile);
const programsDirectory = path.join(rootDirectory, 'test/clients/programs');

export type Toolchain = 'java' | 'python' | 'go' | 'node';

export const confluentKafkaVersion = '2.16.1';
const kafkaPythonVersion = '3.0.12';

export function programFile(...parts: string[]): string {
  return path.join(programsDirectory, ...parts);
}

async function answers(command: string, args: string[]): Promise<boolean> {
  try {
    await run(command, args, { timeout: 60_000 });
    return true;
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'ENOENT' || typeof code === 'number') return false;
    throw error;
  }
}

function hashOf(folder: string, extra: string): string {
  const hash = createHash('sha256').update(extra);
  for (const name of readdirSync(folder).sort()) {
    if (!/\.(java|go|mod|sum)$/.test(name)) continue;
    hash.update(name).update(readFileSync(path.join(folder, name)));
  }
  return hash.digest('hex').slice(0, 16);
}

/** Makes a directory once: `make` fills it aside, then it gets its name. */
async function makeOnce(target: string, make: (aside: string) => Promise<void>): Promise<string> {
  if (existsSync(target)) return target;
  await withFileLock(`${target}.lock`, async () => {
    if (existsSync(target)) return;
    const aside = `${target}.making-${process.pid}`;
    await rm(aside, { recursive: true, force: true });
    await mkdir(aside, { recursive: true });
    await make(aside);
    await rename(aside, target);
  });
  return target;
}

function announce(what: string): void {
  process.stderr.write(`# ${what}\n`);
}

/** The folder with the compiled Java programs. */
export async function javaPrograms(): Promise<string> {
  const jars = await kafkaJars();
  const sources = programFile('java');
  const target = path.join(cacheDirectory, 'java', hashOf(sources, path.basename(jars)));
  return makeOnce(target, async (aside) => {
    announce('compiling the Java test clients');
    const files = readdirSync(sources).filter((name) => name.endsWith('.java'));
    const args = ['-nowarn', '-cp', path.join(jars, '*'), '-d', aside];
    await run('javac', [...args, ...files.map((name) => path.join(sources, name))]);
  });
}

async function goBinary(folder: string, library: string): Promise<string> {
  const sources = programFile(folder);
  const target = path.join(cacheDirectory, 'go', hashOf(sources, ''));
  const directory = await makeOnce(target, async (aside) => {
    announce(`fetching ${library} and compiling its test client (about 20 MB, once)`);
    await run('go', ['build', '-buildvcs=false', '-o', path.join(aside, 'client'), '.'], {
      cwd: sources,
      timeout: 600_000,
    });
  });
  return path.join(directory, 'client');
}

/** The compiled franz-go program. */
export function goProgram(): Promise<string> {
  return goBinary('go', 'franz-go');
}

/** The compiled sarama program. */
export function saramaProgram(): Promise<string> {
  return goBinary('sarama', 'sarama');
}

async function pythonWith(library: string, version: string, name: string): Promise<string> {
  // An environment holds its own path, so it is made in place; the mark says that it is complete.
  const directory = path.join(cacheDirectory, 'python', name);
  const mark = path.join(directory, 'complete');
  const interpreter = path.join(directory, 'bin/python');
  if (existsSync(mark)) return interpreter;
  await withFileLock(`${directory}.lock`, async () => {
    if (existsSync(mark)) return;
    announce(`installing ${library} for Python (about 5 MB, once)`);
    await rm(directory, { recursive: true, force: true });
    await run('python3', ['-m', 'venv', directory], { timeout: 300_000 });
    const requirement = `${library}==${version}`;
    await run(interpreter, ['-m', 'pip', 'install', '-q', requirement], { timeout: 600_000 });
    await writeFile(mark, '');
  });
  return interpreter;
}

/** The Python interpreter of an environment that has librdkafka. */
export function pythonInterpreter(): Promise<string> {
  return pythonWith('confluent-kafka', confluentKafkaVersion, confluentKafkaVersion);
}

/** The Python interpreter of an environment that has kafka-python, which is Python all through. */
export function kafkaPythonInterpreter(): Promise<string> {
  return pythonWith('kafka-python', kafkaPythonVersion, `kafka-python-${kafkaPythonVersion}`);
}

const missingReasons = new Map<Toolchain, Promise<string | undefined>>();

async function findMissing(toolchain: Toolchain): Promise<string | undefined> {
  switch (toolchain) {
    case 'node':
      return undefined;
    case 'java': {
      const hasJava =
        (await answers('java', ['-version'])) && (await answers('javac', ['-version']));
      if (!hasJava) return 'no JDK here: install openjdk-17-jdk-headless';
      return (await answers('mvn', ['-version'])) ? undefined : 'no Maven here: install maven';
    }
    case 'python':
      return (await answers('python3', ['-c', 'import venv, ensurepip']))
        ? undefined
        : 'no Python with venv here: install python3-venv';
    case 'go':
      // The module names the Go version that franz-go needs; an older one refuses to read it.
      return (await answers('go', ['-C', programFile('go'), 'list', '-m']))
        ? undefined
        : 'no Go 1.26 or later here: install it from your distribution or go.dev';
  }
}

/** Why clients of this toolchain cannot run on this machine, or undefined when they can. */
export function missingToolchain(toolchain: Toolchain): Promise<string | undefined> {
  let reason = missingReasons.get(toolchain);
  if (!reason) {
    reason = findMissing(toolchain);
    missingReasons.set(toolchain, reason);
  }
  return reason;
}

/**
 * Runs the oracles: Kafka's own classes in the Java programs beside this file, compiled once into
 * `.cache/oracle/` against the jars that the test brokers use. Without Java (or, for the first
 * fetch, Maven) it says so, and tests skip with that line.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { findJar } from '../../protocol/generate/jar.ts';
import { kafkaJars } from '../helpers/kafka-jars.ts';
import { cacheDirectory, rootDirectory } from '../helpers/repository.ts';

const sources = ['Oracle.java', 'BatchOracle.java'].map((name) =>
  join(rootDirectory, 'test', 'oracle', name),
);

export interface Oracle {
  run(program: 'Oracle' | 'BatchOracle', args: string[], input?: Buffer): Promise<Buffer>;
}

function hasCommand(command: string): boolean {
  return spawnSync(command, ['-version'], { stdio: 'ignore' }).error === undefined;
}

/** The reason why there can be no oracle here, or false. */
export function oracleMissing(): string | false {
  for (const command of ['java', 'javac']) {
    if (!hasCommand(command)) return `${command} is not installed`;
  }
  if (findJar() !== undefined || hasCommand('mvn')) return false;
  return 'there is no kafka-clients jar in .cache/, and no Maven to fetch it';
}

export async function openOracle(): Promise<Oracle> {
  const libraries = join(await kafkaJars('4.4.0'), '*');
  const classPath = `${compile(libraries)}:${libraries}`;
  return {
    run: (program, args, input) =>
      runJava(['-Xmx256m', '-XX:+UseSerialGC', '-cp', classPath, program, ...args], input),
  };
}

/** The directory of the compiled programs, named after the sources, so that a change recompiles. */
function compile(libraries: string): string {
  const hash = createHash('sha256');
  for (const source of sources) hash.update(readFileSync(source));
  const target = join(cacheDirectory, 'oracle', hash.digest('hex').slice(0, 16));
  if (existsSync(target)) return target;
  const partial = `${target}.${process.pid}`;
  mkdirSync(partial, { recursive: true });
  try {
    execFileSync('javac', ['-cp', libraries, '-d', partial, ...sources], { stdio: 'pipe' });
    renameSync(partial, target);
  } catch (error) {
    rmSync(partial, { recursive: true });
    // Another test process may have been faster; its result is the same.
    if (!existsSync(target)) throw error;
  }
  return target;
}

function runJava(args: string[], input: Buffer | undefined): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const child = spawn('java', args, { stdio: ['pipe', 'pipe', 'pipe'] });
    const output: Buffer[] = [];
    const errors: Buffer[] = [];
    child.stdout.on('data', (chunk: Buffer) => output.push(chunk));
    child.stderr.on('data', (chunk: Buffer) => errors.push(chunk));
    child.on('error', reject);
    child.stdin.on('error', reject);
    child.on('close', (code) => {
      if (code === 0) resolve(Buffer.concat(output));
      else
        reject(new Error(`oracle ended with ${code}: ${Buffer.concat(errors).toString('utf8')}`));
    });
    child.stdin.end(input);
  });
}

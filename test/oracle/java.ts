/**
 * Runs the oracle: Kafka's own message classes in a Java program beside this file, compiled once
 * into `.cache/oracle/`. Without Java or the jars it says why, and tests skip with that line.
 */
import { execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { cacheDirectory, fetchJar, findJar, hasCommand } from '../../protocol/generate/jar.ts';

const source = sourcePath();

/** Tests run from the sources or from `dist/`; the Java file is only beside the sources. */
function sourcePath(): string {
  const here = dirname(fileURLToPath(import.meta.url));
  const candidates = [
    join(here, 'Oracle.java'),
    join(cacheDirectory, '..', 'test', 'oracle', 'Oracle.java'),
  ];
  const found = candidates.find((path) => existsSync(path));
  if (found === undefined) throw new Error('test/oracle/Oracle.java is missing');
  return found;
}

export interface Oracle {
  run(args: string[], input?: Buffer): Promise<Buffer>;
}

/** The oracle, or the reason why there is none. */
export function openOracle(): Oracle | { skip: string } {
  for (const command of ['java', 'javac']) {
    if (!hasCommand(command)) return { skip: `${command} is not installed` };
  }
  const jar = findJar() ?? (hasCommand('mvn') ? fetchJar() : undefined);
  if (jar === undefined)
    return { skip: 'no kafka-clients jar in .cache/, and no Maven to fetch it' };
  const libraries = join(dirname(jar), '*');
  const classPath = `${compile(libraries)}:${libraries}`;
  return {
    run: (args, input) => runJava(['-Xmx256m', '-cp', classPath, 'Oracle', ...args], input),
  };
}

/** The directory of the compiled program, named after its source, so that a change recompiles. */
function compile(libraries: string): string {
  const hash = createHash('sha256').update(readFileSync(source)).digest('hex').slice(0, 16);
  const target = join(cacheDirectory, 'oracle', hash);
  if (existsSync(target)) return target;
  const partial = `${target}.${process.pid}`;
  mkdirSync(partial, { recursive: true });
  execFileSync('javac', ['-cp', libraries, '-d', partial, source], { stdio: 'pipe' });
  if (existsSync(target)) rmSync(partial, { recursive: true });
  else renameSync(partial, target);
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

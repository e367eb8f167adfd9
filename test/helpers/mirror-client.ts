// MirrorMaker 2's client library and formatters, as their users run them: the jars from Maven, and
// one small program that asks them. Owns the jars' folder in the cache; knows nothing of what
// should come out.
// Invariant: the folder exists only when it is complete.
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { withFileLock } from './file-lock.ts';
import { kafkaJars } from './kafka-jars.ts';
import { cacheDirectory, rootDirectory } from './repository.ts';

const run = promisify(execFile);

/** The newest that is to be had with the brokers' versions that tests use. */
const version = '3.9.2';

async function fetchJar(directory: string): Promise<void> {
  const aside = `${directory}.fetching-${process.pid}`;
  await rm(aside, { recursive: true, force: true });
  await mkdir(aside, { recursive: true });
  for (const artifact of ['connect-mirror-client', 'connect-mirror']) {
    const wanted = `-Dartifact=org.apache.kafka:${artifact}:${version}`;
    const args = ['-B', '-q', 'dependency:copy', wanted, `-DoutputDirectory=${aside}`];
    await run('mvn', args, { timeout: 300_000 });
  }
  await rename(aside, directory);
}

async function mirrorClientJars(): Promise<string> {
  const directory = path.join(cacheDirectory, 'mirror-client', version);
  await mkdir(path.dirname(directory), { recursive: true });
  if (!existsSync(directory)) {
    await withFileLock(`${directory}.lock`, async () => {
      if (!existsSync(directory)) await fetchJar(directory);
    });
  }
  return directory;
}

/** The lines of the program in test/oracle/MirrorClientProbe.java. */
export async function askMirrorClient(parts: {
  readonly bootstrap: string;
  readonly alias: string;
  readonly group: string;
}): Promise<readonly string[]> {
  const folders = [await kafkaJars(version), await mirrorClientJars()];
  const classPath = folders.map((folder) => path.join(folder, '*')).join(path.delimiter);
  const program = path.join(rootDirectory, 'test', 'oracle', 'MirrorClientProbe.java');
  const { bootstrap, alias, group } = parts;
  const flags = ['-Xmx128m', '-XX:+UseSerialGC', '-cp', classPath];
  const args = [...flags, program, bootstrap, alias, group];
  const { stdout } = await run('java', args, { timeout: 180_000 });
  return stdout
    .split('\n')
    .filter((line) => /^(offsets |upstream |hops |Heartbeat\{|Checkpoint\{)/.test(line));
}

// The jars of real Kafka brokers and tools, from Maven, one git-ignored folder for each version.
//
// Owns: which artifacts a version needs, the generated pom, and the folder
// `.cache/kafka/<version>/`. Everything about where artifacts come from (mirrors, proxies,
// credentials, the local repository) is left to Maven's own settings.
// Invariant: the folder of a version exists only when it is complete (filled aside, then renamed).

import { execFile } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { withFileLock } from './file-lock.ts';
import { cacheDirectory } from './repository.ts';

const run = promisify(execFile);

export const kafkaVersions = ['4.4.0', '4.0.0', '3.9.2', '3.4.1', '2.8.2'] as const;
export type KafkaVersion = (typeof kafkaVersions)[number];
export const defaultKafkaVersion: KafkaVersion = '4.4.0';

/** Megabytes that a first download takes, for the line that announces it. */
const downloadMegabytes: Record<KafkaVersion, number> = {
  '4.4.0': 55,
  '4.0.0': 55,
  '3.9.2': 75,
  '3.4.1': 60,
  '2.8.2': 55,
};

function dependency(groupId: string, artifactId: string, version: string): string {
  return [
    '    <dependency>',
    `      <groupId>${groupId}</groupId>`,
    `      <artifactId>${artifactId}</artifactId>`,
    `      <version>${version}</version>`,
    '    </dependency>',
  ].join('\n');
}

function pom(version: KafkaVersion): string {
  return `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>causeway.test</groupId>
  <artifactId>kafka-${version}</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
${dependency('org.apache.kafka', 'kafka_2.13', version)}
${dependency('org.apache.kafka', 'kafka-tools', version)}
${dependency('org.slf4j', 'slf4j-reload4j', '1.7.36')}
  </dependencies>
</project>
`;
}

async function fetchJars(version: KafkaVersion, directory: string): Promise<void> {
  const aside = `${directory}.fetching-${process.pid}`;
  await rm(aside, { recursive: true, force: true });
  await mkdir(aside, { recursive: true });
  const pomFile = path.join(aside, 'pom.xml');
  await writeFile(pomFile, pom(version));
  process.stderr.write(
    `# fetching the jars of Kafka ${version} with Maven ` +
      `(about ${downloadMegabytes[version]} MB, once, into ${directory})\n`,
  );
  const args = ['-B', '-q', '-f', pomFile, 'dependency:copy-dependencies'];
  args.push('-DincludeScope=runtime', `-DoutputDirectory=${aside}`);
  try {
    await run('mvn', args, { maxBuffer: 16 << 20, timeout: 600_000 });
  } catch (error) {
    const output = error instanceof Error && 'stdout' in error ? String(error.stdout) : '';
    throw new Error(`Maven could not fetch Kafka ${version}: ${output || String(error)}`, {
      cause: error,
    });
  }
  await rm(directory, { recursive: true, force: true });
  await rename(aside, directory);
}

/** The folder with the jars of a version; fetches them when they are not there yet. */
export async function kafkaJars(version: KafkaVersion = defaultKafkaVersion): Promise<string> {
  const directory = path.join(cacheDirectory, 'kafka', version);
  if (!existsSync(directory)) {
    await withFileLock(`${directory}.lock`, async () => {
      if (!existsSync(directory)) await fetchJars(version, directory);
    });
  }
  return directory;
}

/** A class path with every jar by name, so that a class data archive can be made for it. */
export function classPath(jarDirectory: string): string {
  const names = readdirSync(jarDirectory).filter((name) => name.endsWith('.jar'));
  return names
    .sort()
    .map((name) => path.join(jarDirectory, name))
    .join(path.delimiter);
}

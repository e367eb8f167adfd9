// The jars of real Kafka brokers and tools, from Maven, one git-ignored folder for each version.
//
// Owns: which artifacts a version needs, the generated pom, and the folders
// `.cache/kafka/<version>/` and `.cache/mirrormaker/<version>/`. Everything about where artifacts
// come from (mirrors, proxies, credentials, the local repository) is left to Maven's own settings.
// Invariant: the folder of a version exists only when it is complete (filled aside, then renamed).

import { execFile } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { withFileLock } from './file-lock.ts';
import { cacheDirectory } from './repository.ts';

const run = promisify(execFile);

const logging = 'org.slf4j:slf4j-reload4j:1.7.36';

export const kafkaVersions = ['4.4.0', '4.0.0', '3.9.2', '3.4.1', '2.8.2'] as const;
export type KafkaVersion = (typeof kafkaVersions)[number];
export const defaultKafkaVersion: KafkaVersion = '4.4.0';

/** MirrorMaker 2, which benchmarks are measured against. */
export const mirrorMakerVersion = '4.3.1';

/** Jars from Maven in a folder of their own. */
interface JarFolder {
  /** Below the cache directory. */
  readonly path: string;
  readonly what: string;
  readonly megabytes: number;
  /** `group:artifact:version` */
  readonly artifacts: readonly string[];
}

/** Megabytes that a first download takes, for the line that announces it. */
const downloadMegabytes: Record<KafkaVersion, number> = {
  '4.4.0': 55,
  '4.0.0': 55,
  '3.9.2': 75,
  '3.4.1': 60,
  '2.8.2': 55,
};

function dependency(artifact: string): string {
  const [groupId, artifactId, version] = artifact.split(':');
  return [
    '    <dependency>',
    `      <groupId>${groupId}</groupId>`,
    `      <artifactId>${artifactId}</artifactId>`,
    `      <version>${version}</version>`,
    '    </dependency>',
  ].join('\n');
}

function pom({ path: name, artifacts }: JarFolder): string {
  return `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>causeway.test</groupId>
  <artifactId>${name.replace('/', '-')}</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
${artifacts.map(dependency).join('\n')}
  </dependencies>
</project>
`;
}

async function fetchJars(folder: JarFolder, directory: string): Promise<void> {
  const aside = `${directory}.fetching-${process.pid}`;
  await rm(aside, { recursive: true, force: true });
  await mkdir(aside, { recursive: true });
  const pomFile = path.join(aside, 'pom.xml');
  await writeFile(pomFile, pom(folder));
  const { what, megabytes } = folder;
  process.stderr.write(
    `# fetching the jars of ${what} with Maven (about ${megabytes} MB, once, into ${directory})\n`,
  );
  const args = ['-B', '-q', '-f', pomFile, 'dependency:copy-dependencies'];
  args.push('-DincludeScope=runtime', `-DoutputDirectory=${aside}`);
  try {
    await run('mvn', args, { maxBuffer: 16 << 20, timeout: 600_000 });
  } catch (error) {
    const output = error instanceof Error && 'stdout' in error ? String(error.stdout) : '';
    throw new Error(`Maven could not fetch ${what}: ${output || String(error)}`, { cause: error });
  }
  await rm(directory, { recursive: true, force: true });
  await rename(aside, directory);
}

/** The folder with the jars of a version; fetches them when they are not there yet. */
export function kafkaJars(version: KafkaVersion = defaultKafkaVersion): Promise<string> {
  const names = ['kafka_2.13', 'kafka-tools'];
  return jarFolder({
    path: `kafka/${version}`,
    what: `Kafka ${version}`,
    megabytes: downloadMegabytes[version],
    artifacts: [...names.map((name) => `org.apache.kafka:${name}:${version}`), logging],
  });
}

/** As `kafkaJars`, of MirrorMaker 2. */
export function mirrorMakerJars(): Promise<string> {
  const names = ['connect-mirror', 'connect-runtime'];
  return jarFolder({
    path: `mirrormaker/${mirrorMakerVersion}`,
    what: `MirrorMaker ${mirrorMakerVersion}`,
    megabytes: 45,
    artifacts: [...names.map((name) => `org.apache.kafka:${name}:${mirrorMakerVersion}`), logging],
  });
}

/** Kafka Streams, of the default version. */
export function kafkaStreamsJars(): Promise<string> {
  return jarFolder({
    path: `kafka-streams/${defaultKafkaVersion}`,
    what: `Kafka Streams ${defaultKafkaVersion}`,
    megabytes: 90,
    artifacts: [`org.apache.kafka:kafka-streams:${defaultKafkaVersion}`, logging],
  });
}

/** A Connect worker and its file connectors: the last version of these that repositories have. */
export function kafkaConnectJars(): Promise<string> {
  const names = ['connect-runtime', 'connect-file'];
  return jarFolder({
    path: 'kafka-connect/4.0.0',
    what: 'Kafka Connect 4.0.0',
    megabytes: 60,
    artifacts: [...names.map((name) => `org.apache.kafka:${name}:4.0.0`), logging],
  });
}

async function jarFolder(folder: JarFolder): Promise<string> {
  const directory = path.join(cacheDirectory, folder.path);
  if (!existsSync(directory)) {
    await withFileLock(`${directory}.lock`, async () => {
      if (!existsSync(directory)) await fetchJars(folder, directory);
    });
  }
  return directory;
}

/** Where the archive of the classes that a broker loads is, if it was made. */
export function classArchive(jarDirectory: string): string {
  return `${jarDirectory}.jsa`;
}

/** Flags of a small JVM that starts quickly, over a class path that begins with these jars. */
export function jvmFlags(jarDirectory: string): string[] {
  const flags = ['-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-Xshare:auto'];
  const archive = classArchive(jarDirectory);
  // One that does not fit is left out, and nothing is said of it among the program's own lines.
  if (existsSync(archive)) flags.push(`-XX:SharedArchiveFile=${archive}`, '-Xlog:disable');
  return flags;
}

/** A class path with every jar by name, so that a class data archive can be made for it. */
export function classPath(jarDirectory: string): string {
  const names = readdirSync(jarDirectory).filter((name) => name.endsWith('.jar'));
  return names
    .sort()
    .map((name) => path.join(jarDirectory, name))
    .join(path.delimiter);
}

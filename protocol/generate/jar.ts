/**
 * Where the kafka-clients jar is: at build and test time only. It may have been fetched already by
 * the tests' brokers; else Maven (with the user's own settings) copies it and what it needs into
 * the git-ignored `.cache/`.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

export const kafkaVersion = '4.4.0';

const jarName = `kafka-clients-${kafkaVersion}.jar`;
const repository = resolve(dirname(fileURLToPath(import.meta.url)), '..', '..');

export const cacheDirectory = join(repository, '.cache');

const ownDirectory = join(cacheDirectory, 'kafka-clients');

/** A jar that is already here, or undefined. Its dependencies lie beside it. */
export function findJar(): string | undefined {
  const directories = [join(cacheDirectory, 'kafka', kafkaVersion), ownDirectory];
  return directories.map((directory) => join(directory, jarName)).find((jar) => existsSync(jar));
}

export function hasCommand(command: string): boolean {
  return spawnSync(command, ['-version'], { stdio: 'ignore' }).error === undefined;
}

/** Copies kafka-clients and what it needs (compression, SLF4J) with Maven; returns the jar. */
export function fetchJar(): string {
  mkdirSync(ownDirectory, { recursive: true });
  const pom = join(ownDirectory, 'pom.xml');
  writeFileSync(pom, pomText);
  process.stderr.write(`fetching ${jarName} (about 25 MB with what it needs) with Maven\n`);
  const goal = ['dependency:copy-dependencies', `-DoutputDirectory=${ownDirectory}`];
  execFileSync('mvn', ['-q', '-B', '-f', pom, ...goal], { stdio: ['ignore', 2, 2] });
  return join(ownDirectory, jarName);
}

const pomText = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>local</groupId><artifactId>message-definitions</artifactId><version>1</version>
  <packaging>pom</packaging>
  <dependencies><dependency>
    <groupId>org.apache.kafka</groupId><artifactId>kafka-clients</artifactId>
    <version>${kafkaVersion}</version>
  </dependency></dependencies>
</project>
`;

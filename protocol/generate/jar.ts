/**
 * Where the kafka-clients jar is: at build and test time only. It may have been fetched already by
 * the tests' brokers; else Maven (with the user's own settings) copies it and what it needs into
 * the git-ignored `.cache/`.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const kafkaVersion = '4.4.0';

const jarName = `kafka-clients-${kafkaVersion}.jar`;

/** The root of the repository, from the sources and from `dist/` alike. */
export const repository = findRoot(dirname(fileURLToPath(import.meta.url)));

const cacheDirectory = join(repository, '.cache');
const ownDirectory = join(cacheDirectory, 'kafka-clients');

function findRoot(from: string): string {
  if (existsSync(join(from, 'package.json'))) return from;
  const parent = dirname(from);
  if (parent === from) throw new Error('no package.json above the generator');
  return findRoot(parent);
}

/** A jar that is already here, or undefined. Its dependencies lie beside it. */
export function findJar(): string | undefined {
  const directories = [join(cacheDirectory, 'kafka', kafkaVersion), ownDirectory];
  return directories.map((directory) => join(directory, jarName)).find((jar) => existsSync(jar));
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

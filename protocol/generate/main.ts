/**
 * `npm run generate`: reads the message definitions out of the kafka-clients jar and rewrites
 * `protocol/generated/`. Build time only. The jar is the one given with `--jar`, or one that the
 * tests have fetched already, or it is fetched with Maven into the git-ignored `.cache/`.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { checkMessage } from '../schema/check.ts';
import { isEmpty } from '../schema/versions.ts';
import { emitMessage, fileNameOf } from './emit.ts';
import { emitApis, emitFieldFacts, emitLoaders } from './emit-tables.ts';
import { readDefinitions } from './read.ts';

export const kafkaVersion = '4.4.0';

const jarName = `kafka-clients-${kafkaVersion}.jar`;
const protocolDirectory = resolve(dirname(fileURLToPath(import.meta.url)), '..');
const cacheDirectory = resolve(protocolDirectory, '..', '.cache');
const ownDirectory = join(cacheDirectory, 'kafka-clients');

export const generatedDirectory = join(protocolDirectory, 'generated');

/** File name to content, for every generated file. */
export function generate(jarPath: string): Map<string, string> {
  const messages = readDefinitions(jarPath).map(checkMessage);
  const files = new Map<string, string>();
  for (const message of messages) {
    if (!isEmpty(message.versions)) files.set(fileNameOf(message), emitMessage(message));
  }
  files.set('apis.ts', emitApis(messages));
  files.set('loaders.ts', emitLoaders(messages));
  files.set('field-facts.ts', emitFieldFacts(messages));
  return files;
}

/** A jar that is already here, or undefined. */
export function findJar(): string | undefined {
  const places = [
    join(cacheDirectory, 'kafka', kafkaVersion, jarName),
    join(ownDirectory, jarName),
  ];
  return places.find((place) => existsSync(place));
}

/** Copies kafka-clients and what it needs (compression, SLF4J) with Maven; returns the jar. */
function fetchJar(): string {
  mkdirSync(ownDirectory, { recursive: true });
  const pom = join(ownDirectory, 'pom.xml');
  writeFileSync(
    pom,
    `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>local</groupId><artifactId>message-definitions</artifactId><version>1</version>
  <packaging>pom</packaging>
  <dependencies><dependency>
    <groupId>org.apache.kafka</groupId><artifactId>kafka-clients</artifactId>
    <version>${kafkaVersion}</version>
  </dependency></dependencies>
</project>
`,
  );
  process.stderr.write(`fetching ${jarName} (about 11 MB with what it needs) with Maven\n`);
  const goal = ['dependency:copy-dependencies', `-DoutputDirectory=${ownDirectory}`];
  execFileSync('mvn', ['-q', '-B', '-f', pom, ...goal], { stdio: 'inherit' });
  return join(ownDirectory, jarName);
}

function main(): void {
  const { values } = parseArgs({ options: { jar: { type: 'string' } } });
  const jar = values.jar ?? findJar() ?? fetchJar();
  const files = generate(jar);
  mkdirSync(generatedDirectory, { recursive: true });
  for (const name of readdirSync(generatedDirectory)) {
    if (!files.has(name)) rmSync(join(generatedDirectory, name));
  }
  for (const [name, content] of files) writeFileSync(join(generatedDirectory, name), content);
  process.stdout.write(`${files.size} files written from ${jar}\n`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main();

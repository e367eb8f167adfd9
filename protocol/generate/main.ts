/**
 * `npm run generate`: reads the message definitions out of the kafka-clients jar (the one given
 * with `--jar`, or found, or fetched) and rewrites `protocol/generated/`. Build time only.
 */
import { existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { checkMessage } from '../schema/check.ts';
import { isEmpty } from '../schema/versions.ts';
import { emitMessage, fileNameOf } from './emit.ts';
import { emitApis, emitFieldFacts, emitLoaders } from './emit-tables.ts';
import { formatAll } from './format.ts';
import { fetchJar, findJar, repository } from './jar.ts';
import { NoJar, readDefinitions } from './read.ts';

export const generatedDirectory = join(repository, 'protocol', 'generated');

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
  return formatAll(files);
}

/** Bad input: one line that names it, and exit code 2. */
function refuse(problem: string): never {
  process.stderr.write(`${problem}; usage: npm run generate [-- --jar FILE]\n`);
  process.exit(2);
}

function isAboutArguments(error: unknown): error is Error {
  return error instanceof Error && String(Reflect.get(error, 'code')).startsWith('ERR_PARSE_ARGS');
}

/** The jar that is asked for, if any. */
function readArguments(): string | undefined {
  try {
    return parseArgs({ options: { jar: { type: 'string' } } }).values.jar;
  } catch (error) {
    if (!isAboutArguments(error)) throw error;
    // Node's advice behind the first sentence is about other commands.
    return refuse(error.message.split(/\.\s/)[0] ?? error.message);
  }
}

function generateFrom(jar: string): Map<string, string> {
  try {
    return generate(jar);
  } catch (error) {
    if (!(error instanceof NoJar)) throw error;
    return refuse(`${jar}: ${error.message}`);
  }
}

function main(): void {
  const asked = readArguments();
  if (asked !== undefined && !(existsSync(asked) && statSync(asked).isFile())) {
    refuse(`--jar: there is no file '${asked}'`);
  }
  const jar = asked ?? findJar() ?? fetchJar();
  const files = generateFrom(jar);
  mkdirSync(generatedDirectory, { recursive: true });
  for (const name of readdirSync(generatedDirectory)) {
    if (!files.has(name)) rmSync(join(generatedDirectory, name));
  }
  for (const [name, content] of files) writeFileSync(join(generatedDirectory, name), content);
  process.stdout.write(`${files.size} files written from ${jar}\n`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main();

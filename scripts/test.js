// `node scripts/test.js [unit|long] [--minutes N] [TEST.ts ...]`: the runner behind `npm test`.
//
// Owns: which compiled tests run, how many at once, and the summary with the slowest. Knows
// nothing of what they test. Two files run at a time, also of those that start real brokers: each
// waits for much of its time; CAUSEWAY_TEST_BROKER_FILES=1 runs those one after the other. Long
// tests run one at a time, since some of them look at load.
import { setMaxListeners } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const withBrokers = ['kafka', 'clients', 'chaos', 'e2e'].map((name) => join('test', name, '/'));
const longTests = join('test', 'long', '/');
const fileTimeoutMs = 15 * 60_000;
const longMinutesDefault = 20;
const brokerFilesAtOnce = Number(process.env.CAUSEWAY_TEST_BROKER_FILES ?? 2);

function fail(message) {
  process.stderr.write(`${message}\n`);
  process.exit(2);
}

function testFiles(directory) {
  const entries = readdirSync(directory, { recursive: true }).map(String).sort();
  return entries
    .filter((name) => name.endsWith('.test.ts'))
    .map((name) => relative(root, join(directory, name)));
}

function compiled(source) {
  const file = join(root, 'dist', source.replace(/\.ts$/, '.js'));
  if (!existsSync(file)) fail(`${source} is not compiled: run npm run build`);
  return file;
}

function readArguments() {
  try {
    return parseArgs({ allowPositionals: true, options: { minutes: { type: 'string' } } });
  } catch (error) {
    if (!String(error.code).startsWith('ERR_PARSE_ARGS')) throw error;
    // Without Node's advice, which is about positional arguments.
    return fail(error.message.split(/\.\s/)[0]);
  }
}

function isAmong(folders) {
  return (file) => folders.some((folder) => file.startsWith(folder));
}

/** Fetches and compiles what broker tests need, so that no test's time contains it. */
async function warmUp() {
  const helper = await import(join(root, 'dist/test/helpers/warm-up.js'));
  await helper.warmUp().catch((error) => fail(error.message));
}

/** Groups of source files, each with the number of files that run at once. */
function choose(positionals) {
  const all = testFiles(join(root, 'test'));
  const named = positionals.filter((name) => name.endsWith('.ts'));
  const [mode = 'all', ...unknown] = positionals.filter((name) => !name.endsWith('.ts'));
  if (unknown.length > 0) fail(`tests are named by their files: '${unknown.join(' ')}' is none`);
  const quick = all.filter((file) => !isAmong([...withBrokers, longTests])(file));
  const real = all.filter(isAmong(withBrokers));
  if (named.length > 0) {
    const files = named.map((name) => relative(root, resolve(name)));
    return [{ name: 'chosen', files, concurrency: 1 }];
  }
  if (mode === 'unit') return [{ name: 'unit', files: quick, concurrency: 2 }];
  if (mode === 'long') {
    return [{ name: 'long', files: all.filter(isAmong([longTests])), concurrency: 1 }];
  }
  if (mode !== 'all') return fail(`no such tests: ${mode}`);
  return [
    { name: 'unit', files: quick, concurrency: 2 },
    { name: 'brokers', files: real, concurrency: brokerFilesAtOnce },
  ];
}

const totals = { passed: 0, failed: 0, skipped: 0 };
const durations = [];
const msOfFile = new Map();
const failures = [];

/** The test's source file: with source maps Node names it, without them the compiled one. */
function sourceOf(file) {
  if (file === undefined) return '';
  return relative(root, file)
    .replace(/^dist\//, '')
    .replace(/\.js$/, '.ts');
}

function count(event, { name, file, nesting, details, skip, todo }) {
  if (nesting === 0) {
    const place = sourceOf(file);
    msOfFile.set(place, (msOfFile.get(place) ?? 0) + details.duration_ms);
  }
  // A file as a whole is no test of its own, unless it fails before it has run any.
  const isFile = file !== undefined && sourceOf(resolve(name)) === sourceOf(file);
  if (details.type === 'suite' || (isFile && event === 'passed')) return;
  if (skip !== undefined || todo !== undefined) totals.skipped += 1;
  else totals[event] += 1;
  const place = sourceOf(file);
  if (event === 'failed') failures.push(`${name} (${place})`);
  if (!isFile) durations.push({ name, place, ms: details.duration_ms });
}

/** Long tests go on for the minutes they are given, and have to begin and end besides. */
function timeoutOf({ files }) {
  const isLong = files.some(isAmong([longTests]));
  return isLong ? fileTimeoutMs + Math.max(minutes, longMinutesDefault) * 60_000 : fileTimeoutMs;
}

function runGroup(group, signal) {
  return new Promise((done, reject) => {
    const stream = run({
      files: group.files.map(compiled),
      concurrency: group.concurrency,
      timeout: timeoutOf(group),
      signal,
    });
    stream.on('test:pass', (data) => count('passed', data));
    stream.on('test:fail', (data) => count('failed', data));
    stream.once('error', reject);
    const report = stream.compose(new spec());
    report.once('error', reject);
    report.once('end', done);
    report.pipe(process.stdout, { end: false });
  });
}

function seconds(ms) {
  return `${(ms / 1000).toFixed(1).padStart(6)} s`;
}

function summarise(startedAt) {
  const slowest = durations.toSorted((a, b) => b.ms - a.ms).slice(0, 10);
  const lines = ['', 'The ten slowest tests:'];
  for (const { ms, name, place } of slowest) lines.push(`${seconds(ms)}  ${name} (${place})`);
  lines.push('', 'The ten slowest files:');
  const files = [...msOfFile].toSorted(([, a], [, b]) => b - a).slice(0, 10);
  for (const [place, ms] of files) lines.push(`${seconds(ms)}  ${place}`);
  if (failures.length > 0) lines.push('', 'Failed:', ...failures.map((name) => `  ${name}`));
  const { passed, failed, skipped } = totals;
  const time = seconds(performance.now() - startedAt).trim();
  lines.push(
    '',
    `All tests took ${time}`,
    `${passed} passed, ${failed} failed, ${skipped} skipped`,
    '',
  );
  process.stdout.write(lines.join('\n'));
}

const { values, positionals } = readArguments();
const minutes = Number(values.minutes ?? longMinutesDefault);
if (!(minutes > 0)) fail('--minutes wants a number above zero');
if (!(brokerFilesAtOnce >= 1)) fail('CAUSEWAY_TEST_BROKER_FILES wants a number from 1 on');
process.env.CAUSEWAY_TEST_MINUTES = String(minutes);
process.env.NODE_OPTIONS = `${process.env.NODE_OPTIONS ?? ''} --enable-source-maps`.trim();
const groups = choose(positionals);
if (groups.every((group) => group.files.length === 0)) fail('there are no such tests');

const stop = new AbortController();
// The runner listens once for each file.
setMaxListeners(0, stop.signal);
for (const name of ['SIGINT', 'SIGTERM']) process.once(name, () => stop.abort());
const startedAt = performance.now();
for (const group of groups) {
  if (group.files.length === 0 || stop.signal.aborted) continue;
  if (group.files.some(isAmong([...withBrokers, longTests]))) await warmUp();
  await runGroup(group, stop.signal);
}
summarise(startedAt);
process.exitCode = totals.failed > 0 || totals.passed === 0 || stop.signal.aborted ? 1 : 0;

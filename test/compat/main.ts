// `npm run compat -- SUITE [--variant NAME,...] [--only REGEX] [--output DIRECTORY]`: a foreign
// client's own test suite, directly and through the proxy; prints what differs. Owns the command
// line and the order of a run. Exits 1 when anything differs that is not on the list, or nothing
// was covered.

import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { problemOf, readCommandLine, refuse } from '../helpers/command-line.ts';
import { SeededRandom } from '../helpers/seeded-random.ts';
import { acceptedDifferences } from './accepted.ts';
import { compare, type Outcome, report } from './comparison.ts';
import { type Variant, variants } from './proxy-parts.ts';
import { openDirect, openProxied, type Side } from './sides.ts';
import { checkers } from './suites/checkers.ts';
import { franzGo } from './suites/franz-go.ts';
import { librdkafka } from './suites/librdkafka.ts';
import { sarama } from './suites/sarama.ts';
import type { Suite, TestRun } from './suites/suite.ts';

const suites: Readonly<Record<string, () => Suite>> = {
  'franz-go': franzGo,
  librdkafka,
  checkers,
  sarama,
};

const usage =
  `npm run compat -- ${Object.keys(suites).join('|')} ` +
  `[--variant ${variants.join(',')}|all] [--only REGEX] [--output DIRECTORY]`;

/** Several, by commas, share one run beside the proxy. */
function chosenVariants(names: string, suite: Suite): readonly Variant[] {
  if (names === 'all') return suite.variants;
  return names.split(',').map((name) => {
    const found = suite.variants.find((variant) => variant === name);
    return found ?? refuse(`no variant '${name}' of ${suite.name}`, usage);
  });
}

interface Finished extends TestRun {
  readonly seenBytes: number;
  readonly seconds: number;
}

function secondsOf(runs: ReadonlyMap<string, Finished>): number {
  return [...runs.values()].reduce((sum, { seconds }) => sum + seconds, 0);
}

/** Runs the tests one after the other against one side. */
async function runAll(
  suite: Suite,
  tests: readonly string[],
  parts: { side: Side; label: string; output: string | undefined },
): Promise<Map<string, Finished>> {
  const { side, label, output } = parts;
  const finished = new Map<string, Finished>();
  for (const [index, test] of tests.entries()) {
    const before = (await side.seenBytes()) ?? 0;
    const startedAt = performance.now();
    const run = await suite.run(test, side.target);
    const seconds = (performance.now() - startedAt) / 1000;
    const seenBytes = ((await side.seenBytes()) ?? 0) - before;
    finished.set(test, { ...run, seenBytes, seconds });
    const place = `${label} ${index + 1}/${tests.length}`;
    process.stderr.write(`# ${place} ${run.verdict} ${test} ${seconds.toFixed(1)} s\n`);
    if (output === undefined) continue;
    const file = path.join(output, `${suite.name}.${label}.${test.replaceAll('/', '_')}.log`);
    await writeFile(file, run.output);
  }
  return finished;
}

async function onSide<T>(opening: Promise<Side>, work: (side: Side) => Promise<T>): Promise<T> {
  const side = await opening;
  try {
    return await work(side);
  } finally {
    await side.close();
  }
}

interface Plan {
  readonly suite: Suite;
  readonly chosen: readonly Variant[];
  readonly only: RegExp;
  readonly output: string | undefined;
}

function readOnly(text: string): RegExp {
  try {
    return new RegExp(text);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return refuse(`--only: ${problemOf(error)}`, usage);
  }
}

async function readPlan(): Promise<Plan> {
  const { values, positionals } = readCommandLine(
    {
      allowPositionals: true,
      options: {
        variant: { type: 'string', default: 'plain' },
        only: { type: 'string', default: '' },
        output: { type: 'string' },
      },
    },
    usage,
  );
  const [name = ''] = positionals;
  const make = Object.hasOwn(suites, name) ? suites[name] : undefined;
  if (make === undefined || positionals.length !== 1) {
    return refuse(`no suite '${positionals.join(' ')}'`, usage);
  }
  const suite = make();
  const chosen = chosenVariants(values.variant, suite);
  const only = readOnly(values.only);
  const { output } = values;
  if (output !== undefined) {
    await mkdir(output, { recursive: true }).catch((error) =>
      refuse(`--output ${output}: ${problemOf(error)}`),
    );
  }
  return { suite, chosen, only, output };
}

async function main(): Promise<boolean> {
  const { suite, chosen, only, output } = await readPlan();
  const { name, shape } = suite;
  const random = new SeededRandom();
  process.stderr.write(`# ${random.describe()}\n`);
  await suite.prepare();
  const tests = (await suite.tests()).filter((test) => only.test(test));
  if (tests.length === 0) refuse(`no test of ${name} matches --only ${only.source}`);

  const directly = new Map<boolean, Map<string, Finished>>();
  let isGood = true;
  for (const variant of chosen) {
    const isSecured = variant === 'sasl-tls';
    const direct =
      directly.get(isSecured) ??
      (await onSide(openDirect(shape, { isSecured }), (side) =>
        runAll(suite, tests, { side, label: isSecured ? 'direct-sasl-tls' : 'direct', output }),
      ));
    directly.set(isSecured, direct);
    const proxied = await onSide(openProxied(variant, shape, random), (side) =>
      runAll(suite, tests, { side, label: variant, output }),
    );
    const outcomes = tests.flatMap((test): Outcome[] => {
      const [one, other] = [direct.get(test), proxied.get(test)];
      if (one === undefined || other === undefined) return [];
      const { seenBytes, output: said } = other;
      return [{ test, direct: one.verdict, proxied: other.verdict, seenBytes, said }];
    });
    const comparison = compare(outcomes, { suite: name, variant, accepted: acceptedDifferences });
    process.stdout.write(report(comparison, `${suite.version}, ${variant}`));
    const [one, other] = [direct, proxied].map((runs) => secondsOf(runs).toFixed(0));
    process.stdout.write(`  ${one} s directly, ${other} s through the proxy\n`);
    const isCovered = comparison.same.some(({ direct: verdict }) => verdict === 'pass');
    if (!isCovered) process.stdout.write('  no test that passed went through the proxy\n');
    isGood &&= isCovered && comparison.differences.length === 0;
  }
  return isGood;
}

// Clusters and children are stopped by now; idle handles of helpers must not hold the process.
process.exit((await main()) ? 0 : 1);

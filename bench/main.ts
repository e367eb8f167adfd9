// `npm run bench -- [NAME ...] [--quick] [--form FORM] [--json]`: runs the benchmarks named, or
// all. Owns the list of them.
import { readCommandLine, refuse } from '../test/helpers/command-line.ts';
import { benchDistance } from './distance.ts';
import { benchFailover } from './failover.ts';
import { benchGateway, gatewayForms } from './gateway.ts';
import { benchGroups } from './groups.ts';
import { benchIdle } from './idle.ts';
import { benchInterruption } from './interruption.ts';
import { benchLag } from './lag.ts';
import { benchMirror, mirrorForms } from './mirror.ts';
import { type BenchOptions, type BenchResult, print } from './report.ts';
import { benchServe } from './serve.ts';

interface Bench {
  run(options: BenchOptions): Promise<BenchResult>;
  /** Of one that can be run in parts. */
  forms?(quick: boolean): readonly string[];
}

const benches: Readonly<Record<string, Bench>> = {
  mirror: { run: benchMirror, forms: mirrorForms },
  distance: { run: benchDistance },
  idle: { run: benchIdle },
  lag: { run: benchLag },
  serve: { run: benchServe },
  gateway: { run: benchGateway, forms: () => gatewayForms },
  failover: { run: benchFailover },
  interruption: { run: benchInterruption },
  groups: { run: benchGroups },
};

const { values, positionals } = readCommandLine(
  {
    options: {
      json: { type: 'boolean', default: false },
      quick: { type: 'boolean', default: false },
      form: { type: 'string' },
    },
    allowPositionals: true,
  },
  'npm run bench -- [NAME ...] [--quick] [--form FORM] [--json]',
);
const { quick, form } = values;
const names = positionals.length > 0 ? positionals : Object.keys(benches);
for (const name of names) {
  if (!Object.hasOwn(benches, name)) {
    refuse(`no benchmark '${name}': there are ${Object.keys(benches).join(', ')}`);
  }
  if (form === undefined) continue;
  // Measuring takes minutes; a form that one of them does not have is told before the first.
  const forms = benches[name]?.forms?.(quick);
  if (forms === undefined) refuse(`--form: the benchmark ${name} has no forms`);
  if (!forms.includes(form)) refuse(`no form '${form}' of ${name}: there are ${forms.join(', ')}`);
}
for (const name of names) {
  const bench = benches[name];
  if (bench) print(await bench.run({ quick, form }), { json: values.json });
}
// Clusters and children are stopped by now; idle handles of helpers must not hold the process.
process.exit(0);

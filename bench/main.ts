// `npm run bench -- [NAME] [--quick] [--form FORM] [--json]`: runs one benchmark, or all. Owns the
// list of them.
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

const benches: Readonly<Record<string, (options: BenchOptions) => Promise<BenchResult>>> = {
  mirror: benchMirror,
  distance: benchDistance,
  idle: benchIdle,
  lag: benchLag,
  serve: benchServe,
  gateway: benchGateway,
  failover: benchFailover,
  interruption: benchInterruption,
  groups: benchGroups,
};

/** Of those that can be run in parts. */
const formsOf: Readonly<Record<string, (quick: boolean) => readonly string[]>> = {
  mirror: mirrorForms,
  gateway: () => gatewayForms,
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
  const forms = formsOf[name]?.(quick);
  if (forms === undefined) refuse(`--form: the benchmark ${name} has no forms`);
  if (!forms.includes(form)) refuse(`no form '${form}' of ${name}: there are ${forms.join(', ')}`);
}
for (const name of names) {
  const bench = benches[name];
  if (bench) print(await bench({ quick, form }), { json: values.json });
}
// Clusters and children are stopped by now; idle handles of helpers must not hold the process.
process.exit(0);

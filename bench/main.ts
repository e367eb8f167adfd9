// `npm run bench -- [NAME] [--quick] [--form FORM] [--json]`: runs one benchmark, or all. Owns the
// list of them.
import { parseArgs } from 'node:util';
import { benchDistance } from './distance.ts';
import { benchFailover } from './failover.ts';
import { benchGateway } from './gateway.ts';
import { benchGroups } from './groups.ts';
import { benchIdle } from './idle.ts';
import { benchInterruption } from './interruption.ts';
import { benchLag } from './lag.ts';
import { benchMirror } from './mirror.ts';
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

const { values, positionals } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    quick: { type: 'boolean', default: false },
    form: { type: 'string' },
  },
  allowPositionals: true,
});
const names = positionals.length > 0 ? positionals : Object.keys(benches);
for (const name of names) {
  if (!Object.hasOwn(benches, name)) {
    process.stderr.write(`no benchmark '${name}': there are ${Object.keys(benches).join(', ')}\n`);
    process.exit(2);
  }
}
for (const name of names) {
  const bench = benches[name];
  if (bench) print(await bench({ quick: values.quick, form: values.form }), { json: values.json });
}
// Clusters and children are stopped by now; idle handles of helpers must not hold the process.
process.exit(0);

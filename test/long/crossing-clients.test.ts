// The table of docs/clients.md: how clients of the dead source come over by DNS alone. Each row is
// run here; UPDATE_DOCS=1 writes the page, otherwise its outcomes have to be those that were seen.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import {
  batches,
  type CrossingRow,
  type Disaster,
  disaster,
  outcomesIn,
  tableOf,
} from '../clients/crossing-table.ts';
import { skipReason } from '../helpers/foreign-clients.ts';
import { type LinkedStage, startStage } from '../helpers/linked-stage.ts';
import { Relay } from '../helpers/relay.ts';
import { rootDirectory } from '../helpers/repository.ts';

const page = path.join(rootDirectory, 'docs/clients.md');
const begin = '<!-- table: written by test/long/crossing-clients.test.ts -->';
const end = '<!-- end of the table -->';

let stage: LinkedStage;
let name: Relay;

before(async () => {
  const linkConfigs = { 'consumer.offset.sync.enable': 'true', 'consumer.offset.sync.ms': '500' };
  stage = await startStage({ linkConfigs });
  name = await Relay.start({ target: stage.source.bootstrap });
});

after(async () => {
  await name?.stop();
  await stage?.stop();
});

test('clients of a dead source cross by DNS alone as docs/clients.md says', {
  timeout: 3_600_000,
}, async (context) => {
  const rows: CrossingRow[] = [];
  for (const how of ['killed', 'hangs'] as const satisfies readonly Disaster[]) {
    for (const batch of batches) {
      for (const { consumer } of batch) assert.equal(await skipReason(consumer), false);
      const found = await disaster(stage, name, how, batch);
      for (const row of found) context.diagnostic(JSON.stringify(row));
      rows.push(...found);
    }
  }
  const table = tableOf(rows);
  const text = readFileSync(page, 'utf8');
  if (process.env.UPDATE_DOCS === '1') {
    const [above = '', rest = ''] = text.split(begin);
    const below = rest.split(end)[1] ?? '';
    writeFileSync(page, `${above}${begin}\n${table}\n${end}${below}`);
  }
  assert.deepEqual(outcomesIn(readFileSync(page, 'utf8')), outcomesIn(table));
});

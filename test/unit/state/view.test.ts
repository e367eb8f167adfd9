// The records in memory: what is put is there, what is deleted is gone, an export misses none.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { decodeRecord, formatVersions } from '../../../src/state/record-format.ts';
import { stateKey } from '../../../src/state/records.ts';
import { RecordView } from '../../../src/state/view.ts';
import { rootDirectory } from '../../helpers/repository.ts';

/** One record of each kind there is, out of its golden file. */
const records = Object.entries(formatVersions).map(([kind, version]) => {
  const file = path.join(rootDirectory, 'test/golden/state', `${kind}.v${version}.txt`);
  const text = readFileSync(file, 'utf8');
  return decodeRecord(stateKey(JSON.parse(text)), text);
});

test('R20: what is exported has every kind of record but the lease', () => {
  const view = new RecordView();
  for (const put of records) view.apply({ put });
  const kinds = view.records().map(({ kind }) => kind);
  const expected = Object.keys(formatVersions).filter((kind) => kind !== 'lease');
  assert.deepEqual([...kinds].sort(), expected.sort());
});

test('a deleted record of any kind is gone', () => {
  const view = new RecordView();
  for (const put of records) view.apply({ put });
  for (const record of records) view.apply({ delete: stateKey(record) });
  assert.ok(view.isEmpty);
  assert.equal(view.lease, undefined);
});

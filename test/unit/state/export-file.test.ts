// Exports and snapshots: back and forth, and refused wherever they were cut (R20).
import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { formatExport, parseExport } from '../../../src/state/export-file.ts';
import type { StateRecord } from '../../../src/state/records.ts';
import { previousFileName, SnapshotWriter, snapshotFileName } from '../../../src/state/snapshot.ts';
import { StateError } from '../../../src/state/state.ts';

const head = { name: 'causeway', clusterId: 'MkU3OEVBNTcwNTJENDM2Qg', writtenTimeMs: 1 };
const records: StateRecord[] = [
  { kind: 'node-ports', ports: { '1': 9093 } },
  { kind: 'storage', directoryId: 'one' },
];

test('R20: what was exported is what is read', () => {
  const content = parseExport(formatExport(head, records));
  assert.deepEqual(content.records, records);
  assert.equal(content.head.clusterId, head.clusterId);
  assert.deepEqual(parseExport(formatExport(head, [])).records, []);
});

test('R20: a file that was cut anywhere is refused', () => {
  const text = formatExport(head, records);
  for (let length = 0; length < text.length; length++) {
    assert.throws(() => parseExport(text.slice(0, length)), StateError, `cut at ${length}`);
  }
});

test('R20: other files are refused by name', () => {
  assert.throws(() => parseExport('{"a":1}\n'), /line 1: not a state export/);
  const newer = formatExport(head, records).replace('"formatVersion":1', '"formatVersion":2');
  assert.throws(() => parseExport(newer), /format version 2/);
  const broken = formatExport(head, records).replace('"directoryId"', '"directory"');
  assert.throws(() => parseExport(broken), /directoryId/);
});

test('R20: snapshots pile up into the last one, and the first keeps what was there', async () => {
  const directory = await mkdtemp(path.join(os.tmpdir(), 'causeway-snapshot-'));
  try {
    await writeFile(path.join(directory, snapshotFileName), 'of the process before');
    const faults: unknown[] = [];
    const writer = new SnapshotWriter(directory, (error) => faults.push(error));
    let formatted = 0;
    for (let number = 1; number <= 50; number++) {
      writer.request(() => {
        formatted++;
        return `state ${number}`;
      });
    }
    await writer.flush();
    assert.deepEqual(faults, []);
    assert.ok(formatted <= 2, `${formatted} writes`);
    assert.equal(await readFile(writer.file, 'utf8'), 'state 50');
    const previous = await readFile(path.join(directory, previousFileName), 'utf8');
    assert.equal(previous, 'of the process before');
    assert.deepEqual(
      (await readdir(directory)).sort(),
      [snapshotFileName, previousFileName].sort(),
    );
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});

test('a snapshot that cannot be written is reported, not thrown', async () => {
  const faults: unknown[] = [];
  const notADirectory = import.meta.filename;
  const writer = new SnapshotWriter(notADirectory, (error) => faults.push(error));
  writer.request(() => 'x');
  await writer.flush();
  assert.equal(faults.length, 1);
});

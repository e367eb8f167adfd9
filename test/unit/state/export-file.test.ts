// Exports and snapshots: back and forth, and refused wherever they were cut (R20).
import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { formatCommit, formatExport, parseExport } from '../../../src/state/export-file.ts';
import { encodeRecord } from '../../../src/state/record-format.ts';
import { type StateRecord, stateKey } from '../../../src/state/records.ts';
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

const second = {
  key: 'storage',
  value: encodeRecord({ kind: 'storage', directoryId: 'two' }),
};
const commits = [[second], [{ key: 'node-ports', value: null }, second]];

test('R20: commits behind the records count, each whole or not at all, wherever it was cut', () => {
  const base = formatExport(head, records);
  const [first = '', last = ''] = commits.map(formatCommit);
  const states = [[records[0], { kind: 'storage', directoryId: 'two' }], [records[1]]];
  const text = base + first + last;
  assert.deepEqual(parseExport(text).records, [{ kind: 'storage', directoryId: 'two' }]);
  assert.equal(parseExport(text).isCut, false);
  for (let length = base.length; length < text.length; length++) {
    const content = parseExport(text.slice(0, length));
    const isFirstThere = length >= base.length + first.length;
    assert.deepEqual(content.records, isFirstThere ? states[0] : records, `cut at ${length}`);
    const isWhole = length === base.length || length === base.length + first.length;
    assert.equal(content.isCut, !isWhole, `cut at ${length}`);
  }
  const strange = `${base}{"key":"storage","value":null}\n`;
  assert.throws(() => parseExport(strange), /line 4: no commit begins here/);
});

async function inDirectory(work: (directory: string) => Promise<void>): Promise<void> {
  const directory = await mkdtemp(path.join(os.tmpdir(), 'causeway-snapshot-'));
  try {
    await work(directory);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** A state that grows by one topic with each commit, and how often it was written whole. */
class Growing {
  readonly faults: unknown[] = [];
  readonly writer: SnapshotWriter;
  wholes = 0;
  readonly #records: StateRecord[] = [];

  constructor(directory: string) {
    const whole = () => {
      this.wholes++;
      return formatExport(head, this.#records);
    };
    const onFault = (error: unknown) => this.faults.push(error);
    this.writer = new SnapshotWriter({ directory, whole, onFault });
  }

  add(count = 1): void {
    for (let added = 0; added < count; added++) {
      const name = `link-${this.#records.length}`;
      const record: StateRecord = {
        ...{ kind: 'link', name, linkId: 'MkU3OEVBNTcwNTJENDM2Qg', sourceClusterId: 'there' },
        ...{ configs: {}, paused: false, createdTimeMs: 1 },
      };
      this.#records.push(record);
      this.writer.add([{ key: stateKey(record), value: encodeRecord(record) }]);
    }
  }

  async assertWhole(): Promise<void> {
    await this.writer.flush();
    assert.deepEqual(this.faults, []);
    const content = parseExport(await readFile(this.writer.file, 'utf8'));
    assert.deepEqual(content.records, this.#records);
    assert.equal(content.isCut, false);
  }
}

test('R20: snapshots pile up, and the first keeps what was there', () =>
  inDirectory(async (directory) => {
    await writeFile(path.join(directory, snapshotFileName), 'of the process before');
    const growing = new Growing(directory);
    growing.add(50);
    await growing.assertWhole();
    const previous = await readFile(path.join(directory, previousFileName), 'utf8');
    assert.equal(previous, 'of the process before');
    assert.deepEqual(
      (await readdir(directory)).sort(),
      [snapshotFileName, previousFileName].sort(),
    );
  }));

test('R20: a commit adds what it changes to the snapshot, which is whole all the same', () =>
  inDirectory(async (directory) => {
    const growing = new Growing(directory);
    growing.add(1_000);
    await growing.assertWhole();
    const sizeOf = async () => (await stat(growing.writer.file)).size;
    const before = await sizeOf();
    for (let commit = 0; commit < 20; commit++) {
      growing.add();
      await growing.assertWhole();
    }
    assert.equal(growing.wholes, 1);
    assert.ok((await sizeOf()) - before < 20 * 300);
  }));

test('R20: what stands behind the records is bounded by them', () =>
  inDirectory(async (directory) => {
    const growing = new Growing(directory);
    growing.add();
    await growing.writer.flush();
    const value = encodeRecord({ kind: 'storage', directoryId: 'x'.repeat(300_000) });
    for (let commit = 0; commit < 6; commit++) {
      growing.writer.add([{ key: 'storage', value }]);
      await growing.writer.flush();
    }
    assert.ok(growing.wholes > 1, 'it was written anew');
    assert.ok((await stat(growing.writer.file)).size < 2_000_000);
  }));

test('R20: a snapshot that somebody took away is there again after the next commit', () =>
  inDirectory(async (directory) => {
    const growing = new Growing(directory);
    growing.add(2);
    await growing.writer.flush();
    await rm(growing.writer.file);
    growing.add();
    await growing.assertWhole();
  }));

test('R20: after changes that were no commits of ours the snapshot is written whole', () =>
  inDirectory(async (directory) => {
    const growing = new Growing(directory);
    growing.add();
    await growing.writer.flush();
    growing.writer.invalidate();
    growing.add();
    await growing.assertWhole();
    assert.equal(growing.wholes, 2);
  }));

test('a snapshot that cannot be written is reported, not thrown', async () => {
  const growing = new Growing(import.meta.filename);
  growing.add();
  await growing.writer.flush();
  assert.equal(growing.faults.length, 1);
});

// R11, at exact places: the proxy is killed with -9 between the ABORT batches and the commit of a
// failover, and between the commit and the moment when they come to light. After its restart there
// is one of the two legal outcomes, and writers and readers go on.
//
// Owns: the fault points, put into the proxy from outside by a module that is loaded before it.
// Knows of the product's inside only the mirror log's methods, where the two places can be seen.
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { readBatchHeader, readControlType } from '../../protocol/index.ts';
import { type LinkedStage, offsets, startStage } from '../helpers/linked-stage.ts';
import { command, receiptsOf, stopMirroring, waitForState } from '../helpers/mirror-commands.ts';
import { fetchAt } from '../helpers/raw-reads.ts';
import { newProducer, startTransaction, values, write } from '../helpers/raw-writes.ts';
import { rootDirectory } from '../helpers/repository.ts';
import { until } from '../helpers/wait.ts';

let stage: LinkedStage;
let directory: string;
const flag = (point: string): string => path.join(directory, point);

/** Kills its process when the named place is reached and its file is there, once. */
function faultPoints(): string {
  const log = pathToFileURL(path.join(rootDirectory, 'dist/storage/disk/partition-log.js')).href;
  return `
import { rmSync, statSync } from 'node:fs';
import { DiskMirrorLog } from ${JSON.stringify(log)};
function dieAt(file) {
  if (statSync(file, { throwIfNoEntry: false }) === undefined) return;
  rmSync(file);
  process.kill(process.pid, 'SIGKILL');
}
const { flush, hold } = DiskMirrorLog.prototype;
DiskMirrorLog.prototype.flush = async function () {
  await flush.call(this);
  if (this.heldFrom !== null) dieAt(${JSON.stringify(flag('aborts-appended'))});
};
DiskMirrorLog.prototype.hold = function (offset) {
  if (offset === null && this.heldFrom !== null) dieAt(${JSON.stringify(flag('committed'))});
  hold.call(this, offset);
};
`;
}

before(async () => {
  directory = await mkdtemp(path.join(os.tmpdir(), 'causeway-faults-'));
  const preload = path.join(directory, 'fault-points.mjs');
  await writeFile(preload, faultPoints());
  const env = { NODE_OPTIONS: `--import ${pathToFileURL(preload).href}` };
  stage = await startStage({ causeway: { env } });
});

after(async () => {
  await stage?.stop();
  await rm(directory, { recursive: true, force: true });
});

/** A topic of two partitions, a transaction open in each. Returns the ends of the copy. */
async function openTopic(topic: string): Promise<bigint[]> {
  const { atSource } = stage;
  const fill = async (): Promise<void> => {
    const producer = await newProducer(atSource, `${topic}-open`);
    await startTransaction(atSource, producer, topic, [0, 1]);
    for (const partition of [0, 1]) {
      await write(atSource, topic, partition, values('plain', 3));
      await write(atSource, topic, partition, values('open', 2), { producer });
    }
  };
  return stage.mirrorNewTopic(topic, fill, { partitions: 2 });
}

async function failOverUntilKilled(topic: string, point: string): Promise<void> {
  await writeFile(flag(point), '');
  await command(stage.causeway, 'failover', topic).catch(() => 'the answer was lost');
  await until('the kill', () => !stage.causeway.isRunning);
  await stage.causeway.start();
}

async function writesGoOn(topic: string, ends: readonly bigint[]): Promise<void> {
  const aborted = ends.map((end) => end + 1n);
  assert.deepEqual(await offsets(stage.atProxy, topic, -1n), aborted, 'one ABORT batch each');
  for (const [partition, end] of aborted.entries()) {
    const { errorCode, first } = await fetchAt(stage.atProxy, topic, partition, end - 1n);
    assert.equal(errorCode, 0, 'the ABORT batch can be read');
    assert.ok(first !== null);
    assert.equal(readControlType(first, 0, readBatchHeader(first, 0)), 'ABORT');
    assert.equal(await write(stage.atProxy, topic, partition, ['after']), end, 'from S on');
  }
  assert.equal((await receiptsOf(stage.causeway, topic)).length, 1, 'switched once');
}

test('R11: killed after the ABORT batches, before the commit: it has not happened', async () => {
  const ends = await openTopic('undone');
  await failOverUntilKilled('undone', 'aborts-appended');
  await waitForState(stage.causeway, 'undone', 'ACTIVE');
  await until('the cut', () =>
    stage.causeway
      .log()
      .some(({ event, topic }) => event === 'failover_undone' && topic === 'undone'),
  );
  assert.deepEqual(await offsets(stage.atProxy, 'undone', -1n), ends);
  // Mirroring goes on where the source is, not behind batches of ours.
  await write(stage.atSource, 'undone', 0, values('more', 4));
  const grown = await stage.caughtUp('undone');
  assert.equal(grown[0], (ends[0] ?? 0n) + 4n);
  await stopMirroring(stage.causeway, 'failover', 'undone');
  await writesGoOn('undone', grown);
});

test('R11: killed after the commit, before it came to light: it has happened', async () => {
  const ends = await openTopic('done');
  await failOverUntilKilled('done', 'committed');
  await waitForState(stage.causeway, 'done', 'STOPPED');
  await writesGoOn('done', ends);
});

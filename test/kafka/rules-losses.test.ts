// R19 and R20 on real brokers: mirror logs that are gone, moved, cut or corrupt are an error for
// clients, never an absence, until an operator accepts the loss; a lost state topic is refused at
// the start, and restored.
import assert from 'node:assert/strict';
import { mkdir, open, readdir, readFile, rename, rm, truncate, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import {
  createDeleteTopicState,
  createDeleteTopicsRequest,
} from '../../protocol/generated/delete-topics-request.ts';
import { deleteTopicsApi } from '../../src/cluster/apis.ts';
import { commitOffsets, committedOffsets } from '../helpers/group-offsets.ts';
import { compareTopic, type LinkedStage, startStage } from '../helpers/linked-stage.ts';
import { readLog } from '../helpers/log-records.ts';
import { receiptsOf, type Switched, stopMirroring } from '../helpers/mirror-commands.ts';
import { type RawBatch, readBatches } from '../helpers/raw-batches.ts';
import { answersFor, fetchAt, listAt } from '../helpers/raw-reads.ts';
import { newProducer, startTransaction, values, write } from '../helpers/raw-writes.ts';
import { until } from '../helpers/wait.ts';

const storageError = 56;
const stateTopic = '__causeway_state';
const batchesCount = 12;
const recordsCount = 3;

type Damage = (logDirectory: string) => Promise<void>;

async function segmentOf(logDirectory: string): Promise<string> {
  const name = (await readdir(logDirectory)).find((one) => one.endsWith('.log'));
  assert.ok(name, `a segment in ${logDirectory}`);
  return path.join(logDirectory, name);
}

/** Flips a bit of the batch in the middle of the log: all batches have the same size. */
async function flip(logDirectory: string, positionInBatch: number): Promise<void> {
  const handle = await open(await segmentOf(logDirectory), 'r+');
  const { size } = await handle.stat();
  const position = (size / batchesCount) * (batchesCount / 2) + positionInBatch;
  const byte = Buffer.alloc(1);
  await handle.read(byte, 0, 1, position);
  byte[0] = (byte[0] ?? 0) ^ 0x10;
  await handle.write(byte, 0, 1, position);
  await handle.close();
}

/** One for each partition; the last one is left as it is. */
const damages: readonly (readonly [what: string, damage: Damage | null])[] = [
  ['deleted', (directory) => rm(directory, { recursive: true })],
  [
    'moved',
    (directory) => rename(directory, path.join(directory, '../..', path.basename(directory))),
  ],
  [
    'cut',
    async (directory) => {
      const file = await segmentOf(directory);
      const handle = await open(file, 'r');
      const { size } = await handle.stat();
      await handle.close();
      await truncate(file, Math.floor(size / 2));
    },
  ],
  ['emptied', async (directory) => truncate(await segmentOf(directory), 0)],
  ['flipped', (directory) => flip(directory, 100)],
  // The base offset is not in the CRC, and what follows such a batch looks like a torn tail.
  ['misplaced', (directory) => flip(directory, 0)],
  ['whole', null],
];
const partitions = damages.map((_, index) => index);

describe('losses', { timeout: 240_000 }, () => {
  let stage: LinkedStage;
  let switched: readonly Switched[] = [];
  /** Of the promoted topic, by partition, before anything is lost. */
  let promoted: readonly (readonly RawBatch[])[] = [];
  let mirrored: readonly (readonly RawBatch[])[] = [];

  const all = (topic: string): Promise<RawBatch[][]> =>
    Promise.all(partitions.map((partition) => readBatches(stage.atProxy, topic, partition)));

  before(async () => {
    stage = await startStage();
    for (const topic of ['mirrored', 'promoted']) {
      const fill = async (): Promise<void> => {
        for (const partition of partitions) {
          for (let batch = 0; batch < batchesCount; batch++) {
            await write(stage.atSource, topic, partition, values(`${batch}`, recordsCount, 500));
          }
        }
      };
      await stage.mirrorNewTopic(topic, fill, { partitions: partitions.length });
    }
    switched = await stopMirroring(stage.causeway, 'promote', 'promoted');
    for (const partition of partitions) {
      await write(stage.atProxy, 'promoted', partition, values('after', 4));
    }
    [promoted, mirrored] = await Promise.all([all('promoted'), all('mirrored')]);
    for (const batches of promoted) assert.equal(batches.length, batchesCount + 1);
  });

  after(() => stage?.stop());

  async function topicIdOf(topic: string): Promise<string> {
    const info = (await stage.atProxy.metadata([topic])).topics.get(topic);
    assert.ok(info);
    return info.topicId;
  }

  async function assertAsBefore(): Promise<void> {
    for (const [topic, expected] of [
      ['promoted', promoted],
      ['mirrored', mirrored],
    ] as const) {
      for (const [partition, batches] of (await all(topic)).entries()) {
        assert.deepEqual(
          batches.slice(0, expected[partition]?.length).map(({ hash }) => hash),
          expected[partition]?.map(({ hash }) => hash),
          `${topic}-${partition}`,
        );
      }
    }
  }

  test('R20: a lost state topic is refused at the start, and a snapshot restores every timeline', async () => {
    const { causeway, atDestination, atProxy, atSource } = stage;
    await causeway.stopProcess();
    const request = createDeleteTopicsRequest({
      topics: [createDeleteTopicState({ name: stateTopic })],
      timeoutMs: 10_000,
    });
    const answer = await atDestination.send({ kind: 'controller' }, deleteTopicsApi, request);
    assert.equal(answer.responses[0]?.errorCode, 0);
    await until('the state topic gone', async () => {
      const found = (await atDestination.metadata([stateTopic])).topics.get(stateTopic);
      return found === undefined || found.errorCode === 3;
    });
    await assert.rejects(causeway.start(), /state import/);
    assert.equal(causeway.isRunning, false);
    const snapshot = path.join(causeway.storageDirectory, 'state-snapshot.jsonl');
    await causeway.cli('state', 'import', snapshot, '--config', causeway.configFile);
    await causeway.start();
    assert.deepEqual(await receiptsOf(causeway, 'promoted'), [switched]);
    await assertAsBefore();
    // The timeline goes on where it was: S + what was written, and the mirror mirrors.
    const end = promoted[0]?.at(-1)?.nextOffset;
    assert.equal(await write(atProxy, 'promoted', 0, values('restored', 1)), end);
    await write(atSource, 'mirrored', 0, values('restored', 1));
    await stage.caughtUp('mirrored');
    assert.equal((await compareTopic(atSource, atProxy, 'mirrored')).difference, null);
  });

  test('R19: an empty directory in place of the mirror logs is an error, and nothing is lost by it', async () => {
    const { causeway } = stage;
    await causeway.stopProcess();
    const aside = `${causeway.storageDirectory}-aside`;
    await rename(causeway.storageDirectory, aside);
    await mkdir(causeway.storageDirectory);
    await causeway.start();
    for (const topic of ['mirrored', 'promoted']) await assertStorageErrors(topic, 0);
    // Written after the promotion: the destination has it, so it is served.
    const { nextOffset = 0n } = promoted[0]?.at(-2) ?? {};
    assert.equal((await fetchAt(stage.atProxy, 'promoted', 0, nextOffset)).errorCode, 0);
    await causeway.stopProcess();
    await rm(causeway.storageDirectory, { recursive: true });
    await rename(aside, causeway.storageDirectory);
    await causeway.start();
    await assertAsBefore();
  });

  /** Every offset of the copy: 56. So do both ends, where they are the copy's to tell. */
  async function assertStorageErrors(topic: string, partition: number): Promise<void> {
    const copied = (mirrored[partition] ?? []).slice(0, batchesCount);
    const codes = await answersFor(stage.atProxy, topic, partition, copied);
    assert.deepEqual([...codes], [[storageError, batchesCount]], `${topic}-${partition}`);
    const earliest = await listAt(stage.atProxy, topic, partition, -2n);
    assert.equal(earliest.errorCode, storageError, `earliest of ${topic}-${partition}`);
    if (topic !== 'mirrored') return;
    const latest = await listAt(stage.atProxy, topic, partition, -1n);
    assert.equal(latest.errorCode, storageError, `latest of ${topic}-${partition}`);
  }

  test('R19: logs deleted, moved, cut, emptied or flipped are errors, until the loss is accepted', async () => {
    const { causeway, atProxy, atSource } = stage;
    const ids = await Promise.all(['mirrored', 'promoted'].map((topic) => topicIdOf(topic)));
    await causeway.stopProcess();
    for (const id of ids) {
      for (const [partition, [, damage]] of damages.entries()) {
        await damage?.(path.join(causeway.storageDirectory, 'logs', `${id}-${partition}`));
      }
    }
    await causeway.start();
    for (const [topic, expected] of [
      ['mirrored', mirrored],
      ['promoted', promoted],
    ] as const) {
      for (const [partition, [what]] of damages.entries()) {
        const batches = (expected[partition] ?? []).slice(0, batchesCount);
        if (what === 'whole') {
          const codes = await answersFor(atProxy, topic, partition, batches);
          assert.deepEqual([...codes], [[0, batchesCount]], `${topic}: ${what}`);
        } else if (what === 'flipped') {
          // Only the batch that is not what it was; `answersFor` compares the others.
          const codes = await answersFor(atProxy, topic, partition, batches);
          const seen = `${topic}: ${what}, answers by error ${JSON.stringify([...codes])}`;
          assert.ok((codes.get(storageError) ?? 0) >= 1, seen);
          codes.delete(0);
          assert.deepEqual([...codes.keys()], [storageError], seen);
        } else {
          await assertStorageErrors(topic, partition);
        }
        const native = promoted[partition]?.at(batchesCount);
        if (topic === 'promoted' && native !== undefined) {
          const codes = await answersFor(atProxy, topic, partition, [native]);
          assert.deepEqual([...codes], [[0, 1]], `${what}: what was written after promotion`);
        }
      }
    }
    await causeway.stopProcess();
    await causeway.start(['--accept-loss']);
    await stage.caughtUp('mirrored');
    const compared = await compareTopic(atSource, atProxy, 'mirrored');
    for (const partition of partitions) {
      const { errorCode, offset } = await listAt(atProxy, 'promoted', partition, -2n);
      assert.equal(errorCode, 0, `earliest of promoted-${partition} after the loss`);
      assert.equal((await fetchAt(atProxy, 'promoted', partition, offset)).errorCode, 0);
    }
    assert.equal(compared.difference, null);
  });

  test('R19: a failover with the disk nearly full, and of a lost log when its loss is accepted', async () => {
    const { causeway, atDestination, atProxy, atSource } = stage;
    const writeBoth = async (topic: string): Promise<void> => {
      for (const partition of [0, 1]) {
        await write(atSource, topic, partition, values('before', 10));
      }
    };
    const writeAndOpen = async (): Promise<void> => {
      await writeBoth('full');
      // What has to be closed by something that is written.
      const producer = await newProducer(atSource, 'open-at-failover');
      await startTransaction(atSource, producer, 'full', [0]);
      await write(atSource, 'full', 0, values('open', 3), { producer });
    };
    await stage.mirrorNewTopic('full', writeAndOpen, { partitions: 2 });
    await stage.mirrorNewTopic('lost', () => writeBoth('lost'), { partitions: 2 });
    await commitOffsets(atDestination, 'has-read', 'lost', [7, 4]);
    const lostLog = path.join(causeway.storageDirectory, 'logs', `${await topicIdOf('lost')}-0`);
    await causeway.stopProcess();
    await rm(lostLog, { recursive: true });
    const config = await readFile(causeway.configFile, 'utf8');
    const nearlyFull = config.replace('minFreeBytes: 64MiB', 'minFreeBytes: 1000000GiB');
    assert.notEqual(nearlyFull, config);
    await writeFile(causeway.configFile, nearlyFull);
    await causeway.start();
    await until('a full disk', async () => {
      const { storage } = await causeway.get<{ storage: { isFull: boolean } }>(
        '/causeway/v1/status',
      );
      return storage.isFull;
    });
    await write(atSource, 'full', 1, values('not fetched', 5));

    const failover = ['mirror', 'failover', 'full', 'lost', '--yes'];
    const partly = await causeway.cliResult(...failover);
    assert.equal(partly.code, 3, partly.stderr + partly.stdout);
    assert.match(partly.stdout, /NOT FAILED OVER|lost-0' cannot be used/);
    const [full] = await receiptsOf(causeway, 'full');
    assert.deepEqual(
      full?.map(({ mirroredEnd, virtualEnd }) => [mirroredEnd, virtualEnd]),
      [
        [13, 14],
        [10, 10],
      ],
    );
    assert.equal(await write(atProxy, 'full', 0, values('after', 1)), 14n);
    assert.equal(await write(atProxy, 'full', 1, values('after', 1)), 10n);
    const committed = await readLog(causeway, { name: 'full', partitions: 2 }, 'read_committed');
    assert.ok(committed.every(({ value }) => !value?.startsWith('open')));

    assert.match(await causeway.cli(...failover, '--accept-loss'), /STOPPED/);
    const [lost] = await receiptsOf(causeway, 'lost');
    assert.deepEqual(
      lost?.map(({ mirroredEnd, virtualEnd }) => [mirroredEnd, virtualEnd]),
      [
        [0, 7],
        [10, 10],
      ],
      'above what a group is known to have read, and where it ended',
    );
    assert.equal(await write(atProxy, 'lost', 0, values('after', 1)), 7n);
    assert.equal(await write(atProxy, 'lost', 1, values('after', 1)), 10n);
    assert.deepEqual(await listAt(atProxy, 'lost', 0, -2n), { errorCode: 0, offset: 7n });
    assert.equal((await fetchAt(atProxy, 'lost', 0, 7n)).errorCode, 0, 'no 56 any more');
    assert.equal((await readBatches(atProxy, 'lost', 1)).length, 2, 'the other one is whole');
  });

  test('R20: uninstall refuses while something rests on the state; afterwards brokers are right', async () => {
    const { causeway, atDestination } = stage;
    const uninstall = () =>
      causeway.cliResult('uninstall', '--config', causeway.configFile, '--yes');
    const alive = await uninstall();
    assert.equal(alive.code, 1, alive.stdout);
    assert.match(alive.stderr, /another instance of 'causeway' is at work/);
    await causeway.stopProcess();
    const blocked = await uninstall();
    assert.equal(blocked.code, 1, blocked.stdout);
    assert.match(blocked.stdout, /'mirrored' is a mirror \(ACTIVE\)[\s\S]*mirror detach promoted/);
    await causeway.start();
    await causeway.cli('mirror', 'delete', 'mirrored', '--yes');
    for (const topic of ['promoted', 'full', 'lost']) {
      await causeway.cli('mirror', 'detach', topic, '--drop-history', '--yes');
    }
    await causeway.stopProcess();
    const done = await uninstall();
    assert.equal(done.code, 0, done.stderr);
    assert.match(done.stdout, /With it the links: *dr/);
    const { topics } = await atDestination.metadata([stateTopic]);
    assert.notEqual(topics.get(stateTopic)?.errorCode ?? 3, 0);
    const moved = /^[\w-]{22}-1$/;
    const left = await readdir(causeway.storageDirectory);
    assert.deepEqual(
      left.filter((name) => !moved.test(name)),
      [],
      'only what somebody has put there',
    );
    // Offsets of groups and of records are the brokers' own.
    assert.deepEqual(await committedOffsets(atDestination, 'has-read', 'lost', 2), [0, 0]);
    const [first] = await readBatches(atDestination, 'lost', 1);
    assert.equal(first?.baseOffset, 0n);
  });
});

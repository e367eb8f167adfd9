// R12 on real brokers: an instance that was stopped (SIGSTOP), was succeeded and goes on again
// changes nothing any more, says so, and shows no mixture of its own old data and its successor's.
// The successor is killed before the old one goes on: whatever changes from there on, the old one
// did.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { forEachBatch } from '../../protocol/index.ts';
import type { Cluster } from '../../src/cluster/cluster.ts';
import type { CausewayProcess } from '../helpers/causeway-process.ts';
import { commitOffsets, committedOffsets } from '../helpers/group-offsets.ts';
import { type LinkedStage, offsets, startStage } from '../helpers/linked-stage.ts';
import { stateRecords, stopMirroring } from '../helpers/mirror-commands.ts';
import { openCluster, readBatches } from '../helpers/raw-batches.ts';
import { answersFor } from '../helpers/raw-reads.ts';
import { values, write } from '../helpers/raw-writes.ts';
import { until } from '../helpers/wait.ts';

const stateTopic = '__causeway_state';
const partitions = [0, 1];
/** Longer than the lease and than several rounds of every task. */
const observationMs = 4_000;

/** Every mirror log file with its hash. */
async function mirrorLogs(causeway: CausewayProcess): Promise<Record<string, string>> {
  const directory = path.join(causeway.storageDirectory, 'logs');
  const found: Record<string, string> = {};
  for (const name of (await readdir(directory, { recursive: true })).map(String).sort()) {
    if (!name.endsWith('.log')) continue;
    const bytes = await readFile(path.join(directory, name));
    found[name] = createHash('sha256').update(bytes).digest('hex');
  }
  return found;
}

/** All bytes of a topic in the destination, batch by batch. */
async function hashes(cluster: Cluster, topic: string): Promise<string[]> {
  const info = (await cluster.metadata([topic])).topics.get(topic);
  const found: string[] = [];
  for (const { partition } of info?.partitions ?? []) {
    for (const { hash } of await readBatches(cluster, topic, partition)) {
      found.push(`${partition} ${hash}`);
    }
  }
  return found;
}

async function producerEpochs(cluster: Cluster, from: bigint): Promise<Set<number>> {
  const epochs = new Set<number>();
  for (const { bytes } of await readBatches(cluster, stateTopic, 0, from)) {
    forEachBatch(bytes, (header) => {
      epochs.add(header.producerEpoch);
    });
  }
  return epochs;
}

describe('a stale instance', { timeout: 180_000 }, () => {
  let stage: LinkedStage;

  before(async () => {
    stage = await startStage({ linkConfigs: { 'consumer.offset.sync.enable': 'true' } });
  });

  after(() => stage?.stop());

  async function writeSource(topic: string, label: string): Promise<void> {
    for (const partition of partitions) {
      await write(stage.atSource, topic, partition, values(label, 10));
    }
  }

  async function synced(group: string, topic: string, wanted: readonly number[]): Promise<void> {
    await until(`${group} at ${wanted.join()}`, async () => {
      const seen = await committedOffsets(stage.atDestination, group, topic, 2);
      return seen.join() === wanted.join();
    });
  }

  test('R12: after SIGSTOP, a successor and SIGCONT it changes nothing, says so, and mixes nothing', async () => {
    const { causeway: stale, atSource, atDestination } = stage;
    for (const topic of ['switched', 'mirrored']) {
      const fill = () => writeSource(topic, 'seen by both');
      await stage.mirrorNewTopic(topic, fill, { partitions: 2 });
      await commitOffsets(atSource, `group-${topic}`, topic, [3, 4]);
      await synced(`group-${topic}`, topic, [3, 4]);
    }
    await stale.pause();
    const before = await mirrorLogs(stale);
    assert.equal(Object.keys(before).length, 4);
    const [stateEnd = 0n] = await offsets(atDestination, stateTopic, -1n);
    const oldEpoch = Math.max(...(await producerEpochs(atDestination, 0n)));

    const successor = await stage.prepareAnother({ copyDirectoryFrom: stale.storageDirectory });
    await successor.start();
    const throughNew = openCluster({ bootstrap: successor.bootstrap });
    const throughOld = openCluster({ bootstrap: stale.bootstrap });
    try {
      for (const topic of ['switched', 'mirrored']) {
        await writeSource(topic, 'seen by the successor');
        await stage.caughtUp(topic, throughNew);
      }
      await stopMirroring(successor, 'failover', 'switched');
      for (const partition of partitions) {
        await write(throughNew, 'switched', partition, values('after the switch', 5));
      }
      await commitOffsets(throughNew, 'group-switched', 'switched', [22, 23]);
      const expected = await Promise.all(
        partitions.map((partition) => readBatches(throughNew, 'switched', partition)),
      );
      const records = await stateRecords(successor);
      await successor.kill9();

      // Reasons to act, for whoever still thinks it may: records to fetch, offsets to take over.
      for (const topic of ['switched', 'mirrored']) {
        await writeSource(topic, 'seen by nobody');
        await commitOffsets(atSource, `group-${topic}`, topic, [9, 9]);
      }
      const groupsBefore = await hashes(atDestination, '__consumer_offsets');
      const endsBefore = await offsets(atDestination, 'switched', -1n);
      const topicsBefore = [...(await atDestination.metadata('all')).topics.keys()].sort();
      const [quietFrom = 0n] = await offsets(atDestination, stateTopic, -1n);
      assert.ok(quietFrom > stateEnd, 'the successor wrote to the state');

      stale.resume();
      const lost = await until('the word that the lease is lost', () =>
        stale.log().find(({ event }) => event === 'lease_lost'),
      );
      assert.match(String(lost.message), /changes nothing any more/);
      await refusesCommands(stale);
      const resumedAt = performance.now();
      await until('some rounds of every task', () => performance.now() - resumedAt > observationMs);

      assert.deepEqual(await mirrorLogs(stale), before, 'its mirror logs');
      assert.deepEqual(await hashes(atDestination, '__consumer_offsets'), groupsBefore, 'offsets');
      assert.deepEqual(await offsets(atDestination, 'switched', -1n), endsBefore);
      const topicsAfter = [...(await atDestination.metadata('all')).topics.keys()].sort();
      assert.deepEqual(topicsAfter, topicsBefore);
      const late = await producerEpochs(atDestination, quietFrom);
      for (const epoch of late) {
        assert.ok(
          epoch > oldEpoch,
          `state written with epoch ${epoch}, the old one is ${oldEpoch}`,
        );
      }
      const status = await stale.get<{ role: string }>('/causeway/v1/status');
      assert.equal(status.role, 'standby');

      // What it shows of the switched topic is what the successor showed, or an error.
      for (const partition of partitions) {
        const batches = expected[partition] ?? [];
        const codes = await answersFor(throughOld, 'switched', partition, batches);
        codes.delete(0);
        for (const code of codes.keys()) {
          assert.ok([6, 56].includes(code), `error ${code} for switched-${partition}`);
        }
      }
      await successor.start();
      assert.deepEqual(timelines(await stateRecords(successor)), timelines(records));
      for (const partition of partitions) {
        const now = await readBatches(throughNew, 'switched', partition);
        assert.deepEqual(
          now.map(({ hash }) => hash),
          (expected[partition] ?? []).map(({ hash }) => hash),
        );
      }
      assert.deepEqual(
        await committedOffsets(atDestination, 'group-switched', 'switched', 2),
        [22, 23],
      );
    } finally {
      await Promise.all([throughNew.close(), throughOld.close()]);
    }
  });

  async function refusesCommands(stale: CausewayProcess): Promise<void> {
    const verbs = ['failover', 'promote', 'pause'];
    const commands = [
      ...verbs.map((verb) => ['mirror', verb, 'mirrored', '--yes']),
      ['mirror', 'create', 'switched-again', '--link', 'dr', '--source-topic', 'switched'],
      ['link', 'create', 'another', '--source', stage.source.bootstrap],
    ];
    const results = await Promise.all(commands.map((args) => stale.cliResult(...args)));
    for (const [index, { code, stderr }] of results.entries()) {
      const words = commands[index]?.join(' ');
      assert.equal(code, 1, `${words}: exit ${code}, ${stderr}`);
      assert.match(stderr, /not the owner|NOT_OWNER/, words);
    }
  }
});

function timelines(records: Awaited<ReturnType<typeof stateRecords>>): unknown[] {
  return records.filter(({ key }) => key.startsWith('topic/') || key.startsWith('receipt/'));
}

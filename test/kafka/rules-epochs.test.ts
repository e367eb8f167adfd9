// R8 on real brokers: leader epochs and high watermarks as clients see them never go back, whatever
// happens to the source, to the mirror, to the destination and to the proxy meanwhile. Breaking
// this stalls clients in silence, so it is watched the whole time and at every step.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { fetchApi } from '../../src/cluster/apis.ts';
import { EpochWatch, epochEnd } from '../helpers/epoch-watch.ts';
import { type LinkedStage, startStage } from '../helpers/linked-stage.ts';
import { stopMirroring } from '../helpers/mirror-commands.ts';
import { readBatches } from '../helpers/raw-batches.ts';
import { fetchRequest } from '../helpers/raw-requests.ts';
import { values, write } from '../helpers/raw-writes.ts';
import { until } from '../helpers/wait.ts';

const topic = 'epochs';
const partitions = [0, 1];
const fencedLeaderEpoch = 74;
const unknownLeaderEpoch = 75;

describe('epochs and high watermarks', { timeout: 180_000 }, () => {
  let stage: LinkedStage;
  let watch: EpochWatch;

  before(async () => {
    stage = await startStage();
    watch = new EpochWatch(stage.atProxy, topic);
  });

  after(async () => {
    await watch?.stop();
    await stage?.stop();
  });

  async function writeBoth(through: 'source' | 'proxy', label: string): Promise<void> {
    const cluster = through === 'source' ? stage.atSource : stage.atProxy;
    for (const partition of partitions) {
      await until(`a write to ${topic}-${partition}`, async () => {
        await write(cluster, topic, partition, values(label, 10));
        return true;
      });
    }
  }

  /** What a Fetch with this current leader epoch is told by the present leader. */
  async function fetchError(
    partition: number,
    currentLeaderEpoch: number,
    offset = 0n,
  ): Promise<number> {
    const info = (await stage.atProxy.metadata([topic])).topics.get(topic);
    const nodeId = info?.partitions.find((one) => one.partition === partition)?.leaderId ?? -1;
    assert.ok(info);
    const request = fetchRequest(info, { offset, maxBytes: 1000 });
    for (const one of request.topics) {
      one.partitions = one.partitions
        .filter((asked) => asked.partition === partition)
        .map((asked) => ({ ...asked, currentLeaderEpoch }));
    }
    const options = { versionMax: 12 };
    const answer = await stage.atProxy.send({ kind: 'node', nodeId }, fetchApi, request, options);
    return answer.responses[0]?.partitions[0]?.errorCode ?? -1;
  }

  const metadataEpochs = (): number[] =>
    partitions.map((partition) => watch.highest('metadata epoch', partition));

  test('R8: epochs and high watermarks never go back, through source restarts and failover', async () => {
    const writeFirst = () => writeBoth('source', 'first epoch');
    await stage.mirrorNewTopic(topic, writeFirst, { partitions: 2 });
    watch.start();
    await watch.look();
    const atFirst = metadataEpochs();

    await stage.source.restartBroker();
    await writeBoth('source', 'second epoch');
    await stage.caughtUp(topic);
    await watch.look();
    const mirrored = metadataEpochs();
    for (const partition of partitions) {
      const batches = await readBatches(stage.atProxy, topic, partition);
      const highest = Math.max(...batches.map(({ leaderEpoch }) => leaderEpoch));
      assert.ok(highest > (atFirst[partition] ?? 0), 'the restart raised the epoch of the source');
      assert.equal(mirrored[partition], highest, 'what is told is the highest of durable batches');
      assert.equal(await fetchError(partition, highest - 1), fencedLeaderEpoch);
      assert.equal(await fetchError(partition, highest + 1), unknownLeaderEpoch);
      assert.equal(await fetchError(partition, highest), 0);
    }

    // An epoch of the source that no batch carries dies with it.
    await stage.source.restartBroker();
    await watch.look();
    const before = await Promise.all(
      [0, 1, 2, 3].map((epoch) => epochEnd(stage.atProxy, topic, 0, epoch)),
    );
    await stage.source.kill9();
    const switched = await stopMirroring(stage.causeway, 'failover', topic);
    await watch.look();
    for (const { partition, firstEpoch, virtualEnd } of switched) {
      assert.ok(firstEpoch > (mirrored[partition] ?? 0), 'the new extent begins above');
      assert.ok(metadataEpochs()[partition] === firstEpoch, 'and clients are told so');
      assert.equal(virtualEnd, 20);
      assert.equal(await fetchError(partition, firstEpoch - 1), fencedLeaderEpoch);
      assert.equal(await fetchError(partition, firstEpoch), 0);
    }
    await writeBoth('proxy', 'third epoch');
    await watch.look();
    for (const partition of partitions) {
      const batches = await readBatches(stage.atProxy, topic, partition);
      batches.reduce((previous, batch) => {
        const { baseOffset, leaderEpoch } = batch;
        assert.ok(leaderEpoch >= previous, `epoch ${leaderEpoch} at ${baseOffset}`);
        return leaderEpoch;
      }, 0);
      assert.ok((batches.at(-1)?.leaderEpoch ?? -1) >= (switched[partition]?.firstEpoch ?? 0));
    }
    // Who comes with an epoch of the mirror is told the same ends as before.
    for (const [epoch, { leaderEpoch, endOffset }] of before.entries()) {
      if (epoch > (mirrored[0] ?? 0)) continue;
      const now = await epochEnd(stage.atProxy, topic, 0, epoch);
      assert.deepEqual([now.leaderEpoch, now.endOffset], [leaderEpoch, endOffset]);
    }
    assert.deepEqual(watch.faults, []);
  });

  test('R8, R11: nor do they when the proxy is killed or a leader of the destination changes', async () => {
    const promoted = metadataEpochs();
    await stage.causeway.kill9();
    await stage.causeway.start();
    await watch.look();
    await stage.destination.restartBroker();
    await writeBoth('proxy', 'fourth epoch');
    await watch.look();
    for (const partition of partitions) {
      const raised = metadataEpochs()[partition] ?? 0;
      assert.ok(raised > (promoted[partition] ?? 0), 'the restart raised the epoch of the shell');
      const batches = await readBatches(stage.atProxy, topic, partition);
      assert.equal(batches.at(-1)?.leaderEpoch, raised);
      // In the shell, and in the copy, whose reads the broker hears nothing of.
      for (const offset of [20n, 0n]) {
        assert.equal(await fetchError(partition, raised - 1, offset), fencedLeaderEpoch);
        assert.equal(await fetchError(partition, raised + 1, offset), unknownLeaderEpoch);
        assert.equal(await fetchError(partition, raised, offset), 0);
      }
    }
    assert.ok(watch.samplesCount > 20, `${watch.samplesCount} samples`);
    assert.deepEqual(watch.faults, []);
  });
});

// R1, R2 and R13 on real brokers: what the mirror holds, what clients are told, and in which order.
// Two brokers at the destination, so that a request can be sent to the wrong one; their advertised
// names lead nowhere.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { apiVersionsApi, fetchApi, produceApi } from '../../src/cluster/apis.ts';
import { AddressAudit } from '../helpers/address-audit.ts';
import { withAdmin } from '../helpers/kafka-setup.ts';
import { compareTopic, type LinkedStage, startStage } from '../helpers/linked-stage.ts';
import { stopMirroring } from '../helpers/mirror-commands.ts';
import { RawConnection } from '../helpers/raw-connection.ts';
import { addressRequests, fetchRequest, orderedJobs } from '../helpers/raw-requests.ts';
import {
  endTransaction,
  newProducer,
  startTransaction,
  values,
  write,
} from '../helpers/raw-writes.ts';
import { SeededRandom } from '../helpers/seeded-random.ts';
import { createTopic, deleteRecords } from '../helpers/topic-admin.ts';
import { until } from '../helpers/wait.ts';

const compressions = ['gzip', 'snappy', 'lz4', 'zstd'] as const;

describe('copies, addresses and order', { timeout: 180_000 }, () => {
  let stage: LinkedStage;

  before(async () => {
    stage = await startStage({ destination: { brokers: 2 } });
  });

  after(() => stage?.stop());

  /** Plain, transactional and aborted batches of many sizes. */
  async function fill(topic: string, partitions: number, label: string): Promise<void> {
    const { atSource } = stage;
    const producer = await newProducer(atSource, `${topic}-writer`);
    for (let partition = 0; partition < partitions; partition++) {
      for (const [round, bytes] of [10, 3_000, 40_000].entries()) {
        await write(atSource, topic, partition, values(`${label} ${round}`, 1 + 7 * round, bytes));
      }
      for (const [sequence, outcome] of (['commit', 'abort'] as const).entries()) {
        await startTransaction(atSource, producer, topic, [partition]);
        await write(atSource, topic, partition, values(`${label} ${outcome}`, 2), {
          producer,
          sequence: 2 * sequence,
        });
        await endTransaction(atSource, producer, outcome);
      }
    }
  }

  test('R1: every batch of the mirror is the source’s, byte for byte, before and after promotion', async () => {
    const { atSource, atProxy } = stage;
    const topics = ['plain', ...compressions];
    await Promise.all(
      topics.map((name) =>
        createTopic(atSource, name, {
          partitions: name === 'plain' ? 3 : 1,
          configs: name === 'plain' ? {} : { 'compression.type': name },
        }),
      ),
    );
    await fill('plain', 3, 'early');
    // A log that no longer begins at 0, in the middle of a batch.
    await deleteRecords(atSource, 'plain', 1, 5n);
    for (const name of compressions) await fill(name, 1, 'early');
    for (const name of topics) await stage.mirror(name);
    for (const name of compressions) await fill(name, 1, 'late');
    let batches = 0;
    for (const name of topics) {
      await stage.caughtUp(name);
      const compared = await compareTopic(atSource, atProxy, name);
      assert.equal(compared.difference, null);
      batches += compared.batches;
    }
    assert.ok(batches >= 60, `${batches} batches are too few to prove anything`);
    const stopped = await stopMirroring(stage.causeway, 'promote', 'plain');
    const ends = stopped.map(({ virtualEnd }) => virtualEnd);
    for (const partition of [0, 1, 2]) {
      await write(atProxy, 'plain', partition, values('after', 5));
    }
    const compared = await compareTopic(atSource, atProxy, 'plain', ends);
    assert.equal(compared.difference, null);
  });

  test('R2: no answer at any listener names a real address of the destination', async () => {
    const { atDestination, atProxy, hiddenAddresses } = stage;
    await createTopic(atDestination, 'native', { partitions: 4 });
    const view = await atProxy.metadata(['plain', 'gzip', 'native']);
    const bootstrapPort = Number(stage.causeway.bootstrap.split(':')[1]);
    const listeners = [bootstrapPort, ...view.brokers.map(({ port }) => port)];
    assert.equal(new Set(listeners).size, 4, 'bootstrap, two virtual brokers and the link node');
    const audit = new AddressAudit(hiddenAddresses, listeners);
    const topics = ['plain', 'gzip', 'native'].map((name) => {
      const info = view.topics.get(name);
      assert.ok(info, `metadata of ${name}`);
      return info;
    });
    for (const port of listeners) {
      const connection = await RawConnection.open(port);
      try {
        const versions = await connection.ask(apiVersionsApi, 0, emptyApiVersions);
        const ranges = new Map(
          versions.response.apiKeys.map((one) => [
            one.apiKey,
            [one.minVersion, one.maxVersion] as const,
          ]),
        );
        for (const { api, request } of addressRequests(topics)) {
          const [offered, max] = ranges.get(api.key) ?? [0, -1];
          // Produce is offered from 0 on for the sake of old clients, but 3 is the first that there
          // is.
          const min = api.key === produceApi.key ? 3 : offered;
          assert.ok(max >= min, `${api.name} is not offered at port ${port}`);
          for (let version = min; version <= max; version++) {
            audit.check(await connection.ask(api, version, request(version)), port);
          }
        }
      } finally {
        connection.close();
      }
    }
    audit.assertSeen(['Metadata', 'FindCoordinator', 'DescribeCluster', 'Produce', 'Fetch']);
  });

  test('R13: answers keep the order of pipelined requests under any mix of local and forwarded', async () => {
    const random = new SeededRandom();
    const { atProxy } = stage;
    const view = await atProxy.metadata(['plain', 'gzip', 'native']);
    const linkNode = view.topics.get('gzip')?.partitions[0]?.leaderId;
    assert.equal(linkNode, 1_000_000);
    for (const { nodeId, port } of view.brokers) {
      const connection = await RawConnection.open(port);
      try {
        const jobs = orderedJobs(view, random);
        const asked: { name: string; outcome: Promise<Error | null> }[] = [];
        while (asked.length < 400) {
          const job = random.pick(jobs);
          asked.push({ name: job.name, outcome: job.run(connection).then(noFault, asFault) });
          if (random.below(20) === 0) await asked.at(-1)?.outcome;
        }
        for (const { name, outcome } of asked) {
          const fault = await outcome;
          assert.equal(fault, null, `${name} at node ${nodeId}; ${random.describe()}`);
        }
        const expected = asked.map((_, index) => index + 1);
        const place = connection.arrivals.findIndex((id, index) => id !== expected[index]);
        const what = `${asked[place]?.name} at node ${nodeId}`;
        const message = `out of order: ${what}; ${random.describe()}`;
        assert.deepEqual(connection.arrivals, expected, message);
      } finally {
        connection.close();
      }
    }
  });

  /** What the replica that does not lead tells to who reads there. */
  async function followersHighWatermark(topic: string, offset: bigint): Promise<bigint> {
    const info = (await stage.atProxy.metadata([topic])).topics.get(topic);
    const nodeId = info?.partitions[0]?.leaderId === 1 ? 2 : 1;
    assert.ok(info);
    const request = fetchRequest(info, { offset });
    const options = { versionMax: 12 };
    const answer = await stage.atProxy.send({ kind: 'node', nodeId }, fetchApi, request, options);
    const data = answer.responses[0]?.partitions[0];
    assert.equal(data?.errorCode, 0);
    return data.highWatermark;
  }

  test('R8: a follower told who reads a copy a lower high watermark after a restart of ours', async () => {
    const { atProxy, causeway, destination } = stage;
    const topic = 'followed';
    await stage.mirrorNewTopic(topic, values('copied', 3));
    await stopMirroring(causeway, 'promote', topic);
    const assignment = { topic, partitionAssignment: [{ partition: 0, replicas: [1, 2] }] };
    await withAdmin(destination, (admin) =>
      admin.alterPartitionReassignments({ topics: [assignment] }),
    );
    await write(atProxy, topic, 0, values('written', 4));
    await until(
      'the follower has all',
      async () => (await followersHighWatermark(topic, 3n)) === 7n,
    );
    assert.equal(await followersHighWatermark(topic, 0n), 7n);
    await causeway.kill9();
    await causeway.start();
    assert.equal(await until('an answer', () => followersHighWatermark(topic, 0n)), 7n);
  });
});

const emptyApiVersions = {
  clientSoftwareName: '',
  clientSoftwareVersion: '',
  clusterId: null,
  nodeId: -1,
};

function noFault(): null {
  return null;
}

function asFault(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}

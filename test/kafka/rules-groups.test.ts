// R5 and R6 on real brokers: committed offsets of groups at the destination address the record that
// they addressed at the source, never lie above what the mirror holds durably, and let real
// consumers go on with the next record without any reset.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  type ConsumedRecord,
  type ConsumerKind,
  skipReason,
  startConsumer,
} from '../helpers/foreign-clients.ts';
import { commitOffsets, committedOffsets } from '../helpers/group-offsets.ts';
import { type LinkedStage, linkName, offsets, startStage } from '../helpers/linked-stage.ts';
import { mirrorView, stopMirroring } from '../helpers/mirror-commands.ts';
import { readBatches } from '../helpers/raw-batches.ts';
import { fetchAt } from '../helpers/raw-reads.ts';
import {
  endTransaction,
  newProducer,
  startTransaction,
  values,
  write,
} from '../helpers/raw-writes.ts';
import { createTopic } from '../helpers/topic-admin.ts';
import { until } from '../helpers/wait.ts';

interface Handovers {
  readonly handovers: readonly { readonly group: string; readonly state: string }[];
}

/** What kafkajs tells of a group that is held. */
const waiting = /coordinator is loading|^Restarting the consumer/;

describe('offsets of groups', { timeout: 300_000 }, () => {
  let stage: LinkedStage;

  before(async () => {
    stage = await startStage({ linkConfigs: { 'consumer.offset.sync.enable': 'true' } });
    await createTopic(stage.atSource, 'marker');
    await write(stage.atSource, 'marker', 0, values('marker', 200));
    await stage.mirror('marker');
  });

  after(() => stage?.stop());

  /**
   * Committed, aborted and again committed transactions, five records each: markers at 5, 11 and
   * 17.
   */
  async function writeTransactions(topic: string): Promise<void> {
    const producer = await newProducer(stage.atSource, `${topic}-writer`);
    for (const [index, outcome] of (['commit', 'abort', 'commit'] as const).entries()) {
      await startTransaction(stage.atSource, producer, topic, [0]);
      const writing = { producer, sequence: 5 * index };
      await write(stage.atSource, topic, 0, values(`${topic} ${outcome}`, 5), writing);
      await endTransaction(stage.atSource, producer, outcome);
    }
  }

  let markersCount = 0;

  /** Resolves when a whole round of the group task has begun and ended after now. */
  async function wholeRound(): Promise<void> {
    for (let rounds = 0; rounds < 2; rounds++) {
      const offset = ++markersCount;
      await commitOffsets(stage.atSource, 'marker-group', 'marker', [offset]);
      await synced('marker-group', 'marker', [offset]);
    }
  }

  async function synced(group: string, topic: string, wanted: readonly number[]): Promise<void> {
    let seen: number[] = [];
    await until(
      `${group} at ${wanted.join()} of ${topic}`,
      async () => {
        seen = await committedOffsets(stage.atDestination, group, topic, wanted.length);
        return seen.join() === wanted.join();
      },
      { describe: () => `it is at ${seen.join()}` },
    );
  }

  test('R5: D01: a commit at the source is at the destination, at any point of a batch or transaction', async () => {
    const { atSource, atProxy } = stage;
    const writePoints = async (): Promise<void> => {
      for (const partition of [0, 1]) {
        for (const round of [0, 1]) {
          await write(atSource, 'points', partition, values(`points ${round}`, 10));
        }
      }
    };
    await stage.mirrorNewTopic('points', writePoints, { partitions: 2 });
    await stage.mirrorNewTopic('transactions', () => writeTransactions('transactions'));
    // Start, middle of a batch, between batches, end; before and after markers, inside what was
    // aborted.
    const plain = [
      [0, 20],
      [5, 1],
      [10, 19],
    ];
    const transactional = [0, 5, 6, 8, 12, 18];
    for (const [index, wanted] of plain.entries()) {
      await commitOffsets(atSource, `plain-${index}`, 'points', wanted);
    }
    for (const offset of transactional) {
      await commitOffsets(atSource, `transactional-${offset}`, 'transactions', [offset]);
    }
    for (const [index, wanted] of plain.entries()) {
      await synced(`plain-${index}`, 'points', wanted);
    }
    for (const offset of transactional) {
      await synced(`transactional-${offset}`, 'transactions', [offset]);
      const [left, right] = await Promise.all(
        [atSource, atProxy].map((cluster) => fetchAt(cluster, 'transactions', 0, BigInt(offset))),
      );
      assert.deepEqual([right?.errorCode, right?.first], [0, left?.first], `at ${offset}`);
    }
    const [end = -1n] = await offsets(atProxy, 'transactions', -1n);
    assert.ok(
      transactional.every((offset) => BigInt(offset) <= end),
      'no negative lag',
    );
    // The same number is the same record.
    for (const [from, partition] of [
      [5n, 0],
      [19n, 1],
    ] as const) {
      const [left, right] = await Promise.all(
        [atSource, atProxy].map(
          async (cluster) => (await readBatches(cluster, 'points', partition, from))[0]?.hash,
        ),
      );
      assert.equal(left, right);
    }
    // A commit that goes back at the source goes back here too, once nobody has moved it here.
    await commitOffsets(atSource, 'plain-1', 'points', [2, 0]);
    await synced('plain-1', 'points', [2, 0]);
  });

  test('R5: no synced commit lies above the durable end of the mirror, nor above S after failover', async () => {
    const { atSource, atDestination, causeway } = stage;
    await stage.mirrorNewTopic('ahead', values('ahead', 10));
    await commitOffsets(atSource, 'ahead-group', 'ahead', [10]);
    await synced('ahead-group', 'ahead', [10]);

    // A commit beyond everything, as after a truncation of the source: as far as the mirror goes,
    // no further.
    await commitOffsets(atSource, 'ahead-group', 'ahead', [1_000]);
    await commitOffsets(atSource, 'new-group', 'ahead', [1_000]);
    await wholeRound();
    for (const group of ['ahead-group', 'new-group']) await synced(group, 'ahead', [10]);

    for (let batch = 0; batch < 20; batch++) {
      await write(atSource, 'ahead', 0, values('follows', 2));
      const [offset = -1] = await committedOffsets(atDestination, 'ahead-group', 'ahead', 1);
      const durable = (await mirrorView(causeway, 'ahead')).partitions[0]?.mirrorEnd ?? -1;
      assert.ok(offset <= durable, `committed ${offset}, but the mirror ends at ${durable}`);
    }
    await stage.caughtUp('ahead');
    for (const group of ['ahead-group', 'new-group']) await synced(group, 'ahead', [50]);

    const [switched] = await stopMirroring(causeway, 'failover', 'ahead');
    assert.equal(switched?.virtualEnd, 50);
    await commitOffsets(atSource, 'ahead-group', 'ahead', [2_000]);
    await wholeRound();
    for (const group of ['ahead-group', 'new-group']) {
      assert.deepEqual(await committedOffsets(atDestination, group, 'ahead', 1), [50]);
    }
  });

  test('R5, R16: a group that moved on at the destination is not taken back, before and after failover', async () => {
    const { atSource, atDestination, atProxy, causeway } = stage;
    await stage.mirrorNewTopic('moved', values('moved', 10));
    await commitOffsets(atSource, 'moved-group', 'moved', [4]);
    await synced('moved-group', 'moved', [4]);
    await commitOffsets(atProxy, 'moved-group', 'moved', [8]);
    await commitOffsets(atSource, 'moved-group', 'moved', [6]);
    await wholeRound();
    assert.deepEqual(await committedOffsets(atDestination, 'moved-group', 'moved', 1), [8]);
    await stopMirroring(causeway, 'failover', 'moved');
    await write(atProxy, 'moved', 0, values('after', 10));
    await commitOffsets(atProxy, 'moved-group', 'moved', [17]);
    await commitOffsets(atSource, 'moved-group', 'moved', [9]);
    await wholeRound();
    assert.deepEqual(await committedOffsets(atDestination, 'moved-group', 'moved', 1), [17]);
  });

  async function handoverState(group: string): Promise<string | undefined> {
    const path = `/causeway/v1/links/${linkName}/handovers`;
    const { handovers } = await stage.causeway.get<Handovers>(path);
    return handovers.find((one) => one.group === group)?.state;
  }

  for (const [end, state] of [
    ['--cancel', 'CANCELLED'],
    ['its deadline', 'EXPIRED'],
  ] as const) {
    test(`R6: a handover that ends by ${end} lets members join`, async () => {
      const { atSource, causeway, source } = stage;
      const topic = `held-${state}`;
      const group = `held-group-${state}`;
      await createTopic(atSource, topic);
      await write(atSource, topic, 0, values('a', 5));
      await stage.mirror(topic);
      const options = { topic, group, isolation: 'read_uncommitted' } as const;
      const { bootstrap } = source;
      const reader = await startConsumer('kafkajs', { ...options, bootstrap, reset: 'earliest' });
      try {
        // It stays at the source: the handover cannot be done.
        await reader.waitForCount(5, { deadlineMs: 60_000 });
        const link = ['--link', linkName];
        const deadline = end === '--cancel' ? '10m' : '3s';
        await causeway.cli(
          'group',
          'handover',
          group,
          ...link,
          '--no-wait',
          '--deadline',
          deadline,
        );
        const next = await startConsumer('kafkajs', {
          ...options,
          bootstrap: causeway.bootstrap,
          reset: 'earliest',
        });
        try {
          if (end === '--cancel') {
            await next.waitFor('the word', () => next.errors.some((text) => waiting.test(text)));
            assert.equal(next.records.length, 0);
            await causeway.cli('group', 'handover', group, ...link, end);
          }
          await until(state, async () => (await handoverState(group)) === state);
          await next.waitForCount(5, { deadlineMs: 60_000 });
        } finally {
          await next.stop();
        }
      } finally {
        await reader.stop();
      }
    });
  }

  test('R6: a group that is handed over goes on with the next record, once', async () => {
    const { atSource, causeway, source } = stage;
    const topic = 'handed';
    const group = 'handover-group';
    await createTopic(atSource, topic);
    await write(atSource, topic, 0, values('a', 9));
    await stage.mirror(topic);
    const options = { topic, group, isolation: 'read_uncommitted' } as const;
    const reader = await startConsumer('kafkajs', {
      ...options,
      bootstrap: source.bootstrap,
      reset: 'earliest',
    });
    await reader.waitForCount(9, { deadlineMs: 60_000 });
    const link = ['--link', linkName];
    const begun = await causeway.cli('group', 'handover', group, ...link, '--no-wait');
    assert.match(begun, /WAITING.*source's group is Stable/);
    const next = await startConsumer('kafkajs', {
      ...options,
      bootstrap: causeway.bootstrap,
      reset: 'none',
    });
    await write(atSource, topic, 0, values('b', 3));
    await reader.waitForCount(12, { deadlineMs: 60_000 });
    assert.deepEqual(Object.values(await reader.commit()), [12]);
    assert.equal(next.records.length, 0);
    await reader.stop();
    await until('handed over', async () => (await handoverState(group)) === 'DONE');
    await write(atSource, topic, 0, values('c', 4));
    await next.waitForCount(4, { deadlineMs: 60_000 });
    await next.stop();
    assert.deepEqual(places(next.records), ['0-12', '0-13', '0-14', '0-15']);
    // Anything else would be an error.
    assert.deepEqual(
      next.errors.filter((text) => !waiting.test(text)),
      [],
    );
  });

  const cases = [
    { kind: 'java', isolation: 'read_uncommitted' },
    { kind: 'kafkajs', isolation: 'read_uncommitted' },
    { kind: 'java-kip848', isolation: 'read_committed' },
  ] as const satisfies readonly { kind: ConsumerKind; isolation: string }[];

  for (const { kind, isolation } of cases) {
    test(`R6: a ${kind} consumer goes on with the next record after failover, reset none, ${isolation}`, async (context) => {
      const reason = await skipReason(kind);
      if (reason !== false) return context.skip(reason);
      const { atSource, atProxy, causeway, source } = stage;
      const topic = `continued-${kind}`;
      const group = `group-${kind}`;
      const isTransactional = isolation === 'read_committed';
      await createTopic(atSource, topic, { partitions: isTransactional ? 1 : 2 });
      if (isTransactional) await writeTransactions(topic);
      else for (const partition of [0, 1]) await write(atSource, topic, partition, values('a', 9));
      await stage.mirror(topic);
      const options = { topic, group, isolation };
      const reader = await startConsumer(kind, {
        ...options,
        bootstrap: source.bootstrap,
        reset: 'earliest',
      });
      await reader.waitForCount(isTransactional ? 10 : 18, { deadlineMs: 60_000 });
      const committed = Object.entries(await reader.commit())
        .sort()
        .map(([, offset]) => offset);
      await reader.stop();
      for (const [partition] of committed.entries()) {
        await write(atSource, topic, partition, values('not yet read', 7));
      }
      await stage.caughtUp(topic);
      await synced(group, topic, committed);
      const ends = await offsets(atProxy, topic, -1n);
      await stopMirroring(causeway, 'failover', topic);
      for (const [partition] of committed.entries()) {
        await write(atProxy, topic, partition, values('after', 5));
      }
      const next = await startConsumer(kind, {
        ...options,
        bootstrap: causeway.bootstrap,
        reset: 'none',
      });
      const expected = committed.flatMap((from, partition) => {
        const to = Number(ends[partition] ?? 0n) + 5;
        return Array.from({ length: to - from }, (_, index) => `${partition}-${from + index}`);
      });
      await next.waitForCount(expected.length, { deadlineMs: 60_000 });
      await next.stop();
      assert.deepEqual(places(next.records), expected);
      assert.deepEqual(next.errors, []);
    });
  }
});

function places(records: readonly ConsumedRecord[]): string[] {
  const groups = new Map<number, string[]>();
  for (const { partition, offset } of records) {
    groups.set(partition, [...(groups.get(partition) ?? []), `${partition}-${offset}`]);
  }
  return [...groups].sort(([left], [right]) => left - right).flatMap(([, found]) => found);
}

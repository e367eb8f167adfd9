// The writing half of the group task over a cluster in memory, by a clock that the test turns:
// renewal before expiry, what was deleted and what has expired, groups that are live.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ErrorCode } from '../../../protocol/index.ts';
import { ClusterError } from '../../../src/cluster/cluster.ts';
import { defaultLinkLimits, type LinkContext } from '../../../src/link/context.ts';
import { GroupWriter } from '../../../src/tasks/group-writer.ts';
import { FakeGroupCluster } from './fake-group-cluster.ts';

const retentionMs = 60_000;
const periodMs = 1_000;

function stage() {
  let nowMs = 0;
  let topicId = 'first';
  const cluster = new FakeGroupCluster({ nowMs: () => nowMs, retentionMs });
  const clock = { monotonicMs: () => nowMs, unixMs: () => nowMs };
  const context = { destination: cluster, clock, limits: defaultLinkLimits };
  const writer = new GroupWriter({ context: context as unknown as LinkContext, retentionMs });
  const options = { mayAct: () => true, endOf: () => 100n };
  const round = (group: string, offset: bigint) =>
    writer.write(
      new Map([
        [group, [{ topic: 't', topicId, partition: 0, position: { offset, metadata: '' } }]],
      ]),
      options,
    );
  return {
    cluster,
    writer,
    round,
    held: (group: string) => writer.rowsOf(group)[0]?.held,
    recreateTopic: () => {
      topicId = 'second';
    },
    /** Rounds of the task until the time is over. */
    pass: async (forMs: number, group: string, offset: bigint) => {
      for (const endMs = nowMs + forMs; nowMs < endMs; nowMs += periodMs) {
        await round(group, offset);
      }
    },
    wait: (forMs: number) => {
      nowMs += forMs;
    },
  };
}

describe('an idle group', () => {
  test('is renewed every quarter of the retention and never expires; other rounds write nothing', async () => {
    const { cluster, pass } = stage();
    await pass(10 * retentionMs, 'idle', 5n);
    assert.equal(cluster.committed('idle', 't/0'), 5n);
    const commits = cluster.count('OffsetCommit');
    assert.ok(commits >= 40 && commits <= 51, `${commits} commits in ten retentions`);
    assert.ok(cluster.gapMaxMs <= retentionMs / 4, `${cluster.gapMaxMs} ms without a renewal`);
  });

  test('that expired while nobody renewed it is made again', async () => {
    const { cluster, round, wait } = stage();
    await round('idle', 5n);
    wait(2 * retentionMs);
    assert.equal(cluster.committed('idle', 't/0'), null);
    await round('idle', 5n);
    assert.equal(cluster.committed('idle', 't/0'), 5n);
  });

  test('R16: that was deleted here stays deleted, until its source commits anew', async () => {
    const { cluster, round, pass, held } = stage();
    await round('idle', 5n);
    cluster.delete('idle');
    await pass(3 * retentionMs, 'idle', 5n);
    assert.equal(cluster.committed('idle', 't/0'), null);
    assert.equal(held('idle'), 'deleted');
    await round('idle', 6n);
    assert.equal(cluster.committed('idle', 't/0'), 6n);
    assert.equal(held('idle'), null);
  });

  test('that had members here may have expired in spite of renewals, and is made again', async () => {
    const { cluster, round, pass } = stage();
    cluster.withMembers.add('idle');
    await round('idle', 5n);
    cluster.delete('idle');
    await pass(retentionMs, 'idle', 5n);
    assert.equal(cluster.committed('idle', 't/0'), 5n);
  });

  test('is new to another topic of the same name', async () => {
    const { cluster, round, recreateTopic } = stage();
    await round('idle', 5n);
    cluster.delete('idle');
    recreateTopic();
    await round('idle', 5n);
    assert.equal(cluster.committed('idle', 't/0'), 5n);
  });
});

test('a live group is named and left alone for a while, then tried again', async () => {
  const { cluster, round, held, pass } = stage();
  cluster.refusals.set('live', ErrorCode.UNKNOWN_MEMBER_ID);
  await pass(10_000, 'live', 5n);
  assert.equal(held('live'), 'live');
  assert.equal(cluster.count('OffsetCommit'), 2);
  cluster.refusals.clear();
  await pass(5_000, 'live', 5n);
  assert.equal(held('live'), null);
  assert.equal(cluster.committed('live', 't/0'), 5n);
  await round('live', 5n);
});

test('a right that is missing is named with the command that grants it', async () => {
  const { cluster, round } = stage();
  cluster.refusals.set('g', ErrorCode.GROUP_AUTHORIZATION_FAILED);
  const { problems } = await round('g', 5n);
  assert.deepEqual(problems, [
    {
      code: 'BROKER_AUTHORIZATION_ERROR',
      message:
        "offsets of group 'g' cannot be written at the destination: GROUP_AUTHORIZATION_FAILED; " +
        "grant it with kafka-acls --add --group 'g' --operation Read",
    },
  ]);
});

describe('a group whose coordinator is not to be had', () => {
  test('R6: is not taken for one that is in step', async () => {
    const { cluster, round } = stage();
    cluster.refusals.set('g', ErrorCode.NOT_COORDINATOR);
    assert.deepEqual([...(await round('g', 5n)).postponed], ['g']);
    cluster.refusals.clear();
    cluster.withoutCoordinator.add('g');
    assert.deepEqual([...(await round('g', 5n)).postponed], ['g']);
    cluster.withoutCoordinator.clear();
    assert.deepEqual([...(await round('g', 5n)).postponed], []);
    assert.equal(cluster.committed('g', 't/0'), 5n);
  });

  test('R15: is a problem when that lasts, and none while a coordinator only moves', async () => {
    const { cluster, round, wait } = stage();
    cluster.withoutCoordinator.add('g');
    assert.deepEqual((await round('g', 5n)).problems, []);
    wait(defaultLinkLimits.sampleAgeMaxMs);
    const [problem] = (await round('g', 5n)).problems;
    assert.match(problem?.message ?? '', /coordinators of 1 groups \('g' first\) do not answer/);
    cluster.withoutCoordinator.clear();
    assert.deepEqual((await round('g', 5n)).problems, []);
  });
});

test('R16: the offsets of many groups are read, and read back, by a request for all of them', async () => {
  const { cluster, writer } = stage();
  const groups = Array.from({ length: 50 }, (_, index) => `group-${index}`);
  const commit = {
    topic: 't',
    topicId: 'first',
    partition: 0,
    position: { offset: 5n, metadata: '' },
  };
  const wanted = new Map(groups.map((group) => [group, [commit]]));
  const options = { mayAct: () => true, endOf: () => 100n };
  const { written } = await writer.write(wanted, options);
  assert.equal(written, 50);
  assert.deepEqual([cluster.count('OffsetCommit'), cluster.count('OffsetFetch')], [50, 2]);
  for (const group of groups) {
    assert.equal(cluster.committed(group, 't/0'), 5n);
    assert.equal(writer.rowsOf(group)[0]?.destinationOffset, 5n);
  }
});

test('what was written before the destination went away counts as written', async () => {
  const { cluster, writer } = stage();
  const commit = {
    topic: 't',
    topicId: 'first',
    partition: 0,
    position: { offset: 5n, metadata: '' },
  };
  const wanted = new Map(['first', 'second'].map((group) => [group, [commit]]));
  const options = { mayAct: () => true, endOf: () => 100n };
  const send = cluster.send.bind(cluster);
  cluster.send = async (target, api, request) => {
    if (api.name === 'OffsetCommit' && cluster.count('OffsetCommit') > 0) {
      throw new ClusterError('UNREACHABLE', 'scripted', { maybeSent: false });
    }
    return send(target, api, request);
  };
  await assert.rejects(writer.write(wanted, options), { code: 'UNREACHABLE' });
  assert.equal(cluster.committed('first', 't/0'), 5n);
  assert.equal(writer.rowsOf('first')[0]?.destinationOffset, 5n);
  cluster.send = send;
  await writer.write(wanted, options);
  assert.equal(cluster.committed('second', 't/0'), 5n);
});

// Share groups of the source against the end of a topic: who is behind, and who cannot be asked.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Cluster, ClusterError } from '../../../src/cluster/cluster.ts';
import type { ListedGroup } from '../../../src/tasks/group-listing.ts';
import { shareGroupsBehind } from '../../../src/tasks/share-groups.ts';

interface Place {
  startOffset: bigint;
  lag?: bigint;
  errorCode?: number;
}

function scene(answers: Record<string, { errorCode?: number; places?: Place[] }>) {
  const asked: string[][] = [];
  const source = {
    send: async (
      target: { nodeId: number },
      _api: unknown,
      request: { groups: { groupId: string }[] },
    ) => {
      asked.push([String(target.nodeId), ...request.groups.map(({ groupId }) => groupId)]);
      const groups = request.groups.map(({ groupId }) => ({
        groupId,
        errorCode: answers[groupId]?.errorCode ?? 0,
        topics: [
          {
            topicName: 'orders',
            partitions: (answers[groupId]?.places ?? []).map((place, partitionIndex) => ({
              ...{ partitionIndex, errorCode: 0, lag: -1n },
              ...place,
            })),
          },
        ],
      }));
      return { groups };
    },
  } as unknown as Cluster;
  const listed = (kind: ListedGroup['kind']): ListedGroup => ({ nodeId: 1, kind, state: 'Empty' });
  const groups = new Map(Object.keys(answers).map((group) => [group, listed('share')] as const));
  groups.set('ordinary', listed('consumer'));
  const ask = () => shareGroupsBehind(source, groups, { sourceTopic: 'orders', ends: [10n, 20n] });
  return { ask, asked, source };
}

test('a share group with something to read is behind, by its lag where brokers tell it', async () => {
  const { ask, asked } = scene({
    done: {
      places: [
        { startOffset: 4n, lag: 0n },
        { startOffset: 20n, lag: 0n },
      ],
    },
    behind: {
      places: [
        { startOffset: 10n, lag: 0n },
        { startOffset: 5n, lag: 3n },
      ],
    },
    old: { places: [{ startOffset: 10n }, { startOffset: 17n }] },
    oldDone: { places: [{ startOffset: 10n }, { startOffset: 20n }] },
    unread: { places: [{ startOffset: -1n }] },
    gone: { errorCode: 69 },
  });
  const problems = await ask();
  assert.deepEqual(
    problems.map(({ code, message }) => `${code} ${message}`),
    [
      "SHARE_GROUP_BEHIND share group 'behind' has 3 records of partition 1 to read",
      "SHARE_GROUP_BEHIND share group 'old' has up to 3 records of partition 1 to read",
    ],
  );
  assert.deepEqual(asked, [['1', 'done', 'behind', 'old', 'oldDone', 'unread', 'gone']]);
});

test('one that cannot be asked about counts as behind; without any, nobody is asked', async () => {
  const denied = await scene({ secret: { errorCode: 30 } }).ask();
  assert.match(denied[0]?.message ?? '', /'secret' has read cannot be told: GROUP_AUTHORIZATION/);
  const old = scene({ preview: {} });
  Object.assign(old.source, {
    send: async () => {
      throw new ClusterError('UNSUPPORTED', 'no version', { maybeSent: false });
    },
  });
  assert.match((await old.ask())[0]?.message ?? '', /'preview' .* its brokers cannot be asked/);
  const none = scene({});
  assert.deepEqual([await none.ask(), none.asked], [[], []]);
});

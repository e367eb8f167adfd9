// A damaged range of a mirror log, over a source that answers from a script: fetched again, tried
// again when the source does not answer, given up aloud when it has nothing to give.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createFetchableTopicResponse,
  createFetchResponse,
  createPartitionData,
} from '../../../protocol/generated/fetch-response.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import type { Cluster } from '../../../src/cluster/cluster.ts';
import { ClusterError } from '../../../src/cluster/cluster.ts';
import { type DamagedFeed, watchDamage } from '../../../src/link/fetch/damage-repair.ts';
import type { FeedLink } from '../../../src/link/fetch/source-link.ts';
import { Events } from '../../../src/observe/events.ts';
import { StorageError } from '../../../storage/errors.ts';
import type { LogDamage } from '../../../storage/mirror-log.ts';
import { batch, shellId } from './fakes.ts';

const batches = [0n, 2n, 4n].map((base) => batch({ base, count: 2 }));
const whole = Buffer.concat(batches);
const damage: LogDamage = { from: 0n, to: 6n, bytes: whole.length, reason: 'scripted' };

type Answer = Buffer | number | Error;

function scene(answers: Answer[], refuse: Error | null = null) {
  const known = [damage];
  const repaired: Buffer[] = [];
  const offsets: bigint[] = [];
  const events = new Events();
  let listener = (): void => undefined;
  const work: Promise<void>[] = [];
  const feed: DamagedFeed = {
    topic: 'mirror',
    sourceTopic: 'orders',
    sourceTopicId: shellId,
    partition: 0,
    leaderId: 1,
    isStopped: false,
    log: {
      get damage() {
        return [...known];
      },
      onDamage(heard) {
        listener = heard;
        return () => {
          listener = () => undefined;
        };
      },
      async repair(_, records) {
        if (refuse !== null) throw refuse;
        repaired.push(records);
        known.length = 0;
      },
    },
  };
  const send = async (_: unknown, __: unknown, request: unknown) => {
    const { topics } = request as { topics: { partitions: { fetchOffset: bigint }[] }[] };
    offsets.push(topics[0]?.partitions[0]?.fetchOffset ?? -1n);
    const next = answers.shift() ?? Buffer.alloc(0);
    if (next instanceof Error) throw next;
    const isRecords = Buffer.isBuffer(next);
    const data = createPartitionData({
      errorCode: isRecords ? ErrorCode.NONE : next,
      records: isRecords ? next : null,
    });
    return createFetchResponse({
      responses: [createFetchableTopicResponse({ partitions: [data] })],
    });
  };
  const link = {
    name: 'dr',
    events,
    cluster: { send } as unknown as Cluster,
    mayAct: () => true,
    inBackground: (run: () => Promise<void>) => {
      work.push(run());
    },
  } as unknown as FeedLink;
  const end = watchDamage(feed, link);
  return {
    repaired,
    offsets,
    end,
    tell: () => listener(),
    settled: async () => {
      await Promise.all(work);
      return events.since(0).map(({ event }) => event);
    },
    events,
  };
}

test('what was damaged before the feed began is fetched again, in as many answers as it takes', async () => {
  const { repaired, offsets, settled } = scene([
    batches[0] ?? whole,
    Buffer.concat(batches.slice(1)),
  ]);
  assert.deepEqual(await settled(), ['mirror_damage_repaired']);
  assert.deepEqual(repaired, [whole]);
  assert.deepEqual(offsets, [0n, 2n]);
});

test('more than the range is not written', async () => {
  const { repaired, settled } = scene([Buffer.concat([whole, batch({ base: 6n })])]);
  await settled();
  assert.deepEqual(repaired, [whole]);
});

test('a source that has nothing any more ends it, with one event', async () => {
  for (const answer of [ErrorCode.OFFSET_OUT_OF_RANGE, Buffer.alloc(0)]) {
    const { repaired, settled, events, tell } = scene([answer]);
    assert.deepEqual(await settled(), ['mirror_damage_not_repaired']);
    assert.equal(events.since(0)[0]?.fields.isFinal, true);
    assert.deepEqual(repaired, []);
    tell();
    assert.equal((await settled()).length, 2, 'tried again when more is found');
  }
});

test('a repair that the log refuses is final', async () => {
  const { settled, events } = scene([whole], new StorageError('CORRUPT_BATCH', 'not a repair'));
  await settled();
  assert.equal(events.since(0)[0]?.fields.isFinal, true);
});

test('a source that does not answer is asked again', async () => {
  const lost = new ClusterError('UNREACHABLE', 'scripted', { maybeSent: false });
  const { repaired, settled } = scene([lost, whole]);
  assert.deepEqual(await settled(), ['mirror_damage_not_repaired', 'mirror_damage_repaired']);
  assert.deepEqual(repaired, [whole]);
});

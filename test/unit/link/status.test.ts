// How a partition is shown of which nothing is heard, and one that stands still because it should:
// a partition of the source that never had a leader since we started is not fetched, and nothing
// else would say so; what is paused or failed is shown so, and stalls of nothing.
//
// Owns: one mirror with one feed. Refuses to know how leaders are found. Invariant: time passes
// only when the test says so.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LinkContext } from '../../../src/link/context.ts';
import type { LinkRuntime } from '../../../src/link/link.ts';
import type { MirrorTopic } from '../../../src/link/mirror/mirror-topics.ts';
import { damagedRecords } from '../../../src/link/mirror-statuses.ts';
import { linkStatus } from '../../../src/link/status.ts';
import { ageMaxMs, makeMirror } from './one-mirror.ts';

test('R15: a partition of which nothing is heard is STALLED, with the cause', async (t) => {
  const { now, feed, lag, shown } = await makeMirror(t);
  assert.deepEqual(shown(), [false, undefined, null], 'it may come yet');
  now.ms += ageMaxMs;
  assert.deepEqual(shown(), [true, 'LEADER_NOT_AVAILABLE', null]);
  feed.follow(1, 0);
  assert.deepEqual(shown(), [true, 'NO_ANSWER', null]);
  feed.heldBackAtMs = now.ms - ageMaxMs + 1;
  assert.deepEqual(shown(), [true, 'SOURCE_QUOTA', null]);
  now.ms += 1;
  assert.deepEqual(shown(), [true, 'NO_ANSWER', null]);
  lag.observeSource(0n, { nowMs: now.ms, unixMs: now.ms });
  assert.deepEqual(shown(), [false, undefined, 0n]);
});

test('R15: a paused or failed mirror was STALLED because the source said nothing new', async (t) => {
  const { now, feed, feeds, lag, shown } = await makeMirror(t);
  feed.follow(1, 0);
  lag.observeSource(10n, { nowMs: now.ms, unixMs: now.ms });
  now.ms += ageMaxMs;
  lag.observeSource(null, { nowMs: now.ms, unixMs: now.ms });
  assert.deepEqual(shown('ACTIVE'), [true, 'NO_PROGRESS', 10n]);
  // Its feeds end with the state; what is known of the lag lives on.
  feeds.length = 0;
  for (const state of ['PAUSED', 'FAILED'] as const) {
    assert.deepEqual(shown(state), [false, undefined, 10n], state);
  }
  assert.deepEqual(shown('ACTIVE', { linkPaused: true }), [false, undefined, 10n]);
  now.ms += 10 * ageMaxMs;
  assert.deepEqual(shown('PAUSED'), [false, undefined, null]);
  assert.deepEqual(shown('PENDING_STOPPED', { linkPaused: true }), [true, 'LINK_PAUSED', null]);
  assert.deepEqual(shown('PAUSED', {}, null), [true, 'STORAGE_ERROR', null], 'it cannot be read');
});

test('damaged records showed in no status: a notice names the first ranges and counts the others', () => {
  const damage = Array.from({ length: 7 }, (_, index) => {
    return { from: BigInt(index * 10), to: BigInt(index * 10 + 5), bytes: 1, reason: '' };
  });
  const notices = (...logs: readonly (readonly object[] | null)[]) => {
    const partitions = logs.map((ranges, partition) => {
      return { partition, log: ranges === null ? null : { damage: ranges } };
    });
    return damagedRecords({ partitions } as unknown as MirrorTopic);
  };
  assert.deepEqual(notices([], null), []);
  const [one] = notices([], damage.slice(0, 1));
  assert.equal(one?.code, 'RECORDS_DAMAGED');
  assert.match(one.message, /partition 1: offsets \[0, 5\)$/);
  assert.match(one.remedy ?? '', /asked of the source/);
  const [all] = notices([], damage, damage);
  assert.match(all?.message ?? '', /offsets \[40, 45\) and 9 more$/);
});

test('R15: a link whose mirrors lacked partitions had the RPO of those that are there', () => {
  const nowMs = 1_000_000;
  const clock = { monotonicMs: () => nowMs, unixMs: () => nowMs };
  const context = { clock, limits: { sampleAgeMaxMs: ageMaxMs } } as unknown as LinkContext;
  const topic = { name: 't', record: { state: 'ACTIVE' }, partitions: [{ partition: 0 }] };
  const rpo = (lacksSinceMs: number | null) => {
    const link = {
      feeds: { lag: () => ({ lag: () => ({ completeAtMs: nowMs - 200 }) }) },
      health: { error: null },
      record: { paused: false },
      growth: { sinceMs: () => lacksSinceMs },
    } as unknown as LinkRuntime;
    const topics = [topic] as unknown as MirrorTopic[];
    return linkStatus(link, topics, { context, tasks: [] }).rpoSeconds;
  };
  assert.deepEqual([rpo(null), rpo(nowMs - 9_000), rpo(nowMs - 100)], [0.2, 9, 0.2]);
});

// What is told of partitions that stall: for each cause that there is the beginning and the end,
// and little when much stalls at once.
//
// Owns: one mirror, and what the watch told of it. Refuses to know how causes come about.
// Invariant: time passes, and looks are taken, only when the test says so.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { MirrorTopic } from '../../../src/link/mirror/mirror-topics.ts';
import { StallWatch } from '../../../src/link/stall-watch.ts';
import { ageMaxMs, makeMirror } from './one-mirror.ts';

async function scene(t: TestContext) {
  const mirror = await makeMirror(t);
  const { context, events } = mirror;
  const topics = { all: [mirror.topicOf()] as MirrorTopic[] };
  const watch = new StallWatch({ context, topics, linkOf: () => mirror.linkOf() });
  /** What another look tells: begun or ended, for how many seconds, with what cause. */
  const told = () => {
    const [last] = events.since(0).slice(-1);
    watch.look();
    return events.since(last?.id ?? 0).map(({ event, level, fields }) => {
      const { link, topic, partitions, seconds } = fields;
      assert.deepEqual([link, topic, partitions], ['dr', 't', '0']);
      assert.equal(level, seconds === undefined ? 'warn' : 'info');
      const cause = String(fields.cause).split(':')[0];
      return seconds === undefined ? [event, cause] : [event, cause, seconds];
    });
  };
  const hear = (end: bigint | null) => {
    const nowMs = mirror.now.ms;
    mirror.lag.observeSource(end, { nowMs, unixMs: nowMs });
  };
  return { ...mirror, topics, told, hear };
}

test('R15: stalls by a lost leader, silence, empty answers or a lost right were told of nowhere', async (t) => {
  const { now, feed, lag, told, hear } = await scene(t);
  assert.deepEqual(told(), []);
  now.ms += ageMaxMs;
  assert.deepEqual(told(), [['mirror_stall_begun', 'LEADER_NOT_AVAILABLE']]);
  now.ms += 4_000;
  assert.deepEqual(told(), [], 'once');
  feed.follow(1, 0);
  hear(0n);
  assert.deepEqual(told(), [['mirror_stall_ended', 'LEADER_NOT_AVAILABLE', 4]]);

  now.ms += ageMaxMs;
  assert.deepEqual(told(), [['mirror_stall_begun', 'NO_ANSWER']]);
  hear(0n);
  assert.deepEqual(told(), [['mirror_stall_ended', 'NO_ANSWER', 0]]);

  hear(10n);
  now.ms += ageMaxMs;
  hear(null);
  assert.deepEqual(told(), [['mirror_stall_begun', 'NO_PROGRESS']]);
  lag.observeMirror(10n, now.ms);
  assert.deepEqual(told(), [['mirror_stall_ended', 'NO_PROGRESS', 0]]);

  const denied = 'source answers TOPIC_AUTHORIZATION_FAILED';
  for (let failure = 0; failure < 3; failure++) feed.fail(denied, now.ms);
  assert.deepEqual(told(), [['mirror_stall_begun', denied]]);
  feed.succeed();
  assert.deepEqual(told(), [['mirror_stall_ended', denied, 0]]);

  for (let failure = 0; failure < 3; failure++) feed.gotNoAnswer('TIMEOUT');
  assert.deepEqual(told(), [['mirror_stall_begun', 'TIMEOUT']]);
  feed.succeed();
  assert.deepEqual(told(), [['mirror_stall_ended', 'TIMEOUT', 0]]);
});

test('a stall ends with its mirror, or when that is paused', async (t) => {
  const { now, topics, topicOf, told } = await scene(t);
  now.ms += ageMaxMs;
  for (const end of [[], [topicOf('PAUSED')], [topicOf('STOPPED')]]) {
    assert.deepEqual(told(), [['mirror_stall_begun', 'LEADER_NOT_AVAILABLE']]);
    topics.all = end;
    assert.deepEqual(told(), [['mirror_stall_ended', 'LEADER_NOT_AVAILABLE', 0]]);
    topics.all = [topicOf()];
  }
});

test('an instance without the lease tells nothing of what it does not fetch', async (t) => {
  const { now, state, told } = await scene(t);
  state.isOwner = false;
  now.ms += ageMaxMs;
  assert.deepEqual(told(), []);
  state.isOwner = true;
  assert.deepEqual(told(), [['mirror_stall_begun', 'LEADER_NOT_AVAILABLE']]);
  state.isOwner = false;
  assert.deepEqual(told(), [], 'nor that it is over');
});

test('R14: a source that is lost with thousands of topics is few events', async (t) => {
  const { now, events, context, topicOf, linkOf } = await makeMirror(t);
  const all = Array.from({ length: 3_000 }, (_, index) => ({
    ...topicOf(),
    name: `t-${index}`,
  })) as unknown as MirrorTopic[];
  const watch = new StallWatch({ context, topics: { all }, linkOf: () => linkOf() });
  now.ms += ageMaxMs;
  watch.look();
  const begun = events.since(0);
  assert.equal(begun.length, 21);
  assert.match(begun[0]?.message ?? '', /^'t-0': partition 0 is STALLED: LEADER_NOT_AVAILABLE/);
  assert.match(begun[20]?.message ?? '', /^2980 partitions more, of 't-20' and other topics, are/);
  assert.equal(begun[20]?.fields.count, 2_980);
  all.length = 0;
  watch.look();
  assert.equal(events.since(0).length, 42);
});

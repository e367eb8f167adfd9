// The look at a link's source: what it says of mirrors that lack partitions when the link may not
// act, and what becomes of an answer that comes when it is nobody's news any more.
//
// Owns: a link with one mirror over a source that answers from a table. Invariant: time passes for
// the link only when the test says so, and nothing of it outlives its test.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { ErrorCode } from '../../../protocol/index.ts';
import type { SourceSeenRecord } from '../../../src/state/records.ts';
import { until } from '../../helpers/wait.ts';
import { FakeCluster, mirrorRecord, shellId, sourceId, topicInfo } from './fakes.ts';
import { openLink } from './one-link.ts';

/** Before a restart the source was seen to have three partitions. */
const lacking: SourceSeenRecord = {
  ...{ kind: 'source-seen', link: 'dr', linkId: sourceId, timeMs: 1, contactTimeMs: 1 },
  topics: [
    {
      ...{ topic: 'orders', logTopicId: shellId },
      ...{ sourceEnds: [0n], contactTimesMs: [1], completeTimesMs: [1] },
      growth: { sourcePartitions: 3, sinceTimeMs: 1 },
    },
  ],
};

class CountedSource extends FakeCluster {
  looks = 0;
  /** Until it is over no answer comes. */
  held: Promise<void> = Promise.resolve();

  override async metadata(names: 'all' | readonly string[]) {
    const answer = await super.metadata(names);
    this.looks++;
    await this.held;
    return answer;
  }
}

async function scene(t: TestContext, { isPaused = false } = {}) {
  const source = new CountedSource();
  const info = topicInfo('orders', sourceId, Array(3).fill(0));
  const partitions = info.partitions.map((found) => ({ ...found, leaderId: -1 }));
  source.topics.set('orders', { ...info, partitions });
  const { link, state, topics, now } = await openLink(t, { source, isPaused, seen: lacking });
  topics.onChange((name) => link.sync(name));
  const looked = async (times = 2) => {
    const wanted = source.looks + times;
    await until('it has looked', () => source.looks >= wanted);
  };
  const cause = () => link.growth.of('orders')?.cause;
  return { link, state, source, topics, now, looked, cause };
}

test('R15: after a restart a mirror of a paused link was said to lack partitions of a source that does not answer', async (t) => {
  const { link, looked, cause } = await scene(t, { isPaused: true });
  link.start();
  assert.match(cause() ?? '', /the source has not answered since/);
  await looked();
  assert.equal(cause(), 'the link is paused');
});

test('R15: a mirror that lacks partitions said so of a source that does not answer while it was the lease that was lost', async (t) => {
  const { link, state, looked, cause } = await scene(t);
  state.isOwner = false;
  link.start();
  await looked();
  assert.equal(cause(), 'this instance does not hold the lease');
});

test('R15: a source that hides how many partitions it has was said not to answer', async (t) => {
  const { link, source, looked, cause } = await scene(t);
  const info = topicInfo('orders', sourceId, []);
  source.topics.set('orders', { ...info, errorCode: ErrorCode.TOPIC_AUTHORIZATION_FAILED });
  link.start();
  await looked();
  assert.equal(cause(), 'the source answers TOPIC_AUTHORIZATION_FAILED');
  source.topics.delete('orders');
  await looked();
  assert.equal(cause(), "the source does not know topic 'orders' now");
});

test('R12: a link that was deleted went on appending until its connections had ended', async (t) => {
  const { link, looked } = await scene(t);
  link.start();
  await looked();
  assert.equal(link.mayAct(), true);
  const closing = link.close();
  assert.equal(link.mayAct(), false);
  await closing;
});

test('R9: a mirror followed the leaders of the topic that another mirror of its name had been of', async (t) => {
  const { link, state, source, looked } = await scene(t);
  const leaderEpochs = () => link.feeds.feeds('orders').map(({ leaderEpoch }) => leaderEpoch);
  link.start();
  await looked();
  let goOn = (): void => undefined;
  source.held = new Promise((resolve) => {
    goOn = resolve;
  });
  source.topics.set('orders', topicInfo('orders', sourceId, [7]));
  await looked(1);
  state.apply([{ delete: 'topic/orders' }]);
  state.apply([{ put: mirrorRecord({ sourceTopic: 'other' }) }]);
  assert.deepEqual(leaderEpochs(), [-1]);
  goOn();
  await looked();
  assert.deepEqual(leaderEpochs(), [-1]);
});

// One link at work over a source whose brokers answer from a table: what is told of work beside
// its fetching that was broken off, and which brokers are believed that say that a topic was made
// again.
//
// Owns: a link with one mirror, whose partition has no leader. Invariant: time passes for it only
// when the test says so, and nothing of it outlives its test.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { ProtocolError } from '../../../protocol/index.ts';
import { ClusterError } from '../../../src/cluster/cluster.ts';
import { LinkError } from '../../../src/link/link-error.ts';
import { StateError } from '../../../src/state/state.ts';
import { StorageError } from '../../../storage/errors.ts';
import { until } from '../../helpers/wait.ts';
import { sourceId } from './fakes.ts';
import { openLink } from './one-link.ts';
import { SplitSource, successorId } from './split-source.ts';

const hourMs = 3_600_000;

async function scene(t: TestContext) {
  const source = new SplitSource();
  const { link, state, now, events } = await openLink(t, { source });
  const mirrorNow = () => state.topics.get('orders') ?? assert.fail();
  /** As often as every broker is asked anew, after what was asked before has been judged. */
  const rounds = async (count: number) => {
    const wanted = source.questions + 3 * (count + 1);
    await until('every broker was asked', () => source.questions >= wanted);
  };
  const isFailed = () => until('it is FAILED', () => mirrorNow().state === 'FAILED');
  return { link, events, source, now, mirrorNow, rounds, isFailed };
}

test('a fault of ours beside fetching was told as work that the source had broken off', async (t) => {
  const { link, events } = await scene(t);
  const passing = [
    new ClusterError('TIMEOUT', 'scripted', { maybeSent: true }),
    new LinkError('SOURCE_UNREACHABLE', 'scripted'),
    new StateError('UNAVAILABLE', 'scripted'),
    new StorageError('DISK_FULL', 'scripted'),
    new ProtocolError('CORRUPT_RECORDS', 'scripted'),
  ];
  for (const error of [...passing, new TypeError('not a function')]) {
    link.inBackground(() => Promise.reject(error));
  }
  await link.close();
  const told = events
    .since(0)
    .filter(({ event }) => event.startsWith('link_'))
    .map(({ level, event }) => `${level} ${event}`);
  const expected = passing.map(() => 'warn link_work_failed');
  assert.deepEqual(told, [...expected, 'error link_fault']);
  assert.match(events.since(0).at(-1)?.message ?? '', /Link 'dr': not a function/);
});

test('R9: a mirror was FAILED by one broker that had the topic from before it was made again', async (t) => {
  const { link, source, events, now, mirrorNow, rounds } = await scene(t);
  source.tell(sourceId, sourceId, successorId);
  link.start();
  await rounds(1);
  now.ms += hourMs;
  await rounds(1);
  assert.equal(mirrorNow().state, 'ACTIVE', 'however long it is asked');
  assert.deepEqual(
    events.since(0).filter(({ level }) => level !== 'info'),
    [],
  );
});

test('R9: a topic made again ends its mirror although a broker that was left behind has it still', async (t) => {
  const { link, source, mirrorNow, isFailed } = await scene(t);
  source.tell(successorId, successorId, sourceId);
  source.asked = 1;
  link.start();
  await isFailed();
  assert.equal(mirrorNow().error?.code, 'SOURCE_TOPIC_ID_CHANGED');
});

test('R9: what one broker says of a topic and too few can refute ends its mirror at once', async (t) => {
  const { link, source, mirrorNow, isFailed } = await scene(t);
  source.tell(null, sourceId, successorId);
  link.start();
  await isFailed();
  assert.equal(mirrorNow().error?.code, 'SOURCE_TOPIC_ID_CHANGED');
});

test('R9: brokers of another cluster do not keep the mirror of a topic that was made again', async (t) => {
  const { link, source, isFailed } = await scene(t);
  source.tell(sourceId, sourceId, successorId);
  source.foreign.add(1);
  link.start();
  await isFailed();
});

test('R9: nothing that was fetched by name is appended until most brokers have been asked', async (t) => {
  const { link, source, mirrorNow } = await scene(t);
  const isProved = () => link.feeds.feeds('orders').map((feed) => feed.isProved);
  source.tell(sourceId, sourceId, sourceId);
  link.start();
  await until('the feed is there', () => isProved().includes(true));
  let goOn = (): void => undefined;
  source.held = new Promise((resolve) => {
    goOn = resolve;
  });
  source.tell(sourceId, sourceId, successorId);
  link.wake();
  await until('the brokers are asked', () => source.questions === 3);
  assert.deepEqual(isProved(), [false]);
  goOn();
  await until('it is proved again', () => isProved().includes(true));
  assert.equal(mirrorNow().state, 'ACTIVE');
});

test('R9: a mirror was FAILED by one broker when its link was closed before the others had answered', async (t) => {
  const { link, source, mirrorNow } = await scene(t);
  let goOn = (): void => undefined;
  source.held = new Promise((resolve) => {
    goOn = resolve;
  });
  source.tell(sourceId, sourceId, successorId);
  link.start();
  await until('the brokers are asked', () => source.questions === 3);
  const closing = link.close();
  source.tell(null, null, null);
  goOn();
  await closing;
  assert.equal(mirrorNow().state, 'ACTIVE');
});

test('R9: a mirror was FAILED as deleted by one answer before and one after an outage of its source', async (t) => {
  const { link, source, now, mirrorNow, isFailed } = await scene(t);
  const { retryTimeoutMs } = link.settings;
  const looks = async (): Promise<void> => {
    const since = source.looks;
    await until('it was looked at twice', () => source.looks >= since + 2);
  };
  source.tell(null, null, 'nothing of it');
  link.start();
  await looks();
  source.tell(null, null, null);
  await looks();
  now.ms += retryTimeoutMs;
  source.tell(null, null, 'nothing of it');
  await looks();
  assert.equal(mirrorNow().state, 'ACTIVE');
  now.ms += retryTimeoutMs;
  await isFailed();
  assert.equal(mirrorNow().error?.code, 'SOURCE_TOPIC_MAY_BE_DELETED');
});

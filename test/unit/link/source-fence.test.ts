// The denial of WRITE at a source that hangs, or is gone: it holds up no switch, and is not
// forgotten when what it was made for ends.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { type Api, ClusterError } from '../../../src/cluster/cluster.ts';
import type { LinkRuntime } from '../../../src/link/link.ts';
import { TopicChanges } from '../../../src/link/mirror/topic-changes.ts';
import { SourceFence } from '../../../src/link/switch/source-fence.ts';
import type { TopicRecord } from '../../../src/state/records.ts';
import { until } from '../../helpers/wait.ts';
import { FakeCluster, FakeState, mirrorRecord, openTestStorage, testContext } from './fakes.ts';

/** A source with an authorizer; requests of one API wait while `gate` is set. */
class GuardedCluster extends FakeCluster {
  readonly sent: string[] = [];
  isDenied = false;
  gate: { readonly api: string; readonly opened: Promise<void> } | null = null;

  // biome-ignore lint/suspicious/noExplicitAny: requests are taken as they come, by the API's name
  override async send(_target: unknown, api: Api<any, any>): Promise<any> {
    this.sent.push(api.name);
    if (this.gate?.api === api.name) await this.gate.opened;
    if (this.isDead) throw new ClusterError('TIMEOUT', 'scripted', { maybeSent: true });
    if (api.name === 'DescribeAcls') return { errorCode: 0, resources: [] };
    this.isDenied = api.name === 'CreateAcls';
    const results = [{ errorCode: 0, errorMessage: null }];
    return { results, filterResults: results };
  }
}

function promoting(): TopicRecord {
  return mirrorRecord({
    state: 'PENDING_STOPPED',
    stopping: {
      command: 'promote',
      actor: 'test',
      deadlineTimeMs: Date.now() + 60_000,
      cuts: [],
      fenceSource: true,
    },
  });
}

async function scene(t: TestContext) {
  const state = new FakeState();
  state.topics.set('orders', promoting());
  const { storage } = await openTestStorage(t);
  const source = new GuardedCluster();
  const context = testContext({ state, storage, destination: new FakeCluster(), source });
  const { events, clock } = context;
  const changes = new TopicChanges({ state, events, clock, touch: () => undefined });
  const runtime = { connected: async () => source } as unknown as LinkRuntime;
  const fence = new SourceFence({ context, changes, link: () => runtime });
  const cancel = () => changes.apply('orders', 'cancel', { actor: 'test', why: 'test' });
  const onRecord = () => state.topics.get('orders')?.fence;
  return { state, source, changes, fence, cancel, onRecord };
}

/** Makes the source hang at an API; the returned function lets it go on. */
function hang(source: GuardedCluster, api: string): () => void {
  let open: () => void = () => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  source.gate = { api, opened };
  return () => {
    source.gate = null;
    open();
  };
}

for (const step of ['DescribeAcls', 'CreateAcls']) {
  test(`a source that hangs at ${step} holds up nothing that the topic waits for`, async (t) => {
    const { source, changes, fence, state } = await scene(t);
    const release = hang(source, step);
    const raising = fence.raise('orders');
    await until('the request', () => source.sent.at(-1) === step);
    await changes.apply('orders', 'failover', { actor: 'test', why: 'test' });
    assert.equal(state.topics.get('orders')?.state, 'STOPPED');
    release();
    assert.deepEqual(await raising, []);
    assert.equal(source.isDenied, step === 'CreateAcls', 'what was sent before is on record');
    assert.equal(state.topics.get('orders')?.fence !== undefined, source.isDenied);
  });
}

test('a failover does not wait until a denial is taken back, and takes nothing with it', async (t) => {
  const { source, changes, fence, cancel, onRecord, state } = await scene(t);
  await fence.raise('orders');
  assert.ok(source.isDenied);
  await cancel();
  const release = hang(source, 'DeleteAcls');
  fence.lowerStale();
  await until('the request', () => source.sent.at(-1) === 'DeleteAcls');
  await changes.apply('orders', 'failover', { actor: 'test', why: 'test' });
  assert.equal(state.topics.get('orders')?.state, 'STOPPED');
  release();
  await until('none on record', () => onRecord() === undefined);
  assert.equal(source.isDenied, false);
  assert.equal(state.topics.get('orders')?.state, 'STOPPED');
});

test('a denial stays while a failover that overtakes the promotion is under way', async (t) => {
  const { source, changes, fence, onRecord } = await scene(t);
  await fence.raise('orders');
  await changes.edit('orders', (record) => ({
    ...record,
    stopping: { command: 'failover', actor: 'test', deadlineTimeMs: -1, cuts: [] },
  }));
  fence.lowerStale();
  await fence.close();
  assert.ok(source.isDenied && onRecord() !== undefined);
  await changes.apply('orders', 'cancel', { actor: 'test', why: 'it was undone' });
  fence.lowerStale();
  await fence.close();
  assert.equal(source.isDenied, false);
});

test('one that is cancelled while its denial is looked up makes none', async (t) => {
  const { source, fence, cancel, onRecord } = await scene(t);
  const release = hang(source, 'DescribeAcls');
  const raising = fence.raise('orders');
  await until('the request', () => source.sent.length > 0);
  await cancel();
  release();
  assert.deepEqual(await raising, []);
  assert.deepEqual([source.sent, onRecord()], [['DescribeAcls'], undefined]);
});

test('what is taken back before a link goes is told, and what is not says why', async (t) => {
  const { source, fence, cancel, onRecord } = await scene(t);
  await fence.raise('orders');
  await cancel();
  source.isDead = true;
  assert.match((await fence.takeBack(['orders'], 'test')).get('orders') ?? '', /scripted/);
  assert.ok(onRecord(), 'so that a later look knows of it');
  source.isDead = false;
  assert.deepEqual([...(await fence.takeBack(['orders'], 'test'))], []);
  assert.deepEqual([source.isDenied, onRecord()], [false, undefined]);
});

test('the next mirror of a name is promoted with a denial of its own', async (t) => {
  const { state, source, fence } = await scene(t);
  await fence.raise('orders');
  // Switched, deleted in the destination, allowed again by hand, mirrored and promoted again.
  source.isDenied = false;
  state.topics.set('orders', promoting());
  assert.deepEqual(await fence.raise('orders'), []);
  assert.ok(source.isDenied);
});

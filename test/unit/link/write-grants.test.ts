// Grants of WRITE that the switch of a topic promised: made without the source, kept on record
// while the destination refuses, and made once.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TopicChanges } from '../../../src/link/mirror/topic-changes.ts';
import { promisedGrants, WriteGrants } from '../../../src/link/switch/write-grants.ts';
import type { Acl, LinkRecord } from '../../../src/state/records.ts';
import { until } from '../../helpers/wait.ts';
import { FakeCluster, FakeState, mirrorRecord, openTestStorage, testContext } from './fakes.ts';

function grant(resourceName: string, patternType = 3): Acl {
  const grantee = { principal: 'User:app', host: '*' };
  return {
    resourceType: 2,
    resourceName,
    patternType,
    ...grantee,
    operation: 4,
    permissionType: 3,
  };
}

const switchedRecord = mirrorRecord({
  state: 'STOPPED',
  partitions: [],
  stoppedBy: 'failover',
});

function linkRecord(isSynced: boolean): LinkRecord {
  return {
    kind: 'link',
    name: 'dr',
    linkId: 'AAAAAAAAAAAAAAAAAAAAAQ',
    sourceClusterId: 'source',
    configs: { 'acl.sync.enable': String(isSynced) },
    paused: false,
    createdTimeMs: 1,
  };
}

test('a switch promises what was held back for the topic, while ACLs are synchronised', () => {
  const state = new FakeState();
  const switched = [switchedRecord];
  const held = [grant('ord', 4), grant('other')];
  state.linkAcls.set('dr', { kind: 'link-acls', link: 'dr', acls: [], held });
  state.links.set('dr', linkRecord(false));
  assert.deepEqual(promisedGrants(state.view, switched), []);
  state.links.set('dr', linkRecord(true));
  assert.deepEqual(promisedGrants(state.view, switched), [
    { kind: 'topic-grants', topic: 'orders', link: 'dr', acls: [grant('orders')] },
  ]);
});

test('R12: what is promised is made when the destination takes it, once, and by the owner only', async (t) => {
  const state = new FakeState();
  const { storage } = await openTestStorage(t);
  const destination = new FakeCluster();
  const made: string[] = [];
  let errorCode = 42;
  destination.script('DescribeAcls', () => ({ errorCode: 0, errorMessage: null, resources: [] }));
  destination.script('CreateAcls', (request) => {
    const { creations } = request as { creations: { resourceName: string }[] };
    for (const { resourceName } of creations) made.push(`${resourceName} ${errorCode}`);
    return { results: creations.map(() => ({ errorCode, errorMessage: 'scripted' })) };
  });
  const context = testContext({ state, storage, destination, source: new FakeCluster() });
  const { events, clock } = context;
  const changes = new TopicChanges({ state, events, clock, touch: () => undefined });
  const grants = new WriteGrants({ context, changes });
  grants.start();
  t.after(() => grants.close());

  const record = { kind: 'topic-grants', topic: 'orders', link: 'dr' } as const;
  await state.commit([{ put: { ...record, acls: [grant('orders')] } }]);
  await until('a refusal', () =>
    events.since(0).some(({ event }) => event === 'write_grants_pending'),
  );
  assert.deepEqual([made, state.topicGrants.size], [['orders 42'], 1]);
  errorCode = 0;
  state.isOwner = false;
  grants.carryOut();
  state.isOwner = true;
  grants.carryOut();
  await until('kept', () => state.topicGrants.size === 0);
  grants.carryOut();
  await grants.close();
  assert.deepEqual(made, ['orders 42', 'orders 0']);
});

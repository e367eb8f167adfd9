// ACLs of our own making on real brokers: denials of WRITE at a source that a promotion asked for,
// with every way back, and what uninstall removes.
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { parseConfig } from '../../src/config/load.ts';
import { Events } from '../../src/observe/events.ts';
import { openState } from '../../src/state/open-state.ts';
import type { Acl } from '../../src/state/records.ts';
import { aclKey } from '../../src/tasks/acl-diff.ts';
import { uninstall } from '../../src/uninstall.ts';
import type { Transaction } from '../helpers/own-producer.ts';
import { openCluster } from '../helpers/raw-batches.ts';
import { createTopic } from '../helpers/topic-admin.ts';
import { uniqueName, until } from '../helpers/wait.ts';
import { type AclScene, acl, aclsOf, add, openAclScene, remove, write } from './acl-fixture.ts';
import type { LinkWorld } from './link-fixture.ts';

let scene: AclScene;
let world: LinkWorld;

before(async () => {
  scene = await openAclScene();
  ({ world } = scene);
});

after(() => scene?.close());

function denial(topic: string): Acl {
  const principal = '*';
  return { ...acl(topic, principal, write), permissionType: 2 };
}

function promoteFenced(topics: readonly string[], deadlineMs = 300_000) {
  const options = { link: null, validateOnly: false, actor: 'test', deadlineMs };
  return world.service.command({ command: 'promote', topics, ...options, fenceSource: true });
}

async function sourceHas(topic: string, wanted: readonly Acl[]): Promise<void> {
  const keys = JSON.stringify(wanted.map(aclKey));
  await until(
    `denials of ${topic}`,
    async () => JSON.stringify(await aclsOf(world.source, topic)) === keys,
    { describe: () => world.describe(topic) },
  );
}

test('R16: --fence-source denies WRITE at the source only; every way back undoes it', async () => {
  // The link's filter matches the denial: it is not meant for the mirror.
  const link = await scene.aclLink('*', {});
  const topic = uniqueName('fenced');
  const transaction = await world.mirrorOpenTransaction(topic, link);

  assert.equal((await promoteFenced([topic])).rows[0]?.error, null);
  await sourceHas(topic, [denial(topic)]);
  await scene.rounds(link, 2);
  assert.deepEqual(await aclsOf(world.destination, topic), []);
  const { notices } = world.service.describeMirror(topic);
  assert.ok(notices.some(({ code }) => code === 'SOURCE_FENCED'));
  // A restart goes on with it; what is undone then is what is on record.
  await world.restart();
  await world.command('cancel', topic);
  await sourceHas(topic, []);

  await promoteFenced([topic], 1_500);
  await sourceHas(topic, [denial(topic)]);
  await world.inState(topic, 'ACTIVE');
  await sourceHas(topic, []);

  // Somebody else's denial is not ours to take away.
  await add(world.source, denial(topic));
  await promoteFenced([topic]);
  await until('a fence on record', () => world.state.view.topics.get(topic)?.fence);
  await world.command('cancel', topic);
  await until('none on record', () => world.state.view.topics.get(topic)?.fence === undefined);
  await sourceHas(topic, [denial(topic)]);
  await remove(world.source, denial(topic));

  await promoteFenced([topic]);
  await sourceHas(topic, [denial(topic)]);
  await transaction.end('commit');
  await world.inState(topic, 'STOPPED');
  await scene.rounds(link, 1);
  await sourceHas(topic, [denial(topic)]);
  const detach = { topic, dropHistory: true, validateOnly: true, actor: 'test' };
  const { blocking } = await world.service.detach(detach);
  assert.deepEqual(
    blocking.map(({ code }) => code),
    ['SOURCE_FENCED'],
  );
  await world.service.unfence(topic, { actor: 'test' });
  await sourceHas(topic, []);
});

test('R16: a link that goes, or a mirror, leaves no denial of WRITE at the source', async () => {
  const link = await scene.aclLink('*', {});
  const [deleted, kept] = [uniqueName('deleted'), uniqueName('kept')];
  const transactions: Transaction[] = [];
  for (const topic of [deleted, kept]) {
    transactions.push(await world.mirrorOpenTransaction(topic, link));
    await promoteFenced([topic]);
    await sourceHas(topic, [denial(topic)]);
  }
  const gone = { keepTopic: false, validateOnly: false, actor: 'test' };
  await world.service.deleteMirror(deleted, gone);
  await sourceHas(deleted, []);
  const one = { validateOnly: false, actor: 'test' };
  await assert.rejects(world.service.deleteLink(link, { ...one, force: false }), /mirror unfence/);
  await sourceHas(kept, [denial(kept)]);
  await world.service.deleteLink(link, { ...one, force: true });
  await sourceHas(kept, []);
  assert.equal(world.service.describeMirror(kept).state, 'LINK_FAILED');
  for (const transaction of transactions) await transaction.end('abort');
});

test('a source that cannot be fenced refuses the promotion, and nothing changes', async () => {
  const link = uniqueName('plain');
  const { bootstrap } = scene.plain;
  const configs = { 'bootstrap.servers': bootstrap };
  await world.service.createLink({ name: link, configs, validateOnly: false, actor: 'test' });
  const topic = uniqueName('unfenced');
  const client = openCluster(scene.plain);
  await createTopic(client, topic);
  await client.close();
  await world.createMirror(link, topic);
  await world.caughtUp(topic, [0n]);
  const { rows } = await promoteFenced([topic]);
  assert.equal(rows[0]?.error?.code, 'SOURCE_UNAUTHORIZED');
  assert.match(rows[0]?.error?.message ?? '', /cannot be fenced: .* no authorizer/);
  assert.equal(rows[0]?.state, 'ACTIVE');
});

test('R16: uninstall names the ACLs that links made, and removes them, and no other, on request', async () => {
  const [topic, name] = [uniqueName('left'), uniqueName('leaving')];
  const made = [acl(topic, 'app'), acl(topic, 'app', write)];
  const other = acl(`${topic}-hand`, 'app');
  const cluster = openCluster(scene.destination);
  const directory = await mkdtemp(path.join(os.tmpdir(), 'causeway-uninstall-'));
  try {
    await add(cluster, ...made, other);
    const state = await openState({
      ...{ name, cluster, snapshotDirectory: directory, mirrorStorageExists: false },
      ...{ clock: { now: () => performance.now(), wallMs: () => Date.now() } },
      events: new Events(),
    });
    await state.commit([{ put: { kind: 'link-acls', link: 'dr', acls: made } }]);
    await state.close();
    const servers = `destination: {bootstrap.servers: "${scene.destination.bootstrap}"}`;
    const config = parseConfig(
      `name: ${name}\n${servers}\ngateway: {advertise: localhost}\n` +
        `storage: {type: disk, directory: ${directory}}\n`,
      {},
    );
    const keep = { isDryRun: false, keepDirectory: true };
    const dry = await uninstall(config, { ...keep, isDryRun: true, removeAcls: true });
    assert.deepEqual([dry.aclsCount, dry.acls.length, dry.areAclsRemoved], [2, 2, false]);
    assert.ok(dry.acls.every((line) => line.includes(topic) && line.includes('User:app')));
    const everything = [...made, other].map(aclKey).sort();
    assert.deepEqual(await aclsOf(cluster, topic), everything);
    const done = await uninstall(config, { ...keep, removeAcls: true });
    assert.deepEqual([done.aclsCount, done.areAclsRemoved], [2, true]);
    assert.deepEqual(await aclsOf(cluster, topic), [aclKey(other)]);
    await assert.rejects(uninstall(config, keep), /does not exist/);
  } finally {
    await cluster.close();
    await rm(directory, { recursive: true, force: true });
  }
});

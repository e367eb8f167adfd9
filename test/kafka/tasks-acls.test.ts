// The ACL task on brokers with Kafka's authorizer: what the source has is added, what the link
// made and the source lost is deleted in mode owned, everything else is left alone; brokers
// without an authorizer.
import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { parseConfig } from '../../src/config/load.ts';
import type { TaskStatus } from '../../src/link/service.ts';
import { Events } from '../../src/observe/events.ts';
import { openState } from '../../src/state/open-state.ts';
import type { Acl } from '../../src/state/records.ts';
import { aclKey } from '../../src/tasks/acl-diff.ts';
import { anyAcl } from '../../src/tasks/acl-filters.ts';
import { createAcls, deleteAcls, readAcls } from '../../src/tasks/acl-requests.ts';
import { uninstall } from '../../src/uninstall.ts';
import { type KafkaCluster, startKafkaCluster } from '../helpers/kafka-cluster.ts';
import { produce, Transaction } from '../helpers/own-producer.ts';
import { openCluster } from '../helpers/raw-batches.ts';
import { createTopic } from '../helpers/topic-admin.ts';
import { uniqueName, until } from '../helpers/wait.ts';
import { LinkWorld } from './link-fixture.ts';

let source: KafkaCluster;
let destination: KafkaCluster;
let plain: KafkaCluster;
let world: LinkWorld;

const guarded = {
  'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
  'super.users': 'User:ANONYMOUS',
};

before(async () => {
  [source, destination, plain] = await Promise.all([
    startKafkaCluster({ name: 'source', settings: guarded }),
    startKafkaCluster({ name: 'destination', advertise: 'reachable', settings: guarded }),
    startKafkaCluster({ name: 'plain', advertise: 'reachable' }),
  ]);
  world = await new LinkWorld({ source, destination }).open();
});

after(async () => {
  await world?.close();
  await Promise.all([source?.stop(), destination?.stop(), plain?.stop()]);
});

const read = 3;
const write = 4;

function acl(topic: string, principal: string, operation = read): Acl {
  return {
    resourceType: 2,
    resourceName: topic,
    patternType: 3,
    principal: `User:${principal}`,
    host: '*',
    operation,
    permissionType: 3,
  };
}

async function add(cluster: Cluster, ...acls: readonly Acl[]): Promise<void> {
  for (const problem of await createAcls(cluster, acls)) assert.equal(problem, null);
}

async function remove(cluster: Cluster, ...acls: readonly Acl[]): Promise<void> {
  for (const problem of await deleteAcls(cluster, acls)) assert.equal(problem, null);
}

/** ACLs on topics that begin so. */
async function aclsOf(cluster: Cluster, prefix: string): Promise<readonly string[]> {
  const all = await readAcls(cluster, anyAcl, 'destination');
  return all
    .filter(({ resourceName }) => resourceName.startsWith(prefix))
    .map(aclKey)
    .sort();
}

async function become(prefix: string, wanted: readonly Acl[]): Promise<void> {
  const keys = wanted.map(aclKey).sort();
  let seen: readonly string[] = [];
  await until(
    `ACLs of ${prefix}`,
    async () => {
      seen = await aclsOf(world.destination, prefix);
      return JSON.stringify(seen) === JSON.stringify(keys);
    },
    { deadlineMs: 15_000, describe: () => `${seen}\nwanted ${keys}` },
  );
}

function filtersFor(prefix: string): string {
  const aclFilters = [
    {
      resourceFilter: { resourceType: 'topic', patternType: 'any' },
      accessFilter: { principal: `User:${prefix}`, operation: 'any', permissionType: 'any' },
    },
  ];
  return JSON.stringify({ aclFilters });
}

async function aclLink(principal: string, configs: Record<string, string>): Promise<string> {
  const link = uniqueName('acls');
  await world.createLink(link, {
    'acl.sync.enable': 'true',
    'acl.sync.ms': '300',
    'acl.filters': filtersFor(principal),
    ...configs,
  });
  return link;
}

function task(link: string): TaskStatus {
  const found = world.service.describeLink(link).tasks.find(({ name }) => name === 'AclSync');
  assert.ok(found);
  return found;
}

async function rounds(link: string, count: number): Promise<void> {
  for (let round = 0; round < count; round++) {
    const { lastSuccessTimeMs } = task(link);
    await until('a round', () => task(link).lastSuccessTimeMs > lastSuccessTimeMs, {
      describe: () => JSON.stringify(task(link)),
    });
  }
}

async function alter(link: string, name: string, value: string): Promise<void> {
  const options = { validateOnly: false, actor: 'test' };
  await world.service.alterLink(link, [{ name, value }], options);
}

function writes(): number {
  return (world.sent.get('CreateAcls') ?? 0) + (world.sent.get('DeleteAcls') ?? 0);
}

test('R16: D11: what the source lost is deleted, idle rounds write nothing, others’ ACLs stay', async () => {
  const app = uniqueName('app');
  const topic = uniqueName('t');
  const [first, second, third] = [acl(topic, app), acl(`${topic}-2`, app), acl(topic, app, write)];
  const other = acl(`${topic}-hand`, app);
  await add(world.destination, other);
  await add(world.source, first, second, third);
  const link = await aclLink(app, { 'acl.sync.mode': 'owned' });
  await become(topic, [first, second, third, other]);
  await rounds(link, 1);
  const before = writes();
  assert.ok(before > 0);
  await rounds(link, 2);
  assert.equal(writes(), before, 'two idle rounds');
  await remove(world.source, first);
  await become(topic, [second, third, other]);
  await rounds(link, 1);
  assert.deepEqual([task(link).state, task(link).counts?.own], ['ACTIVE', 2]);
});

test('what the link did not make is not deleted, although the source had it and lost it', async () => {
  const app = uniqueName('app');
  const topic = uniqueName('t');
  const both = acl(topic, app);
  const kept = acl(`${topic}-kept`, app);
  await add(world.destination, both);
  await add(world.source, both, kept);
  const link = await aclLink(app, { 'acl.sync.mode': 'owned' });
  await become(topic, [both, kept]);
  await remove(world.source, both);
  await rounds(link, 2);
  await become(topic, [both, kept]);
});

test('additive is the default and deletes nothing; a restart knows what the link made', async () => {
  const app = uniqueName('app');
  const topic = uniqueName('t');
  const gone = acl(topic, app);
  const kept = acl(`${topic}-kept`, app);
  await add(world.source, gone, kept);
  const link = await aclLink(app, {});
  await become(topic, [gone, kept]);
  await remove(world.source, gone);
  await rounds(link, 2);
  await become(topic, [gone, kept]);
  await world.restart();
  await alter(link, 'acl.sync.mode', 'owned');
  await become(topic, [kept]);
});

test('the prefix is applied to topics, and a dry run names the difference', async () => {
  const app = uniqueName('app');
  const topic = uniqueName('t');
  await add(world.source, acl(topic, app));
  const prefix = `${uniqueName('p')}.`;
  const link = await aclLink(app, { 'cluster.link.prefix': prefix });
  await become(prefix, [acl(`${prefix}${topic}`, app)]);
  // Paused, and no round under way: what comes now is only planned.
  await alter(link, 'cluster.link.paused', 'true');
  await world.service.planTasks(link);
  await add(world.source, acl(`${topic}-new`, app));
  const plans = await world.service.planTasks(link);
  assert.deepEqual(plans.find((plan) => plan.task === 'AclSync')?.changes, [
    {
      action: 'create',
      subject: 'acl',
      detail: `allow User:${app} read on topic '${prefix}${topic}-new' (literal)`,
    },
  ]);
  assert.deepEqual(await aclsOf(world.destination, prefix), [
    aclKey(acl(`${prefix}${topic}`, app)),
  ]);
});

test('principals are called at the destination as acl.principal.mapping.rules say', async () => {
  const app = uniqueName('app');
  const topic = uniqueName('t');
  const asAtSource = acl(topic, `CN=${app},O=Acme`);
  await add(world.source, asAtSource);
  const resourceFilter = { resourceType: 'topic', name: topic, patternType: 'literal' };
  const accessFilter = { operation: 'any', permissionType: 'any' };
  const aclFilters = [{ resourceFilter, accessFilter }];
  await aclLink(app, {
    'acl.filters': JSON.stringify({ aclFilters }),
    'acl.principal.mapping.rules': 'RULE:^CN=(.*?),.*$/eu-$1/',
  });
  await become(topic, [acl(topic, `eu-${app}`)]);
});

test('R16: grants of WRITE that are held back are made at the switch, each for its topic', async () => {
  const app = uniqueName('app');
  const topic = uniqueName('t');
  const [first, second] = [`${topic}-1`, `${topic}-2`];
  const link = await aclLink(app, {
    'acl.sync.write.hold.enable': 'true',
    'acl.sync.mode': 'owned',
  });
  for (const name of [first, second]) {
    await createTopic(world.source, name);
    await world.createMirror(link, name);
    await world.caughtUp(name, [0n]);
  }
  const readers = acl(topic, app);
  const writers = { ...acl(topic, app, write), patternType: 4 };
  await add(world.source, readers, writers);
  await become(topic, [readers]);
  await rounds(link, 2);
  assert.equal(task(link).counts?.held, 1);
  const { changes } = (await world.service.planTasks(link)).find(
    (plan) => plan.task === 'AclSync',
  ) ?? { changes: [] };
  assert.deepEqual(
    changes.map(({ action, detail }) => [action, detail]),
    [
      [
        'wait',
        `allow User:${app} write on topic '${topic}' (prefixed): acl.sync.write.hold.enable`,
      ],
    ],
  );

  await world.command('failover', first);
  await world.inState(first, 'STOPPED');
  await become(topic, [readers, acl(first, app, write)]);
  await rounds(link, 2);
  // Taken away by an operator, it stays away; the other topic is still a mirror.
  await remove(world.destination, acl(first, app, write));
  await world.restart();
  await rounds(link, 2);
  await become(topic, [readers]);
  await world.command('promote', second);
  await world.inState(second, 'STOPPED');
  await become(topic, [readers, acl(second, app, write)]);
  // Taken off the record once they are there.
  await until('the end of the promise', () => world.state.view.topicGrants.size === 0);
});

test('a source without an authorizer is this task’s trouble alone, and it says what to do', async () => {
  const link = await aclLink('nobody', {
    'bootstrap.servers': plain.bootstrap,
    'address.map': '',
  });
  const error = await until('the error', () => task(link).errors[0]);
  assert.equal(error.code, 'SECURITY_DISABLED_ERROR');
  assert.match(error.message, /the source has no authorizer.*authorizer\.class\.name/);
  assert.equal(world.service.describeLink(link).linkState, 'ACTIVE');
  const client = openCluster(plain);
  try {
    const topic = uniqueName('data');
    await createTopic(client, topic);
    await produce(client, { topic }, ['1', '2']);
    await world.createMirror(link, topic);
    await world.caughtUp(topic, [2n]);
  } finally {
    await client.close();
  }
  await alter(link, 'acl.sync.enable', 'false');
  await until('not configured', () => task(link).state === 'NOT_CONFIGURED');
});

test('a destination without an authorizer is this task’s trouble alone, too', async () => {
  const onPlain = await new LinkWorld({ source, destination: plain }).open();
  try {
    const link = uniqueName('acls');
    const filters = { 'acl.sync.enable': 'true', 'acl.filters': filtersFor('nobody') };
    await onPlain.createLink(link, filters);
    const tasks = () => onPlain.service.describeLink(link).tasks;
    const error = await until(
      'the error',
      () => tasks().find(({ name }) => name === 'AclSync')?.errors[0],
    );
    assert.equal(error.code, 'SECURITY_DISABLED_ERROR');
    assert.match(error.message, /the destination has no authorizer.*authorizer\.class\.name/);
    assert.equal(onPlain.service.describeLink(link).linkState, 'ACTIVE');
    const topic = uniqueName('data');
    await createTopic(onPlain.source, topic);
    await produce(onPlain.source, { topic }, ['1', '2']);
    await onPlain.createMirror(link, topic);
    await onPlain.caughtUp(topic, [2n]);
  } finally {
    await onPlain.close();
  }
});

test('without acl.filters the task says so and changes nothing', async () => {
  const link = uniqueName('acls');
  await world.createLink(link, { 'acl.sync.enable': 'true', 'acl.sync.ms': '300' });
  const error = await until('the error', () => task(link).errors[0]);
  assert.deepEqual(error, {
    code: 'MISCONFIGURATION_ERROR',
    message: 'acl.sync.enable is true, but acl.filters is not set',
  });
});

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
  const link = await aclLink('*', {});
  const topic = uniqueName('fenced');
  await createTopic(world.source, topic);
  const transaction = new Transaction(world.source, uniqueName('open'));
  await transaction.begin(topic, [0]);
  await produce(world.source, { topic, transaction }, ['holds the promotion up']);
  await world.createMirror(link, topic);
  await world.caughtUp(topic, [1n]);

  assert.equal((await promoteFenced([topic])).rows[0]?.error, null);
  await sourceHas(topic, [denial(topic)]);
  await rounds(link, 2);
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
  await rounds(link, 1);
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
  const link = await aclLink('*', {});
  const [deleted, kept] = [uniqueName('deleted'), uniqueName('kept')];
  const transactions: Transaction[] = [];
  for (const topic of [deleted, kept]) {
    await createTopic(world.source, topic);
    const transaction = new Transaction(world.source, uniqueName('open'));
    await transaction.begin(topic, [0]);
    await produce(world.source, { topic, transaction }, ['holds the promotion up']);
    transactions.push(transaction);
    await world.createMirror(link, topic);
    await world.caughtUp(topic, [1n]);
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

test('R16: ACLs of a link that was deleted are still listed among what is left', async () => {
  const principal = uniqueName('former');
  const topic = uniqueName('former-topic');
  await add(world.source, acl(topic, principal));
  const link = await aclLink(principal, {});
  await become(topic, [acl(topic, principal)]);
  await rounds(link, 1);
  await world.service.deleteLink(link, { force: false, validateOnly: false, actor: 'test' });
  const left = (await world.service.leftovers()).filter(({ subject }) => subject.includes(topic));
  assert.equal(left.length, 1);
  assert.match(left[0]?.detail ?? '', new RegExp(`made by link '${link} \\(deleted, id `));
});

test('a source that cannot be fenced refuses the promotion, and nothing changes', async () => {
  const link = uniqueName('plain');
  const { bootstrap } = plain;
  const configs = { 'bootstrap.servers': bootstrap };
  await world.service.createLink({ name: link, configs, validateOnly: false, actor: 'test' });
  const topic = uniqueName('unfenced');
  const client = openCluster(plain);
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
  const cluster = openCluster(destination);
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
    const servers = `destination: {bootstrap.servers: "${destination.bootstrap}"}`;
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

// The ACL task on brokers with Kafka's authorizer: what the source has is added, what the link
// made and the source lost is deleted in mode owned, everything else is left alone; brokers
// without an authorizer.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { aclKey } from '../../src/tasks/acl-diff.ts';
import { produce } from '../helpers/own-producer.ts';
import { openCluster } from '../helpers/raw-batches.ts';
import { createTopic } from '../helpers/topic-admin.ts';
import { uniqueName, until } from '../helpers/wait.ts';
import {
  type AclScene,
  acl,
  aclsOf,
  add,
  filtersFor,
  openAclScene,
  remove,
  write,
} from './acl-fixture.ts';
import { LinkWorld } from './link-fixture.ts';

let scene: AclScene;
let world: LinkWorld;

before(async () => {
  scene = await openAclScene();
  ({ world } = scene);
});

after(() => scene?.close());

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
  const link = await scene.aclLink(app, { 'acl.sync.mode': 'owned' });
  await scene.become(topic, [first, second, third, other]);
  await scene.rounds(link, 1);
  const before = writes();
  assert.ok(before > 0);
  await scene.rounds(link, 2);
  assert.equal(writes(), before, 'two idle rounds');
  await remove(world.source, first);
  await scene.become(topic, [second, third, other]);
  await scene.rounds(link, 1);
  assert.deepEqual([scene.task(link).state, scene.task(link).counts?.own], ['ACTIVE', 2]);
});

test('what the link did not make is not deleted, although the source had it and lost it', async () => {
  const app = uniqueName('app');
  const topic = uniqueName('t');
  const both = acl(topic, app);
  const kept = acl(`${topic}-kept`, app);
  await add(world.destination, both);
  await add(world.source, both, kept);
  const link = await scene.aclLink(app, { 'acl.sync.mode': 'owned' });
  await scene.become(topic, [both, kept]);
  await remove(world.source, both);
  await scene.rounds(link, 2);
  await scene.become(topic, [both, kept]);
});

test('additive is the default and deletes nothing; a restart knows what the link made', async () => {
  const app = uniqueName('app');
  const topic = uniqueName('t');
  const gone = acl(topic, app);
  const kept = acl(`${topic}-kept`, app);
  await add(world.source, gone, kept);
  const link = await scene.aclLink(app, {});
  await scene.become(topic, [gone, kept]);
  await remove(world.source, gone);
  await scene.rounds(link, 2);
  await scene.become(topic, [gone, kept]);
  await world.restart();
  await scene.alter(link, 'acl.sync.mode', 'owned');
  await scene.become(topic, [kept]);
});

test('the prefix is applied to topics, and a dry run names the difference', async () => {
  const app = uniqueName('app');
  const topic = uniqueName('t');
  await add(world.source, acl(topic, app));
  const prefix = `${uniqueName('p')}.`;
  const link = await scene.aclLink(app, { 'cluster.link.prefix': prefix });
  await scene.become(prefix, [acl(`${prefix}${topic}`, app)]);
  // Paused, and no round under way: what comes now is only planned.
  await scene.alter(link, 'cluster.link.paused', 'true');
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
  await scene.aclLink(app, {
    'acl.filters': JSON.stringify({ aclFilters }),
    'acl.principal.mapping.rules': 'RULE:^CN=(.*?),.*$/eu-$1/',
  });
  await scene.become(topic, [acl(topic, `eu-${app}`)]);
});

test('R16: grants of WRITE that are held back are made at the switch, each for its topic', async () => {
  const app = uniqueName('app');
  const topic = uniqueName('t');
  const [first, second] = [`${topic}-1`, `${topic}-2`];
  const link = await scene.aclLink(app, {
    'acl.sync.write.hold.enable': 'true',
    'acl.sync.mode': 'owned',
  });
  for (const name of [first, second]) await world.mirrorNewTopic(name, [], { link });
  const readers = acl(topic, app);
  const writers = { ...acl(topic, app, write), patternType: 4 };
  await add(world.source, readers, writers);
  await scene.become(topic, [readers]);
  await scene.rounds(link, 2);
  assert.equal(scene.task(link).counts?.held, 1);
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
  await scene.become(topic, [readers, acl(first, app, write)]);
  await scene.rounds(link, 2);
  // Taken away by an operator, it stays away; the other topic is still a mirror.
  await remove(world.destination, acl(first, app, write));
  await world.restart();
  await scene.rounds(link, 2);
  await scene.become(topic, [readers]);
  await world.command('promote', second);
  await world.inState(second, 'STOPPED');
  await scene.become(topic, [readers, acl(second, app, write)]);
  // Taken off the record once they are there.
  await until('the end of the promise', () => world.state.view.topicGrants.size === 0);
});

test('a source without an authorizer is this task’s trouble alone, and it says what to do', async () => {
  const link = await scene.aclLink('nobody', {
    'bootstrap.servers': scene.plain.bootstrap,
    'address.map': '',
  });
  const error = await until('the error', () => scene.task(link).errors[0]);
  assert.equal(error.code, 'SECURITY_DISABLED_ERROR');
  assert.match(error.message, /the source has no authorizer.*authorizer\.class\.name/);
  assert.equal(world.service.describeLink(link).linkState, 'ACTIVE');
  const client = openCluster(scene.plain);
  try {
    const topic = uniqueName('data');
    await createTopic(client, topic);
    await produce(client, { topic }, ['1', '2']);
    await world.createMirror(link, topic);
    await world.caughtUp(topic, [2n]);
  } finally {
    await client.close();
  }
  await scene.alter(link, 'acl.sync.enable', 'false');
  await until('not configured', () => scene.task(link).state === 'NOT_CONFIGURED');
});

test('a destination without an authorizer is this task’s trouble alone, too', async () => {
  const { source, plain } = scene;
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
    await onPlain.mirrorNewTopic(uniqueName('data'), ['1', '2'], { link });
  } finally {
    await onPlain.close();
  }
});

test('without acl.filters the task says so and changes nothing', async () => {
  const link = uniqueName('acls');
  await world.createLink(link, { 'acl.sync.enable': 'true', 'acl.sync.ms': '300' });
  const error = await until('the error', () => scene.task(link).errors[0]);
  assert.deepEqual(error, {
    code: 'MISCONFIGURATION_ERROR',
    message: 'acl.sync.enable is true, but acl.filters is not set',
  });
});

test('R16: ACLs of a link that was deleted are still listed among what is left', async () => {
  const principal = uniqueName('former');
  const topic = uniqueName('former-topic');
  await add(world.source, acl(topic, principal));
  const link = await scene.aclLink(principal, {});
  await scene.become(topic, [acl(topic, principal)]);
  await scene.rounds(link, 1);
  await world.service.deleteLink(link, { force: false, validateOnly: false, actor: 'test' });
  const left = (await world.service.leftovers()).filter(({ subject }) => subject.includes(topic));
  assert.equal(left.length, 1);
  assert.match(left[0]?.detail ?? '', new RegExp(`made by link '${link} \\(deleted, id `));
});

// The topic task on real brokers: mirrors by filters, from the first record, in spite of what
// stands in the way for a while; never over a topic that is there, never back into the cluster
// that it came from.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import dns from 'node:dns';
import { after, before, describe, mock, test } from 'node:test';
import { buildBatch } from '../../protocol/index.ts';
import { readTopicConfigs } from '../../src/cluster/config-requests.ts';
import type { LinkError } from '../../src/link/link-error.ts';
import type { TaskStatus } from '../../src/link/service.ts';
import { createAcls, deleteAcls } from '../../src/tasks/acl-requests.ts';
import { commitOffsets, committedOffsets } from '../helpers/group-offsets.ts';
import type { KafkaCluster } from '../helpers/kafka-cluster.ts';
import { produce, produceBatch } from '../helpers/own-producer.ts';
import { readBatches } from '../helpers/raw-batches.ts';
import { Relay } from '../helpers/relay.ts';
import { createTopic } from '../helpers/topic-admin.ts';
import { uniqueName, until } from '../helpers/wait.ts';
import { LinkWorld, startLinkWorld } from './link-fixture.ts';

let source: KafkaCluster;
let destination: KafkaCluster;
let world: LinkWorld;

before(async () => {
  world = await startLinkWorld({
    source: {
      settings: {
        'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
        'allow.everyone.if.no.acl.found': 'true',
      },
    },
    destination: { advertise: 'reachable' },
  });
  ({ sourceKafka: source, destinationKafka: destination } = world);
});

after(() => world?.end());

function filtersOf(...list: readonly [string, 'LITERAL' | 'PREFIXED', 'INCLUDE' | 'EXCLUDE'][]) {
  const topicFilters = list.map(([name, patternType, filterType]) => ({
    name,
    patternType,
    filterType,
  }));
  return JSON.stringify({ topicFilters });
}

/** A link that mirrors what begins with its own name. */
async function autoLink(configs: Record<string, string> = {}): Promise<string> {
  const link = uniqueName('auto');
  await world.createLink(link, {
    'auto.create.mirror.topics.enable': 'true',
    'auto.create.mirror.topics.filters': filtersOf([`${link}.`, 'PREFIXED', 'INCLUDE']),
    ...configs,
  });
  return link;
}

async function alter(link: string, name: string, value: string): Promise<void> {
  const options = { validateOnly: false, actor: 'test' };
  await world.service.alterLink(link, [{ name, value }], options);
}

function task(link: string): TaskStatus {
  const found = world.service
    .describeLink(link)
    .tasks.find(({ name }) => name === 'AutoCreateMirror');
  assert.ok(found);
  return found;
}

async function topicPlan(link: string) {
  const plans = await world.service.planTasks(link);
  return plans.find((plan) => plan.task === 'AutoCreateMirror');
}

function taskError(link: string, code: string): Promise<{ code: string; message: string }> {
  return until(`${code} of ${link}`, () => task(link).errors.find((error) => error.code === code), {
    describe: () => JSON.stringify(task(link)),
  });
}

function mirrors(link: string): readonly string[] {
  return world.service.listMirrors(link).map(({ name }) => name);
}

async function appears(topic: string, deadlineMs = 15_000): Promise<void> {
  await until(
    `mirror ${topic}`,
    () =>
      world.service.listMirrors().some(({ name, state }) => name === topic && state === 'ACTIVE'),
    {
      deadlineMs,
      describe: () =>
        world.events
          .since(0)
          .slice(-10)
          .map((e) => e.message)
          .join('\n'),
    },
  );
}

async function sourceTopic(name: string, values: readonly string[] = []): Promise<string> {
  await createTopic(world.source, name);
  if (values.length > 0) await produce(world.source, { topic: name }, values);
  return name;
}

describe('mirrors by filters', () => {
  test('appear within 5 s, from the first record, under the prefix; exclusion wins', async (t) => {
    const link = uniqueName('auto');
    await world.createLink(link, {
      'cluster.link.prefix': 'eu.',
      'auto.create.mirror.topics.enable': 'true',
      'auto.create.mirror.topics.filters': filtersOf(
        [`${link}.tmp`, 'PREFIXED', 'EXCLUDE'],
        [`${link}.`, 'PREFIXED', 'INCLUDE'],
      ),
    });
    await sourceTopic(`${link}.tmp`, ['x']);
    const name = await sourceTopic(`${link}.orders`, ['a', 'b', 'c']);
    const startedAt = performance.now();
    await appears(`eu.${name}`, 5_000);
    t.diagnostic(`mirrored after ${Math.round(performance.now() - startedAt)} ms`);
    await world.caughtUp(`eu.${name}`, [3n]);
    assert.equal(world.service.describeMirror(`eu.${name}`).partitions[0]?.logStart, 0n);
    assert.deepEqual(mirrors(link), [`eu.${name}`]);
    await until('a round without problems', () => task(link).state === 'ACTIVE');
    assert.ok(task(link).lastSuccessTimeMs > 0);
  });

  test('are paused when they leave the filters, resumed when they are back', async () => {
    const link = await autoLink();
    const name = await sourceTopic(`${link}.a`, ['1']);
    await appears(name);
    const hand = await sourceTopic(uniqueName('hand'));
    await world.createMirror(link, hand);
    const filters = 'auto.create.mirror.topics.filters';
    await alter(link, filters, filtersOf(['nothing-like-this', 'LITERAL', 'INCLUDE']));
    await world.inState(name, 'PAUSED');
    const { message } = await taskError(link, 'MISCONFIGURATION_ERROR');
    assert.match(message, /matches none of the source's \d+ topics/);
    assert.equal(world.service.describeMirror(hand).state, 'ACTIVE');
    await alter(link, filters, filtersOf([`${link}.`, 'PREFIXED', 'INCLUDE']));
    await world.inState(name, 'ACTIVE');
    await until('the problem is over', () => task(link).state === 'ACTIVE');
  });

  test('are at most auto.create.mirror.topics.max; the others wait, and say so', async () => {
    const link = await autoLink({ 'auto.create.mirror.topics.max': '1' });
    const names = [`${link}.a`, `${link}.b`];
    for (const name of names) await sourceTopic(name);
    await appears(`${link}.a`);
    const { message } = await taskError(link, 'POLICY_VIOLATION_ERROR');
    assert.match(message, /1 topics wait.*max is 1/);
    const plan = await topicPlan(link);
    assert.deepEqual(plan?.changes, [
      {
        action: 'wait',
        subject: `mirror ${link}.b`,
        detail: 'auto.create.mirror.topics.max=1',
      },
    ]);
    await alter(link, 'auto.create.mirror.topics.max', '2');
    await appears(`${link}.b`);
  });

  test('R16: never take the place of a topic that is there', async () => {
    const link = uniqueName('auto');
    const name = `${link}.taken`;
    await createTopic(world.destination, name);
    await produce(world.destination, { topic: name }, ['mine']);
    await sourceTopic(name, ['theirs']);
    await world.createLink(link, {
      'auto.create.mirror.topics.enable': 'true',
      'auto.create.mirror.topics.filters': filtersOf([name, 'LITERAL', 'INCLUDE']),
    });
    const { message } = await taskError(link, 'TOPIC_EXISTS_ERROR');
    assert.match(message, new RegExp(name));
    const plan = await topicPlan(link);
    assert.deepEqual(
      plan?.changes.map(({ action, subject }) => [action, subject]),
      [['keep', `topic ${name}`]],
    );
    assert.deepEqual(mirrors(link), []);
    assert.equal(await produce(world.destination, { topic: name }, ['still mine']), 1n);
  });
});

test('the topic of a schema registry is mirrored like any other, tombstones included', async () => {
  const link = await autoLink();
  const name = uniqueName('_schemas');
  const schema = { schema: '"string"', subject: 'orders-value', version: 1, id: 1, deleted: false };
  const key = { keytype: 'SCHEMA', subject: 'orders-value', version: 1, magic: 1 };
  const noop = { keytype: 'NOOP', magic: 0 };
  const timestamp = BigInt(Date.now());
  const records = [
    { key, value: schema },
    { key: noop, value: null },
    { key, value: { ...schema, deleted: true } },
    { key, value: null },
  ].map(({ key: identity, value }) => ({
    key: Buffer.from(JSON.stringify(identity)),
    value: value === null ? null : Buffer.from(JSON.stringify(value)),
    timestamp,
  }));
  const batch = buildBatch({ baseOffset: 0n, records });
  const writeBatch = () => produceBatch(world.source, { topic: name }, batch);
  const compacted = { configs: { 'cleanup.policy': 'compact' } };
  assert.deepEqual(await world.mirrorNewTopic(name, writeBatch, { link, ...compacted }), [4n]);
  const stored = await world.stored(name);
  const [first] = await readBatches(world.source, name, 0);
  assert.equal(first?.hash, createHash('sha256').update(stored).digest('hex'));
  const configs = await readTopicConfigs(world.destination, [name], ['cleanup.policy']);
  assert.equal(configs.get(name)?.configs[0]?.value, 'compact');
});

test('D17: a creation that fails is shown with its reason and tried again', async () => {
  const link = await autoLink({ 'mirror.topic.replication.factor': '3' });
  const name = await sourceTopic(`${link}.a`, ['1', '2']);
  const { message } = await taskError(link, 'INVALID_REQUEST_ERROR');
  assert.match(message, /cannot be made yet: .*INVALID_REPLICATION_FACTOR/);
  assert.equal(task(link).counts?.pending, 1);
  await alter(link, 'mirror.topic.replication.factor', '1');
  await appears(name);
  await world.caughtUp(name, [2n]);
  await until('the problem is over', () => task(link).state === 'ACTIVE');
});

test('D12: a link whose source is the destination itself is refused, nothing is made', async () => {
  const before = await world.destination.metadata('all');
  const configs = {
    'bootstrap.servers': destination.bootstrap,
    'address.map': '',
    'auto.create.mirror.topics.enable': 'true',
    'auto.create.mirror.topics.filters': filtersOf(['*', 'LITERAL', 'INCLUDE']),
    'cluster.link.prefix': 'again.',
  };
  await assert.rejects(world.createLink(uniqueName('self'), configs), (error: LinkError) => {
    assert.equal(error.code, 'CLUSTER_ID_MISMATCH');
    assert.match(error.message, /is the destination itself/);
    return true;
  });
  const after = await world.destination.metadata('all');
  assert.deepEqual([...after.topics.keys()].sort(), [...before.topics.keys()].sort());
});

test('D13: the way back of a mirrored topic is refused; the source gets no copy of itself', async () => {
  const link = await autoLink();
  const name = await sourceTopic(`${link}.a`, ['1', '2']);
  await appears(name);
  await world.caughtUp(name, [2n]);
  const back = await new LinkWorld({ source: destination, destination: source }).open();
  try {
    await back.createLink('back', {
      'auto.create.mirror.topics.enable': 'true',
      'auto.create.mirror.topics.filters': filtersOf([name, 'LITERAL', 'INCLUDE']),
    });
    await assert.rejects(back.createMirror('back', name), { code: 'TOPIC_EXISTS' });
    await until('the clash of the task', () =>
      back.service
        .describeLink('back')
        .tasks.some(({ errors }) => errors.some(({ code }) => code === 'TOPIC_EXISTS_ERROR')),
    );
    assert.deepEqual(back.service.listMirrors('back'), []);
  } finally {
    await back.close();
  }
  assert.equal(await produce(world.source, { topic: name }, ['3']), 2n);
});

test('D24: new topics are mirrored after every restart, of ours and of the destination', async () => {
  const link = await autoLink();
  for (let round = 0; round < 3; round++) {
    if (round === 1) {
      await destination.kill9();
      await destination.restartBroker();
    } else await world.restart();
    const name = await sourceTopic(`${link}.${round}`, ['x']);
    await appears(name, 10_000);
    await world.caughtUp(name, [1n]);
  }
});

describe('the verdict on a link', () => {
  function followed(group: string, topic: string, offset: number): Promise<unknown> {
    return until(`${group} at ${offset}`, async () => {
      const [found] = await committedOffsets(world.destination, group, topic, 1);
      return found === offset;
    });
  }

  /** Within 15 s, or the test fails. */
  function verdict(link: string, state: string, error: string): Promise<unknown> {
    const shown = () => world.service.describeLink(link);
    return until(
      `${link} is ${state} ${error}`,
      () => shown().linkState === state && shown().linkError === error,
      {
        deadlineMs: 15_000,
        describe: () => `${shown().linkState} ${shown().linkError} ${shown().linkErrorMessage}`,
      },
    );
  }

  test('D14: names a right that is missing, and clears when it is granted', async () => {
    const link = await autoLink();
    const name = await sourceTopic(`${link}.a`, ['1']);
    await appears(name);
    await verdict(link, 'ACTIVE', 'NO_ERROR');
    // Once somebody has an ACL on a topic, nobody else may use it.
    const other = {
      resourceType: 2,
      resourceName: name,
      patternType: 3,
      principal: 'User:other',
      host: '*',
      operation: 3,
      permissionType: 3,
    };
    assert.deepEqual(await createAcls(world.source, [other]), [null]);
    await verdict(link, 'UNAVAILABLE', 'AUTHORIZATION_ERROR');
    const { linkErrorMessage } = world.service.describeLink(link);
    assert.match(linkErrorMessage ?? '', /kafka-acls --add --topic .* --operation Read/);
    assert.deepEqual(await deleteAcls(world.source, [other]), [null]);
    await verdict(link, 'ACTIVE', 'NO_ERROR');
  });

  test('D14: names a source whose name leads nowhere any more, and clears when it does', async () => {
    const [broker] = source.brokers;
    const name = 'source.causeway.test';
    let isKnown = true;
    const real = dns.lookup as unknown as (...args: readonly unknown[]) => void;
    const resolver = mock.method(dns, 'lookup', (...args: readonly unknown[]) => {
      const [host, ...others] = args;
      if (host !== name) return real(host, ...others);
      if (isKnown) return real('127.0.0.1', ...others);
      const told = others.at(-1) as (error: Error) => void;
      const code = 'ENOTFOUND';
      setImmediate(told, Object.assign(new Error(`getaddrinfo ${code} ${name}`), { code }));
    });
    const relay = await Relay.start({ target: { host: '127.0.0.1', port: broker?.port ?? 0 } });
    try {
      const place = `${name}:${relay.address.split(':')[1]}`;
      const map = { 'address.map': `${broker?.advertised}=${place}` };
      const link = await autoLink({ 'bootstrap.servers': place, ...map });
      // From here on all connections are there: none is on its way past the switch.
      const topic = await sourceTopic(`${link}.a`, ['1']);
      await appears(topic);
      await world.caughtUp(topic, [1n]);
      isKnown = false;
      relay.switchTo({ host: '127.0.0.1', port: broker?.port ?? 0 });
      await verdict(link, 'UNAVAILABLE', 'UNRESOLVABLE_BOOTSTRAP_ERROR');
      assert.match(
        world.service.describeLink(link).linkErrorMessage ?? '',
        /source\.causeway\.test/,
      );
      isKnown = true;
      await verdict(link, 'ACTIVE', 'NO_ERROR');
      await produce(world.source, { topic }, ['2']);
      await world.caughtUp(topic, [2n]);
    } finally {
      resolver.mock.restore();
      await relay.stop();
    }
  });

  test('D14: fails when another cluster stands in the place of the source, until it is back', async () => {
    const targets = [source, destination].map(({ brokers }) => ({
      host: '127.0.0.1',
      port: brokers[0]?.port ?? 0,
    }));
    const [right, wrong] = targets;
    assert.ok(right && wrong);
    const relay = await Relay.start({ target: right });
    try {
      const map = [source, destination].map(
        ({ brokers }) => `${brokers[0]?.advertised}=${relay.address}`,
      );
      const link = await autoLink({
        'bootstrap.servers': relay.address,
        'address.map': map.join(','),
      });
      const name = await sourceTopic(`${link}.a`, ['1']);
      await appears(name);
      await world.caughtUp(name, [1n]);
      relay.switchTo(wrong);
      await verdict(link, 'FAILED', 'UNKNOWN');
      const { linkErrorMessage } = world.service.describeLink(link);
      assert.match(linkErrorMessage ?? '', /is another cluster: /);
      relay.switchTo(right);
      await verdict(link, 'ACTIVE', 'NO_ERROR');
      await produce(world.source, { topic: name }, ['2']);
      await world.caughtUp(name, [2n]);
    } finally {
      await relay.stop();
    }
  });

  test('D14, D15: names a source that is gone; every task waits for it, and goes on after it', async () => {
    const link = await autoLink({
      'topic.config.sync.ms': '300',
      'consumer.offset.sync.enable': 'true',
    });
    const grouped = await sourceTopic(`${link}.grouped`, ['1', '2', '3']);
    await appears(grouped);
    await world.caughtUp(grouped, [3n]);
    await commitOffsets(world.source, `${link}-group`, grouped, [1]);
    await followed(`${link}-group`, grouped, 1);
    await verdict(link, 'ACTIVE', 'NO_ERROR');
    await source.kill9();
    await verdict(link, 'UNAVAILABLE', 'BOOTSTRAP_TCP_CONNECTION_FAILED_ERROR');
    const states = world.service
      .describeLink(link)
      .tasks.filter(({ state }) => state !== 'NOT_CONFIGURED')
      .map(({ state }) => state);
    assert.deepEqual([...new Set(states)], ['LINK_UNAVAILABLE']);
    await source.restartBroker();
    await verdict(link, 'ACTIVE', 'NO_ERROR');
    const seen = task(link).lastSuccessTimeMs;
    await sourceTopic(`${link}.after`);
    await appears(`${link}.after`);
    await until('the task is well', () => task(link).lastSuccessTimeMs > seen);
    await commitOffsets(world.source, `${link}-group`, grouped, [2]);
    await followed(`${link}-group`, grouped, 2);
  });
});

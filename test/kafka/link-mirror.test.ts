// Mirrors on real brokers: made, fetched byte for byte, paused, grown, followed when the source's
// log start moves, stopped loudly when the source is recreated, taken up after a restart.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { LinkError } from '../../src/link/link-error.ts';
import type { KafkaCluster } from '../helpers/kafka-cluster.ts';
import { produce, Transaction } from '../helpers/own-producer.ts';
import { readBatches } from '../helpers/raw-batches.ts';
import { createTopic, deleteRecords, deleteTopic, growTopic } from '../helpers/topic-admin.ts';
import { uniqueName, until } from '../helpers/wait.ts';
import { type LinkWorld, lostRanges, startLinkWorld } from './link-fixture.ts';

let source: KafkaCluster;
let destination: KafkaCluster;
let world: LinkWorld;

before(async () => {
  world = await startLinkWorld({ limits: { sourceUnavailableMs: 3_000 } });
  ({ sourceKafka: source, destinationKafka: destination } = world);
  await world.createLink('dr');
});

after(() => world?.end());

function isLinkError(code: string, pattern = /./) {
  return (error: unknown): boolean => {
    assert.ok(error instanceof LinkError, String(error));
    assert.equal(error.code, code, error.message);
    assert.match(error.message, pattern);
    return true;
  };
}

describe('links', () => {
  test('are refused with the cause', async () => {
    const base = { validateOnly: false, actor: 'test' };
    const servers = { 'bootstrap.servers': source.bootstrap };
    const { service } = world;
    await assert.rejects(
      service.createLink({ ...base, name: 'dr', configs: servers }),
      isLinkError('LINK_EXISTS'),
    );
    await assert.rejects(
      service.createLink({ ...base, name: 'bad', configs: { ...servers, 'no.such': '1' } }),
      isLinkError('INVALID_CONFIG', /no\.such/),
    );
    await assert.rejects(
      service.createLink({ ...base, name: 'bad', configs: servers, sourceClusterId: 'wrong' }),
      isLinkError('CLUSTER_ID_MISMATCH', /wrong/),
    );
    await assert.rejects(
      service.createLink({
        ...base,
        name: 'self',
        configs: { 'bootstrap.servers': destination.bootstrap },
      }),
      isLinkError('CLUSTER_ID_MISMATCH', /itself/),
    );
    await assert.rejects(
      service.createLink({
        ...base,
        name: 'dead',
        configs: { 'bootstrap.servers': '127.0.0.1:1', 'request.timeout.ms': '1000' },
      }),
      isLinkError('SOURCE_UNREACHABLE'),
    );
    assert.deepEqual(
      service.listLinks().map(({ record }) => record.name),
      ['dr'],
    );
  });

  test('validate only stores nothing', async () => {
    const configs = {
      'bootstrap.servers': source.bootstrap,
      'address.map': Object.entries(source.addressMap)
        .map((entry) => entry.join('='))
        .join(','),
    };
    const { record } = await world.service.createLink({
      name: 'trial',
      configs,
      validateOnly: true,
      actor: 'test',
    });
    assert.equal(record.sourceClusterId, source.clusterId);
    assert.equal(world.state.view.links.has('trial'), false);
  });
});

describe('a mirror', () => {
  test('is identical to its source, transactions included (R1)', async () => {
    const topic = uniqueName('exact');
    await createTopic(world.source, topic, {
      partitions: 3,
      configs: { 'retention.ms': '123456789', 'min.insync.replicas': '1' },
    });
    for (const partition of [0, 1]) {
      await produce(world.source, { topic, partition }, ['a', 'b', 'c']);
    }
    const status = await world.createMirror('dr', topic);
    assert.equal(status.state, 'ACTIVE');
    assert.equal(status.partitions.length, 3);
    const transaction = new Transaction(world.source, uniqueName('txn'));
    for (const outcome of ['commit', 'abort', 'commit'] as const) {
      await transaction.begin(topic, [0, 2]);
      for (const partition of [0, 2]) {
        await produce(world.source, { topic, partition, transaction }, ['x', 'y']);
      }
      await transaction.end(outcome);
    }
    await produce(world.source, { topic, partition: 1 }, ['d']);
    await world.caughtUp(topic, [12n, 4n, 9n]);
    for (const partition of [0, 1, 2]) await world.assertIdentical(topic, partition);
    const view = world.directory.byName(topic);
    assert.equal(view?.mode, 'mirror');
    assert.equal(view?.partition(0)?.log?.lastStableOffset, 12n);
    assert.ok((view?.partition(0)?.advertisedEpoch ?? -1) >= 0);
  });

  test('shows lag as known and zero, and the link as in contact', async () => {
    const [mirror] = world.service.listMirrors('dr');
    assert.ok(mirror, 'a mirror of the tests before');
    await until('a sample', () => {
      const found = world.service.describeMirror(mirror.name);
      return found.partitions.every((partition) => partition.lagRecords === 0n);
    });
    const link = world.service.describeLink('dr');
    assert.equal(link.linkState, 'ACTIVE');
    assert.ok(link.rpoSeconds !== null && link.rpoSeconds < 5, `${link.rpoSeconds}`);
    assert.ok(Date.now() - link.lastContactTimeMs < 5_000);
  });

  test('is refused over an existing topic, an internal one, or none', async () => {
    const topic = uniqueName('taken');
    await createTopic(world.source, topic);
    await createTopic(world.destination, topic);
    await assert.rejects(world.createMirror('dr', topic), isLinkError('TOPIC_EXISTS'));
    assert.equal(world.directory.byName(topic), undefined);
    await assert.rejects(
      world.createMirror('dr', '__consumer_offsets'),
      isLinkError('INVALID_NAME'),
    );
    await assert.rejects(world.createMirror('dr', '__causeway_x'), isLinkError('INVALID_NAME'));
    await assert.rejects(
      world.createMirror('dr', uniqueName('none')),
      isLinkError('SOURCE_TOPIC_NOT_FOUND'),
    );
  });

  test('of two mirrors of one topic over a link one got nothing', async () => {
    const topic = uniqueName('twice');
    await createTopic(world.source, topic);
    await produce(world.source, { topic }, ['a', 'b']);
    const second = `${topic}.again`;
    await world.createMirror('dr', topic);
    const options = { validateOnly: false, actor: 'test' };
    await world.service.createMirror({
      ...{ link: 'dr', sourceTopic: topic, mirrorTopic: second, configs: {} },
      ...options,
    });
    for (const mirror of [topic, second]) await world.caughtUp(mirror, [2n]);
    await produce(world.source, { topic }, ['c']);
    for (const mirror of [topic, second]) {
      await world.caughtUp(mirror, [3n]);
      const copied = await world.stored(mirror);
      const batches = await readBatches(world.source, topic, 0);
      assert.ok(Buffer.concat(batches.map(({ bytes }) => bytes)).equals(copied), mirror);
    }
  });

  test('pauses and resumes', async () => {
    const topic = uniqueName('paused');
    await world.mirrorNewTopic(topic, ['a']);
    await world.command('pause', topic);
    assert.equal(world.service.describeMirror(topic).state, 'PAUSED');
    await produce(world.source, { topic }, ['b']);
    // Another topic of the same link that gets its record proves that time enough has passed.
    await world.mirrorNewTopic(uniqueName('witness'), ['w']);
    assert.equal(world.service.describeMirror(topic).partitions[0]?.mirrorEnd, 1n);
    await world.command('resume', topic);
    await world.caughtUp(topic, [2n]);
    await world.assertIdentical(topic);
  });

  test('stops while its link is paused', async () => {
    const topic = uniqueName('linkpaused');
    await createTopic(world.source, topic);
    await world.createMirror('dr', topic);
    const options = { validateOnly: false, actor: 'test' };
    await world.service.alterLink('dr', [{ name: 'cluster.link.paused', value: 'true' }], options);
    await world.inState(topic, 'LINK_PAUSED');
    assert.equal(world.service.describeLink('dr').linkState, 'PAUSED');
    await produce(world.source, { topic }, ['a']);
    await world.service.alterLink('dr', [{ name: 'cluster.link.paused', value: null }], options);
    await world.caughtUp(topic, [1n]);
    assert.equal(world.service.describeMirror(topic).state, 'ACTIVE');
  });

  test('follows partition growth from the first record', async () => {
    const topic = uniqueName('grown');
    await createTopic(world.source, topic);
    await world.createMirror('dr', topic);
    await growTopic(world.source, topic, 3);
    await produce(world.source, { topic, partition: 2 }, ['first', 'second']);
    await until(
      'three partitions',
      () => world.service.describeMirror(topic).partitions.length === 3,
      { deadlineMs: 5_000 },
    );
    await world.caughtUp(topic, [0n, 0n, 2n]);
    await world.assertIdentical(topic, 2);
    const shell = (await world.destination.metadata([topic])).topics.get(topic);
    assert.equal(shell?.partitions.length, 3);
  });

  test('D18: follows the log start, also without new records', async () => {
    const topic = uniqueName('start');
    const ends = await world.mirrorNewTopic(topic, async () => {
      for (const value of ['a', 'b', 'c', 'd']) await produce(world.source, { topic }, [value]);
    });
    assert.deepEqual(ends, [4n]);
    await deleteRecords(world.source, topic, 0, 2n);
    await until(
      'the log start',
      () => world.service.describeMirror(topic).partitions[0]?.logStart === 2n,
    );
    await world.assertIdentical(topic);
  });

  test('begins at a log start above zero, also inside a batch', async () => {
    const topic = uniqueName('inside');
    const ends = await world.mirrorNewTopic(topic, async () => {
      await produce(world.source, { topic }, ['a', 'b', 'c', 'd']);
      await produce(world.source, { topic }, ['e']);
      await deleteRecords(world.source, topic, 0, 2n);
    });
    assert.deepEqual(ends, [5n]);
    await until(
      'the log start',
      () => world.service.describeMirror(topic).partitions[0]?.logStart === 2n,
    );
    await world.assertIdentical(topic);
  });

  test('D06: of a recreated source fails with its cause, and is made anew on demand (R9)', async () => {
    const topic = uniqueName('recreated');
    await world.mirrorNewTopic(topic, ['a', 'b']);
    await deleteTopic(world.source, topic);
    await until('the topic is made again', () => createTopic(world.source, topic).then(() => true));
    await produce(world.source, { topic }, ['other', 'history', 'longer']);
    await world.inState(topic, 'FAILED');
    const status = world.service.describeMirror(topic);
    assert.equal(status.error?.code, 'SOURCE_TOPIC_ID_CHANGED');
    assert.equal(status.partitions[0]?.mirrorEnd, 2n);

    const request = { archiveAs: null, validateOnly: false, actor: 'test' };
    await world.service.recreateMirror(topic, { ...request, validateOnly: true });
    assert.equal(world.service.describeMirror(topic).state, 'FAILED');
    assert.equal(world.service.describeMirror(topic).topicId, status.topicId);
    await world.service.recreateMirror(topic, request);
    await world.caughtUp(topic, [3n]);
    await world.assertIdentical(topic);
    const anew = world.service.describeMirror(topic);
    assert.deepEqual([anew.state, anew.error], ['ACTIVE', null]);
    assert.notEqual(anew.topicId, status.topicId);
    const again = world.service.recreateMirror(topic, request);
    await assert.rejects(again, { code: 'ILLEGAL_STATE' });
  });

  test('names lost history with its range (R10)', async () => {
    const topic = uniqueName('lost');
    await world.mirrorNewTopic(topic, ['a', 'b']);
    await world.command('pause', topic);
    for (const value of ['c', 'd', 'e']) await produce(world.source, { topic }, [value]);
    await deleteRecords(world.source, topic, 0, 4n);
    await world.command('resume', topic);
    await world.inState(topic, 'FAILED');
    const status = world.service.describeMirror(topic);
    assert.equal(status.error?.code, 'LOST_HISTORY');
    assert.match(status.error?.message ?? '', /\[2, 4\)/);
    assert.deepEqual(lostRanges(status), [{ partition: 0, from: 2n, to: 4n }]);
    // The copy stays as it was.
    assert.deepEqual([status.partitions[0]?.logStart, status.partitions[0]?.mirrorEnd], [0n, 2n]);
  });

  test('is failed when records are written to its shell (R3)', async () => {
    const topic = uniqueName('written');
    await createTopic(world.source, topic);
    await world.createMirror('dr', topic);
    await produce(world.destination, { topic }, ['behind', 'our', 'back']);
    await world.inState(topic, 'FAILED');
    const status = world.service.describeMirror(topic);
    assert.equal(status.error?.code, 'SHELL_TOPIC_WRITTEN');
    assert.match(status.error?.message ?? '', /^3 records/);
  });

  test('goes on after a restart where it was', async () => {
    const topic = uniqueName('restarted');
    const write = () => produce(world.source, { topic, partition: 1 }, ['a', 'b']);
    const ends = await world.mirrorNewTopic(topic, write, { partitions: 2 });
    assert.deepEqual(ends, [0n, 2n]);
    await world.restart();
    await produce(world.source, { topic, partition: 1 }, ['c']);
    await produce(world.source, { topic, partition: 0 }, ['d']);
    await world.caughtUp(topic, [1n, 3n]);
    for (const partition of [0, 1]) await world.assertIdentical(topic, partition);
  });

  test('is SOURCE_UNAVAILABLE while its source hangs, and comes back by itself', async () => {
    const topic = uniqueName('hanging');
    await createTopic(world.source, topic);
    await world.createMirror('dr', topic);
    await until(
      'a sample',
      () => world.service.describeMirror(topic).partitions[0]?.lagRecords === 0n,
    );
    await source.pause();
    try {
      await world.inState(topic, 'SOURCE_UNAVAILABLE');
      const link = world.service.describeLink('dr');
      assert.equal(link.linkState, 'UNAVAILABLE');
      assert.notEqual(link.linkError, 'NO_ERROR');
      assert.ok((link.rpoSeconds ?? 0) >= 2, `${link.rpoSeconds}`);
    } finally {
      source.resume();
    }
    await world.inState(topic, 'ACTIVE');
    await produce(world.source, { topic }, ['a']);
    await world.caughtUp(topic, [1n]);
  });

  test('under a prefix has another name, and its link is not deleted under it', async () => {
    const topic = uniqueName('prefixed');
    await createTopic(world.source, topic);
    await world.createLink('pre', { 'cluster.link.prefix': 'eu.' });
    const { name, sourceTopic } = await world.createMirror('pre', topic);
    assert.deepEqual([name, sourceTopic], [`eu.${topic}`, topic]);
    await produce(world.source, { topic }, ['a']);
    await world.caughtUp(name, [1n]);
    const options = { validateOnly: false, actor: 'test' };
    await assert.rejects(
      world.service.deleteLink('pre', { ...options, force: false }),
      isLinkError('LINK_IN_USE'),
    );
    await world.service.deleteLink('pre', { actor: 'test', force: true, validateOnly: true });
    assert.equal(world.service.describeMirror(name).state, 'ACTIVE', 'a dry run');
    await world.service.deleteLink('pre', { ...options, force: true });
    await world.inState(name, 'LINK_FAILED');
    assert.equal(world.directory.byName(name)?.partition(0)?.log?.visibleEnd, 1n);
    const { rows } = await world.command('failover', name);
    assert.deepEqual([rows[0]?.error, rows[0]?.state], [null, 'STOPPED']);
  });

  test('whose creation was interrupted is finished, or given up over a foreign topic', async () => {
    const topic = uniqueName('resumed');
    const foreign = uniqueName('foreign');
    for (const name of [topic, foreign]) await createTopic(world.source, name);
    await produce(world.source, { topic }, ['a']);
    await createTopic(world.destination, foreign);
    await produce(world.destination, { topic: foreign }, ['not ours']);
    const intents = [topic, foreign].map((name) => ({
      put: {
        kind: 'topic',
        name,
        topicId: null,
        link: 'dr',
        sourceTopic: name,
        sourceTopicId: 'AAAAAAAAAAAAAAAAAAAAAA',
        state: 'PENDING_MIRROR',
        stateTimeMs: Date.now(),
        error: null,
        partitions: [],
        stoppedBy: null,
        creating: { replicationFactor: -1, configs: { 'retention.ms': '777000' } },
      } as const,
    }));
    await world.state.commit(intents);
    assert.equal(world.directory.byName(topic)?.mode, 'mirror', 'gated before it exists');
    await world.restart();
    await world.inState(topic, 'ACTIVE');
    await world.caughtUp(topic, [1n]);
    await until('the foreign topic is let go', () => !world.directory.byName(foreign));
    const events = world.events.since(0).filter(({ event }) => /abandoned/.test(event));
    assert.match(events[0]?.message ?? '', /1 records/);
  });

  test('notices a shell that was deleted or made anew; a promoted topic is forgotten', async () => {
    const mirror = uniqueName('noshell');
    const anew = uniqueName('othershell');
    const promoted = uniqueName('gone');
    const again = uniqueName('again');
    for (const name of [mirror, anew, promoted, again]) {
      await createTopic(world.source, name);
      await world.createMirror('dr', name);
    }
    for (const name of [promoted, again]) await world.command('failover', name);
    for (const name of [mirror, anew, promoted, again]) await deleteTopic(world.destination, name);
    for (const name of [anew, again]) {
      await until('another shell', () => createTopic(world.destination, name).then(() => true));
    }
    for (const name of [mirror, anew]) {
      await world.inState(name, 'FAILED');
      assert.equal(world.service.describeMirror(name).error?.code, 'SHELL_TOPIC_DELETED');
    }
    for (const name of [promoted, again]) {
      await until('the record is gone', () => !world.state.view.topics.has(name));
      assert.equal(world.directory.byName(name), undefined);
    }
  });

  test('is deleted with its shell, or without', async () => {
    const topic = uniqueName('deleted');
    const kept = uniqueName('kept');
    for (const name of [topic, kept]) {
      await createTopic(world.source, name);
      await world.createMirror('dr', name);
    }
    const options = { validateOnly: false, actor: 'test' };
    const dry = { actor: 'test', keepTopic: false, validateOnly: true };
    await world.service.deleteMirror(topic, dry);
    assert.equal(world.service.describeMirror(topic).state, 'ACTIVE', 'a dry run');
    await world.service.deleteMirror(topic, { ...options, keepTopic: false });
    await world.service.deleteMirror(kept, { ...options, keepTopic: true });
    assert.equal(world.directory.byName(topic), undefined);
    assert.equal(world.directory.byName(kept), undefined);
    await until('the shell is gone', async () => {
      const { topics } = await world.destination.metadata([topic, kept]);
      return topics.get(topic)?.errorCode === 3 && topics.get(kept)?.errorCode === 0;
    });
    // The name is free again.
    await world.createMirror('dr', topic);
    assert.equal(world.service.describeMirror(topic).state, 'ACTIVE');
  });
});

// The table of docs/direct-access.md, seen to happen: each operation goes straight to a broker of
// the destination, on an ordinary, a mirrored and a promoted topic, and what clients of ours and
// the operator see is looked at through the proxy. With UPDATE_DOCS=1 the table is written.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';
import type { Consumer } from 'kafkajs';
import { electPreferred, logBytes, moveReplicas, untilLedBy } from '../helpers/broker-moves.ts';
import { directAccessRows, directAccessTable } from '../helpers/direct-access-table.ts';
import { startShareConsumer } from '../helpers/foreign-clients.ts';
import { commitOffsets, committedOffsets } from '../helpers/group-offsets.ts';
import { JavaTools, shareStartAndLag } from '../helpers/java-tools.ts';
import { oneShareState } from '../helpers/kafka-settings.ts';
import { kafkaClient, withAdmin } from '../helpers/kafka-setup.ts';
import { type LinkedStage, offsets, startStage } from '../helpers/linked-stage.ts';
import { mirrorView, stopMirroring, waitForState } from '../helpers/mirror-commands.ts';
import { readBatches } from '../helpers/raw-batches.ts';
import { abortedFrom, fetchAt } from '../helpers/raw-reads.ts';
import {
  endTransaction,
  newProducer,
  startTransaction,
  tryWrite,
  values,
  write,
} from '../helpers/raw-writes.ts';
import { rootDirectory } from '../helpers/repository.ts';
import { createTopic, deleteRecords, untilLeader } from '../helpers/topic-admin.ts';
import { until } from '../helpers/wait.ts';

const copied = 10;
const written = 5;
const outOfRange = 1;
const mirrors = ['m-write', 'm-transaction', 'm-read', 'm-grow', 'm-config', 'm-delete'];
const promotedTopics = ['p-all', 'p-cut', 'p-delete'];
const ordinaryTopics = ['o-all', 'o-cut', 'o-delete'];

let stage: LinkedStage;
let tools: JavaTools;
let bypassing: Consumer | undefined;

before(async () => {
  stage = await startStage({
    // Kafka's own tools go to the brokers, and replicas from one to the other.
    destination: { brokers: 2, advertise: 'reachable', settings: oneShareState },
    linkConfigs: { 'topic.config.sync.ms': '300' },
  });
  tools = await JavaTools.start();
  const { atProxy, causeway } = stage;
  const copies = [...mirrors, ...promotedTopics];
  await Promise.all(copies.map((topic) => stage.mirrorNewTopic(topic, values('copied', copied))));
  await Promise.all(promotedTopics.map((topic) => stopMirroring(causeway, 'promote', topic)));
  await Promise.all(ordinaryTopics.map((topic) => createTopic(atProxy, topic)));
  for (const topic of ordinaryTopics) await write(atProxy, topic, 0, values('copied', copied));
  for (const topic of [...ordinaryTopics, ...promotedTopics]) {
    await write(atProxy, topic, 0, values('written', written));
  }
  bypassing = await consumePast('p-all');
});

after(async () => {
  await bypassing?.disconnect();
  await tools?.stop();
  await stage?.stop();
});

/** A consumer from an address that is none of the proxy's, straight at the brokers. */
async function consumePast(topic: string): Promise<Consumer> {
  const { bootstrap, addressMap } = stage.destination;
  const from = { bootstrap, addressMap, localAddress: '127.0.0.2' };
  const consumer = kafkaClient(from, 'past-us').consumer({ groupId: 'bypassing' });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic] });
  await consumer.run({ eachMessage: async () => undefined });
  return consumer;
}

async function countOf(through: 'atProxy' | 'atDestination', topic: string): Promise<number> {
  const batches = await readBatches(stage[through], topic, 0);
  return batches.reduce(
    (sum, { baseOffset, nextOffset }) => sum + Number(nextOffset - baseOffset),
    0,
  );
}

const end = async (through: 'atProxy' | 'atDestination', topic: string): Promise<number> =>
  Number((await offsets(stage[through], topic, -1n))[0]);

async function failedWith(topic: string): Promise<string | undefined> {
  return (await waitForState(stage.causeway, topic, 'FAILED')).error?.code;
}

interface Check {
  ordinary(): Promise<void>;
  mirrored(): Promise<void>;
  promoted(): Promise<void>;
}

const all = copied + written;

const checks: Readonly<Record<string, Check>> = {
  'ask for the end offset': {
    ordinary: async () => assert.equal(await end('atDestination', 'o-all'), all),
    mirrored: async () => assert.equal(await end('atDestination', 'm-read'), 0),
    promoted: async () => {
      assert.equal(await end('atDestination', 'p-all'), written);
      assert.equal(await end('atProxy', 'p-all'), all);
    },
  },
  'read from the earliest record': {
    ordinary: async () => assert.equal(await countOf('atDestination', 'o-all'), all),
    mirrored: async () => assert.equal(await countOf('atDestination', 'm-read'), 0),
    promoted: async () => {
      const [first] = await readBatches(stage.atDestination, 'p-all', 0);
      assert.equal(first?.baseOffset, 0n);
      assert.equal(await countOf('atDestination', 'p-all'), written);
      assert.equal(await countOf('atProxy', 'p-all'), all);
    },
  },
  'read at an offset': {
    ordinary: async () => {
      const { first } = await fetchAt(stage.atDestination, 'o-all', 0, 12n);
      assert.equal(first?.readBigInt64BE(0), BigInt(copied));
    },
    mirrored: async () => {
      assert.equal((await fetchAt(stage.atDestination, 'm-read', 0, 3n)).errorCode, outOfRange);
    },
    promoted: async () => {
      const { first } = await fetchAt(stage.atDestination, 'p-all', 0, 3n);
      const shown = await fetchAt(stage.atProxy, 'p-all', 0, BigInt(copied + 3));
      // All but base offset and leader epoch.
      assert.deepEqual(first?.subarray(16), shown.first?.subarray(16));
      const beyond = await fetchAt(stage.atDestination, 'p-all', 0, BigInt(copied + 3));
      assert.equal(beyond.errorCode, outOfRange);
    },
  },
  'read in a share group': {
    ordinary: async () => {
      await resetShared('o-cut');
      assert.equal(await sharedFrom(stage.destination, 'o-cut'), '0 15');
    },
    mirrored: async () => {
      await resetShared('m-read');
      assert.equal(await sharedFrom(stage.destination, 'm-read'), '0 0');
    },
    promoted: async () => {
      const [topic, group] = ['p-cut', sharing('p-cut')];
      await resetShared(topic);
      assert.equal(await sharedFrom(stage.destination, topic), '0 5');
      assert.equal(await sharedFrom(stage.causeway, topic), '10 5');
      const { bootstrap } = stage.destination;
      const consumer = await startShareConsumer({ bootstrap, topic, group });
      try {
        await consumer.waitForCount(written);
        const read = consumer.records.map(({ offset }) => offset).sort();
        assert.deepEqual(read, [0, 1, 2, 3, 4]);
      } finally {
        await consumer.stop();
      }
    },
  },
  'commit offsets, as a consumer that reads past us': {
    ordinary: () => commits('past', 'o-all', all),
    mirrored: () => commits('past', 'm-read', 0),
    promoted: () => commits('past', 'p-all', written),
  },
  'commit offsets that were read through us': {
    ordinary: () => commits('through', 'o-all', all),
    mirrored: () => commits('through', 'm-read', copied),
    promoted: () => commits('through', 'p-all', all),
  },
  'reset the offsets of a group with `kafka-consumer-groups`': {
    ordinary: () => resets('o-all', all),
    mirrored: () => resets('m-read', 0),
    promoted: () => resets('p-all', written),
  },
  'write records': {
    ordinary: async () => {
      assert.equal(await write(stage.atDestination, 'o-all', 0, values('direct', 1)), BigInt(all));
    },
    mirrored: async () => {
      await write(stage.atDestination, 'm-write', 0, values('direct', 1));
      assert.equal(await failedWith('m-write'), 'SHELL_TOPIC_WRITTEN');
      assert.equal(await end('atProxy', 'm-write'), copied);
    },
    promoted: async () => {
      await write(stage.atDestination, 'p-all', 0, values('direct', 1));
      const last = (await readBatches(stage.atProxy, 'p-all', 0)).at(-1);
      assert.equal(last?.baseOffset, BigInt(all));
    },
  },
  'write in a transaction': {
    ordinary: () => commitOne('o-all'),
    mirrored: async () => {
      const { atDestination } = stage;
      const producer = await newProducer(atDestination, 'direct-m');
      await startTransaction(atDestination, producer, 'm-transaction', [0]);
      await endTransaction(atDestination, producer, 'abort');
      await until('a marker', async () => (await end('atDestination', 'm-transaction')) === 1);
      const looked = await mirrorView(stage.causeway, 'm-transaction');
      assert.deepEqual([looked.state, await end('atProxy', 'm-transaction')], ['ACTIVE', copied]);
      await commitOne('m-transaction', producer);
      assert.equal(await failedWith('m-transaction'), 'SHELL_TOPIC_WRITTEN');
    },
    promoted: async () => {
      const before = await countOf('atProxy', 'p-all');
      await commitOne('p-all');
      assert.equal(await countOf('atProxy', 'p-all'), before + 2, 'a record and its marker');
    },
  },
  'read committed records alone': {
    ordinary: () => aborts('o-all', 0n),
    mirrored: async () => {
      assert.deepEqual(await abortedFrom(stage.atDestination, 'm-read', 0, 0n), []);
      assert.equal(await countOf('atDestination', 'm-read'), 0);
    },
    promoted: () => aborts('p-all', BigInt(copied)),
  },
  'delete records below an offset': {
    ordinary: async () => {
      await deleteRecords(stage.atDestination, 'o-cut', 0, 3n);
      assert.deepEqual(await offsets(stage.atProxy, 'o-cut', -2n), [3n]);
    },
    mirrored: async () => {
      await assert.rejects(deleteRecords(stage.atDestination, 'm-read', 0, 3n), /error 1$/m);
      assert.equal(await countOf('atProxy', 'm-read'), copied);
    },
    promoted: async () => {
      await deleteRecords(stage.atDestination, 'p-cut', 0, 3n);
      assert.deepEqual(await offsets(stage.atProxy, 'p-cut', -2n), [BigInt(copied + 3)]);
      assert.equal((await fetchAt(stage.atProxy, 'p-cut', 0, 3n)).errorCode, 1);
      assert.equal((await fetchAt(stage.atProxy, 'p-cut', 0, BigInt(copied))).errorCode, 1);
      assert.equal((await fetchAt(stage.atProxy, 'p-cut', 0, BigInt(copied + 3))).errorCode, 0);
    },
  },
  'add partitions': {
    ordinary: () => grown('o-all', 0n),
    mirrored: async () => {
      await grow('m-grow');
      const code = (await tryWriteThrough('m-grow', 1)).errorCode;
      assert.equal(code, 44);
      assert.equal(await failedWith('m-grow'), 'SHELL_TOPIC_CHANGED');
    },
    promoted: () => grown('p-all', 0n),
  },
  'change a topic config': {
    ordinary: () => configured('o-all', { 'retention.ms': '86400000' }),
    mirrored: async () => {
      await setConfigs('m-config', { 'retention.ms': '86400000', 'max.message.bytes': '2000000' });
      await until('max.message.bytes put back', async () => {
        const now = await configsOf('m-config');
        assert.equal(now.get('retention.ms'), '86400000');
        return now.get('max.message.bytes') !== '2000000';
      });
    },
    promoted: () => configured('p-all', { 'retention.ms': '86400000' }),
  },
  'ask for log directories': {
    ordinary: async () => assert.ok((await sameBytes('o-all')) > 0n),
    mirrored: async () => assert.equal(await sameBytes('m-read'), 0n),
    promoted: async () => assert.ok((await sameBytes('p-all')) > 0n),
  },
  'move replicas to other brokers': {
    ordinary: () => moved('o-all', followed),
    mirrored: () => moved('m-read', unmoved),
    promoted: () => moved('p-all', followed),
  },
  'have the preferred leader elected': {
    ordinary: () => elected('o-all', followed),
    mirrored: () => elected('m-read', unmoved),
    promoted: () => elected('p-all', followed),
  },
  'delete the topic': {
    ordinary: () => deleteTopic('o-delete'),
    mirrored: async () => {
      await deleteTopic('m-delete');
      assert.equal(await failedWith('m-delete'), 'SHELL_TOPIC_DELETED');
    },
    promoted: async () => {
      await deleteTopic('p-delete');
      await until('the copy gone', () => isRemoved('p-delete'), { deadlineMs: 30_000 });
    },
  },
};

const sharing = (topic: string): string => `sharing-${topic}`;

const resetShared = (topic: string): Promise<unknown> =>
  tools.run(stage.destination, 'kafka-share-groups', [
    ...['--reset-offsets', '--group', sharing(topic), '--topic', topic],
    ...['--to-earliest', '--execute'],
  ]);

const sharedFrom = (target: { bootstrap: string }, topic: string) =>
  shareStartAndLag(tools, target, sharing(topic));

async function resets(topic: string, offset: number): Promise<void> {
  const group = ['--group', `reset-${topic}`, '--topic', topic];
  const how = ['--reset-offsets', '--to-latest', '--execute'];
  await tools.run(stage.destination, 'kafka-consumer-groups', [...group, ...how]);
  assert.deepEqual(await committedOffsets(stage.atProxy, `reset-${topic}`, topic, 1), [offset]);
}

async function aborts(topic: string, shift: bigint): Promise<void> {
  const { atDestination, atProxy } = stage;
  const producer = await newProducer(atDestination, `aborting-${topic}`);
  await startTransaction(atDestination, producer, topic, [0]);
  const first = await write(atDestination, topic, 0, values('aborted', 1), {
    producer,
    sequence: 0,
  });
  await endTransaction(atDestination, producer, 'abort');
  await until('the marker', async () => {
    return (await abortedFrom(atDestination, topic, 0, first)).length > 0;
  });
  assert.deepEqual(await abortedFrom(atDestination, topic, 0, first), [first]);
  assert.deepEqual(await abortedFrom(atProxy, topic, 0, first + shift), [first + shift]);
}

/** What a broker says of its replica, which is the same through us. */
async function sameBytes(topic: string): Promise<bigint> {
  const nodeId = await untilLeader(stage.atDestination, topic, 0);
  const bytes = await logBytes(stage.atDestination, topic, nodeId);
  assert.equal(await logBytes(stage.atProxy, topic, nodeId), bytes);
  return bytes;
}

type Seen = (topic: string, leaderId: number) => Promise<void>;

/** Clients of ours follow the leader, and write behind what is there. */
async function followed(topic: string, leaderId: number): Promise<void> {
  await untilLedBy(stage.atProxy, topic, leaderId);
  const before = await end('atProxy', topic);
  assert.equal(await write(stage.atProxy, topic, 0, values('moved', 1)), BigInt(before));
}

async function unmoved(topic: string): Promise<void> {
  assert.ok((await untilLeader(stage.atProxy, topic, 0)) > 2, 'the link node leads it');
  assert.equal(await countOf('atProxy', topic), copied);
  assert.equal((await mirrorView(stage.causeway, topic)).state, 'ACTIVE');
}

async function moved(topic: string, seen: Seen): Promise<void> {
  const leaderId = 3 - (await untilLeader(stage.atDestination, topic, 0));
  await moveReplicas(stage.destination, topic, [leaderId]);
  await untilLedBy(stage.atDestination, topic, leaderId);
  await seen(topic, leaderId);
}

async function elected(topic: string, seen: Seen): Promise<void> {
  const before = await untilLeader(stage.atDestination, topic, 0);
  await moveReplicas(stage.destination, topic, [3 - before, before]);
  assert.equal(await untilLeader(stage.atDestination, topic, 0), before);
  await electPreferred(tools, stage.destination, topic);
  await untilLedBy(stage.atDestination, topic, 3 - before);
  await seen(topic, 3 - before);
}

async function commits(group: string, topic: string, offset: number): Promise<void> {
  await commitOffsets(stage.atDestination, `${group}-${topic}`, topic, [offset]);
  assert.deepEqual(await committedOffsets(stage.atProxy, `${group}-${topic}`, topic, 1), [offset]);
}

async function commitOne(topic: string, known?: Awaited<ReturnType<typeof newProducer>>) {
  const { atDestination } = stage;
  const producer = known ?? (await newProducer(atDestination, `direct-${topic}`));
  await startTransaction(atDestination, producer, topic, [0]);
  await write(atDestination, topic, 0, values('transactional', 1), { producer, sequence: 0 });
  await endTransaction(atDestination, producer, 'commit');
}

const grow = (topic: string): Promise<unknown> =>
  withAdmin(stage.destination, (admin) =>
    admin.createPartitions({ topicPartitions: [{ topic, count: 2 }] }),
  );

/** As 3, 6 is said for a moment, by a leader that has not heard of its partition yet. */
const notYet: ReadonlySet<number> = new Set([3, 6]);

const tryWriteThrough = (topic: string, partition: number) =>
  until(`a leader of ${topic}-${partition}`, async () => {
    const answer = await tryWrite(stage.atProxy, topic, partition, values('new', 1));
    return notYet.has(answer.errorCode) ? undefined : answer;
  });

async function grown(topic: string, baseOffset: bigint): Promise<void> {
  await grow(topic);
  const answer = await tryWriteThrough(topic, 1);
  assert.deepEqual([answer.errorCode, answer.baseOffset], [0, baseOffset]);
}

const topicResource = 2;

const setConfigs = (name: string, configs: Readonly<Record<string, string>>): Promise<unknown> =>
  withAdmin(stage.destination, (admin) => {
    const configEntries = Object.entries(configs).map(([key, value]) => ({ name: key, value }));
    return admin.alterConfigs({
      validateOnly: false,
      resources: [{ type: topicResource, name, configEntries }],
    });
  });

const configsOf = (name: string): Promise<Map<string, string>> =>
  withAdmin({ bootstrap: stage.causeway.bootstrap }, async (admin) => {
    const resources = [{ type: topicResource, name }];
    const { resources: found } = await admin.describeConfigs({ resources, includeSynonyms: false });
    return new Map(found[0]?.configEntries.map((one) => [one.configName, one.configValue]));
  });

async function configured(topic: string, configs: Readonly<Record<string, string>>): Promise<void> {
  await setConfigs(topic, configs);
  const now = await configsOf(topic);
  for (const [key, value] of Object.entries(configs)) assert.equal(now.get(key), value);
}

async function deleteTopic(topic: string): Promise<void> {
  await withAdmin(stage.destination, (admin) => admin.deleteTopics({ topics: [topic] }));
  await until(`${topic} gone`, async () => {
    const info = (await stage.atDestination.metadata([topic])).topics.get(topic);
    return info === undefined || info.errorCode !== 0;
  });
}

async function isRemoved(topic: string): Promise<boolean> {
  const { mirrors: left } = await stage.causeway.get<{ mirrors: { name: string }[] }>(
    '/causeway/v1/mirrors',
  );
  return left.every(({ name }) => name !== topic);
}

test('docs/direct-access.md has the table that is tested here', () => {
  assert.deepEqual(
    directAccessRows.map(({ operation }) => operation).sort(),
    Object.keys(checks).sort(),
  );
  const file = path.join(rootDirectory, 'docs/direct-access.md');
  const text = readFileSync(file, 'utf8');
  const found = /\| operation \|[\s\S]*?\n(?=\n|$)/.exec(text)?.[0].trimEnd() ?? '';
  if (process.env.UPDATE_DOCS === '1')
    writeFileSync(file, text.replace(found, directAccessTable()));
  else assert.equal(found, directAccessTable());
});

test('every operation of the table does what the table says', async (context) => {
  // In this order what one changes is not what another looks at.
  const deletion = checks['delete the topic'];
  const waiting = [deletion?.mirrored(), deletion?.promoted()];
  try {
    for (const [operation, check] of Object.entries(checks)) {
      await context.test(`${operation}: ordinary, mirrored, promoted`, async () => {
        await check.ordinary();
        if (check === deletion) return void (await Promise.all(waiting));
        // Kafka's tools run one after the other.
        await check.mirrored();
        await check.promoted();
      });
    }
  } finally {
    await Promise.allSettled(waiting);
  }
});

test('a group on a promoted topic from elsewhere is shown as BYPASS', async () => {
  let seen = '';
  await until(
    'BYPASS in status',
    async () => {
      seen = await stage.causeway.cli('status');
      return seen.includes('BYPASS: group bypassing reads p-all past us, from 127.0.0.2');
    },
    { deadlineMs: 40_000, describe: () => seen },
  );
  const metrics = await (await fetch(`${stage.causeway.adminUrl}/metrics`)).text();
  assert.match(metrics, /causeway_bypass_group_members\{group="bypassing"\} 1/);
  await bypassing?.disconnect();
  bypassing = undefined;
});

// Clients stay attached while everything behind and before them moves: a destination of three
// brokers is restarted one by one, killed and left without one of them, leaders and coordinators
// move, and the proxy is restarted and killed; in a random order, until the time given with
// `--minutes` is used up. Live Java and librdkafka clients read a mirrored, a promoted and an
// ordinary topic.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type ForeignConsumer,
  type ForeignProducer,
  skipReason,
  startConsumer,
  startProducer,
} from '../helpers/foreign-clients.ts';
import { createTopic, produceBatch } from '../helpers/kafka-setup.ts';
import { type LinkedStage, startStage } from '../helpers/linked-stage.ts';
import { stopMirroring } from '../helpers/mirror-commands.ts';
import { assertEachOnceInOrder } from '../helpers/record-checks.ts';
import { SeededRandom } from '../helpers/seeded-random.ts';
import { uniqueName, until } from '../helpers/wait.ts';

const brokers = [1, 2, 3];
const roundsMin = 4;
/** Sessions of brokers have to run out, and Java has to start, on a busy machine. */
const deadlineMs = 240_000;

interface Topics {
  readonly mirrored: string;
  readonly promoted: string;
  readonly ordinary: string;
}

interface Reader {
  readonly topic: keyof Topics;
  /** Members of a group may get a record twice when their group moves. */
  readonly isMember: boolean;
  readonly consumer: ForeignConsumer;
}

/** What happens to the clusters and the proxy, one thing at a time. */
class Upheaval {
  readonly #stage: LinkedStage;
  readonly #random: SeededRandom;

  constructor(stage: LinkedStage, random: SeededRandom) {
    this.#stage = stage;
    this.#random = random;
  }

  /** Does one thing; `meanwhile` is called while it lasts. */
  async happen(meanwhile: () => Promise<void>): Promise<string> {
    const { destination, causeway } = this.#stage;
    const what = this.#random.pick(['rolling', 'killed', 'away', 'proxy', 'proxy killed'] as const);
    if (what === 'rolling') {
      for (const id of brokers) {
        await destination.stopBroker(id);
        await destination.restartBroker(id);
      }
      return 'brokers restarted one by one';
    }
    if (what === 'proxy' || what === 'proxy killed') {
      if (what === 'proxy') await causeway.stopProcess();
      else await causeway.kill9();
      await causeway.start();
      return what === 'proxy' ? 'proxy restarted' : what;
    }
    // Broker 1 is the only controller: without it nothing can be elected.
    const id = this.#random.pick([2, 3]);
    if (what === 'killed') {
      await destination.kill9(id);
      await destination.restartBroker(id);
      return `broker ${id} killed`;
    }
    await destination.stopBroker(id);
    await meanwhile();
    await destination.restartBroker(id);
    return `broker ${id} away for a while`;
  }
}

async function prepareTopics(stage: LinkedStage): Promise<Topics> {
  const topics = {
    mirrored: uniqueName('mirrored'),
    promoted: uniqueName('promoted'),
    ordinary: uniqueName('ordinary'),
  };
  for (const topic of [topics.mirrored, topics.promoted]) {
    await createTopic(stage.source, { topic });
    await produceBatch(stage.source, { topic }, [{ value: 'first' }]);
    await stage.mirror(topic);
    await stage.mirrored(topic);
  }
  await stopMirroring(stage.causeway, 'promote', topics.promoted);
  await createTopic(stage.destination, { topic: topics.ordinary, replication: 3 });
  return topics;
}

test('R1, R2, R4: clients stay attached while brokers and the proxy come and go', {
  timeout: 3_600_000,
  skip: (await skipReason('java')) || (await skipReason('librdkafka')),
}, async (context) => {
  const random = new SeededRandom();
  context.diagnostic(random.describe());
  const minutes = Number(process.env.CAUSEWAY_TEST_MINUTES ?? 1);
  const endMs = performance.now() + minutes * 60_000;
  const settings = { 'default.replication.factor': '3' };
  const stage = await startStage({ destination: { brokers: brokers.length, settings } });
  const open: { stop(): Promise<void> }[] = [];
  try {
    const topics = await prepareTopics(stage);
    const { bootstrap } = stage.causeway;
    const expected = { mirrored: ['first'], promoted: ['first'], ordinary: [] as string[] };
    const read = async (kind: 'java' | 'librdkafka', topic: keyof Topics, isMember: boolean) => {
      const group = isMember ? { group: uniqueName('group') } : {};
      const where = { bootstrap, topic: topics[topic], reset: 'earliest' as const };
      const consumer = await startConsumer(kind, { ...where, ...group });
      open.push(consumer);
      return { topic, isMember, consumer };
    };
    const readers: Reader[] = await Promise.all([
      read('java', 'mirrored', false),
      read('java', 'promoted', false),
      read('librdkafka', 'mirrored', false),
      read('librdkafka', 'promoted', true),
      read('librdkafka', 'ordinary', true),
    ]);
    const producers = new Map<keyof Topics, ForeignProducer>();
    for (const topic of ['promoted', 'ordinary'] as const) {
      const producer = await startProducer('librdkafka', { bootstrap, topic: topics[topic] });
      open.push(producer);
      producers.set(topic, producer);
    }
    const ports = stage.causeway.log().filter(({ event }) => event === 'node_port_bound').length;
    let written = 0;
    const write = async (): Promise<void> => {
      const value = `v${written++}`;
      await produceBatch(stage.source, { topic: topics.mirrored }, [{ value }]);
      expected.mirrored.push(value);
      for (const [topic, producer] of producers) {
        await producer.send({ value });
        expected[topic].push(value);
      }
    };
    const complete = async (what: string): Promise<void> => {
      for (const { topic, isMember, consumer } of readers) {
        const wanted = expected[topic];
        const seen = () => new Set(consumer.records.map(({ value }) => value));
        await until(`all of ${topic} after ${what}`, () => seen().size >= wanted.length, {
          deadlineMs,
          describe: () => `${seen().size} of ${wanted.length}; ${consumer.errors.join()}`,
        });
        assert.deepEqual([...seen()].sort(), [...wanted].sort(), `${topic} after ${what}`);
        if (isMember) continue;
        assertEachOnceInOrder(consumer.records);
        assert.equal(consumer.records.length, wanted.length, `${topic} after ${what}`);
      }
    };
    await write();
    await complete('the start');
    const upheaval = new Upheaval(stage, random);
    const happened: string[] = [];
    while (happened.length < roundsMin || performance.now() < endMs) {
      const what = await upheaval.happen(write);
      happened.push(what);
      for (let count = 0; count < 3; count++) await write();
      await complete(what);
    }
    context.diagnostic(happened.join(', '));
    for (const { consumer } of readers) {
      const told = consumer.stderr;
      for (const host of stage.hiddenAddresses.hosts) assert.ok(!told.includes(host), host);
    }
    // The same ids at the same ports, however often it was started.
    const bound = stage.causeway.log().filter(({ event }) => event === 'node_port_bound');
    const ids = new Map<unknown, Set<unknown>>();
    for (const { node, port } of bound) ids.set(node, (ids.get(node) ?? new Set()).add(port));
    assert.ok(bound.length >= ports);
    for (const [node, found] of ids) assert.equal(found.size, 1, `ports of node ${node}`);
  } finally {
    await Promise.allSettled(open.map((one) => one.stop()));
    await stage.stop();
  }
});

// The destination's brokers change while clients are attached: one is added that the proxy has
// never heard of, one comes back at another address, one goes for good, and the proxy is
// restarted. Clients are told the same ports all the time, and go on without being restarted.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { type Consumer, Partitioners, type Producer } from 'kafkajs';
import { type CausewayProcess, startCauseway } from '../helpers/causeway-process.ts';
import { type KafkaCluster, startKafkaCluster } from '../helpers/kafka-cluster.ts';
import { describeBrokers } from '../helpers/kafka-probe.ts';
import { kafkaClient, withAdmin } from '../helpers/kafka-setup.ts';
import { releasePorts, reservePorts } from '../helpers/ports.ts';
import { uniqueName, until } from '../helpers/wait.ts';

const deadlineMs = 120_000;
const linkNodeId = 1_000_000;
/** Not all brokers are there from the start. */
const settings = {
  'offsets.topic.replication.factor': '1',
  'transaction.state.log.replication.factor': '1',
  'share.coordinator.state.topic.replication.factor': '1',
};

/** One partition, led by one broker, with a client at each end. */
class Line {
  readonly topic: string;
  readonly received: string[] = [];
  readonly #producer: Producer;
  readonly #consumer: Consumer;
  #sent = 0;

  constructor(bootstrap: string, topic: string) {
    this.topic = topic;
    const client = kafkaClient({ bootstrap }, topic);
    this.#producer = client.producer({ createPartitioner: Partitioners.DefaultPartitioner });
    this.#consumer = client.consumer({ groupId: topic });
  }

  static async open(bootstrap: string, leader: number): Promise<Line> {
    const topic = uniqueName(`on-${leader}`);
    const replicaAssignment = [{ partition: 0, replicas: [leader] }];
    await withAdmin({ bootstrap }, async (admin) => {
      const topics = [{ topic, replicaAssignment, numPartitions: -1, replicationFactor: -1 }];
      await admin.createTopics({ topics, waitForLeaders: true });
    });
    const line = new Line(bootstrap, topic);
    await line.#producer.connect();
    await line.#consumer.connect();
    await line.#consumer.subscribe({ topic, fromBeginning: true });
    await line.#consumer.run({
      eachMessage: async ({ message }) => void line.received.push(String(message.value)),
    });
    await line.passes('at the start');
    return line;
  }

  /** A record goes from one end to the other, whatever its clients have to look up again. */
  async passes(when: string): Promise<void> {
    const value = `${this.#sent++}`;
    const send = () => this.#producer.send({ topic: this.topic, messages: [{ value }] });
    await until(`a record to ${this.topic} ${when}`, send, { deadlineMs });
    await until(`a record of ${this.topic} ${when}`, () => this.received.includes(value), {
      deadlineMs,
      describe: () => this.received.join(),
    });
  }

  async close(): Promise<void> {
    await Promise.all([this.#producer.disconnect(), this.#consumer.disconnect()]);
  }
}

/** Port by node id, as clients are told. */
async function told({ bootstrap }: CausewayProcess): Promise<ReadonlyMap<number, number>> {
  const { brokers } = await describeBrokers('127.0.0.1', Number(bootstrap.split(':').at(-1)));
  return new Map(brokers.map(({ id, port }) => [id, port]));
}

async function toldOf(causeway: CausewayProcess, nodes: readonly number[], when: string) {
  const ids = async (): Promise<number[]> =>
    [...(await told(causeway)).keys()].filter((id) => id !== linkNodeId).sort();
  await until(`metadata ${when}`, async () => `${await ids()}` === `${nodes}`, { deadlineMs });
  return told(causeway);
}

async function logged(causeway: CausewayProcess | undefined): Promise<string> {
  return causeway === undefined ? '' : readFile(causeway.logFile, 'utf8');
}

function assertHidden(ports: ReadonlyMap<number, number>, { brokers }: KafkaCluster): void {
  const real = new Set(brokers.map(({ port }) => port));
  for (const [id, port] of ports) assert.ok(!real.has(port), `node ${id} is told at ${port}`);
}

test('R2: brokers are added, move and go, and clients stay attached', {
  timeout: 900_000,
}, async () => {
  const destination = await startKafkaCluster({ brokers: 3, advertise: 'reachable', settings });
  const lines: Line[] = [];
  let causeway: CausewayProcess | undefined;
  try {
    await destination.stopBroker(3);
    causeway = await startCauseway({ destination });
    const { bootstrap } = causeway;
    const first = await toldOf(causeway, [1, 2], 'of two brokers');
    const second = await Line.open(bootstrap, 2);
    lines.push(second);

    await destination.restartBroker(3);
    const grown = await toldOf(causeway, [1, 2, 3], 'with the new broker');
    assert.equal(new Set(grown.values()).size, grown.size, 'every port is told once');
    for (const [id, port] of first) assert.equal(grown.get(id), port, `port of node ${id}`);
    const third = await Line.open(bootstrap, 3);
    lines.push(third);
    await second.passes('after the addition');

    const before = destination.brokers.find(({ id }) => id === 2)?.port;
    await destination.moveBroker(2);
    const after = destination.brokers.find(({ id }) => id === 2)?.port;
    assert.notEqual(after, before);
    await second.passes('after the move');
    const moved = await toldOf(causeway, [1, 2, 3], 'after the move');
    assert.deepEqual(moved, grown, 'clients are told the same ports');
    assertHidden(moved, destination);

    await destination.stopBroker(3);
    await toldOf(causeway, [1, 2], 'without the third');
    await second.passes('without the third');
    await causeway.stopProcess();
    await causeway.start();
    await second.passes('after a restart of the proxy');
    const restarted = await toldOf(causeway, [1, 2], 'after a restart of the proxy');
    for (const [id, port] of restarted) assert.equal(grown.get(id), port, `port of node ${id}`);
    await destination.restartBroker(3);
    assert.deepEqual(await toldOf(causeway, [1, 2, 3], 'when it is back'), grown);
    await third.passes('when it is back');
  } finally {
    await Promise.allSettled(lines.map((line) => line.close()));
    await causeway?.stop();
    await destination.stop();
  }
});

test('a broker for which no port was left took the destination from every client', {
  timeout: 600_000,
}, async () => {
  const destination = await startKafkaCluster({ brokers: 3, advertise: 'reachable', settings });
  const ports = await reservePorts(3, { isConsecutive: true });
  const brokerPorts = `${ports[0]}-${ports.at(-1)}`;
  const lines: Line[] = [];
  let causeway: CausewayProcess | undefined;
  try {
    await destination.stopBroker(3);
    causeway = await startCauseway({ destination, config: { gateway: { brokerPorts } } });
    const line = await Line.open(causeway.bootstrap, 2);
    lines.push(line);
    await destination.restartBroker(3);
    await until('the event', async () => (await logged(causeway)).includes('broker_ports_used_up'));
    await line.passes('beside a broker without a port');
    await toldOf(causeway, [1, 2], 'beside a broker without a port');
    await causeway.stopProcess();
    await causeway.start();
    await line.passes('after a restart beside a broker without a port');
  } finally {
    await Promise.allSettled(lines.map((line) => line.close()));
    await causeway?.stop();
    await destination.stop();
    await releasePorts(ports);
  }
});

// `npm run bench -- lag [--quick]`: how old a record is when a consumer has it: stamped by a
// producer at the source, read through the proxy and, by the same consumer at the same time,
// straight from the source's broker. At half of the load that producer, source and mirror together
// get through in this run. Owns the producer, and no figure but those that were measured.
import path from 'node:path';
import {
  createPartitionProduceData,
  createProduceRequest,
  createTopicProduceData,
} from '../protocol/generated/produce-request.ts';
import { produceApi } from '../src/cluster/apis.ts';
import type { Cluster } from '../src/cluster/cluster.ts';
import { startCauseway } from '../test/helpers/causeway-process.ts';
import { startKafkaCluster } from '../test/helpers/kafka-cluster.ts';
import { openCluster } from '../test/helpers/raw-batches.ts';
import { rootDirectory } from '../test/helpers/repository.ts';
import { createTopic } from '../test/helpers/topic-admin.ts';
import { Child } from './child.ts';
import { type BenchOptions, type BenchResult, row } from './report.ts';
import type { StampFigures } from './stamp-reader.ts';
import { machineMs, recordBytes, recordsPerBatch, stampedBatch } from './stamped-batch.ts';

const topicName = 'lag';
const partitions = 6;
/** Java's default of `max.in.flight.requests.per.connection`. */
const inFlightMax = 5;
const requestBytes = partitions * recordsPerBatch * recordBytes;

interface Size {
  readonly warmUpRequests: number;
  readonly fullRequests: number;
  readonly halfSeconds: number;
}

const full: Size = { warmUpRequests: 1000, fullRequests: 5000, halfSeconds: 30 };
const quick: Size = { warmUpRequests: 300, fullRequests: 1000, halfSeconds: 10 };

interface Load {
  readonly requests: number;
  /** From one request to the next; 0: as fast as the broker answers. */
  readonly periodMs: number;
}

/** Sends one batch for each partition per request, and stamps it with when that was due. */
class Producer {
  readonly #cluster: Cluster;
  readonly #underWay = new Set<Promise<void>>();

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
  }

  /** Resolves with when it began, on the clock of `machineMs`. */
  async run({ requests, periodMs }: Load): Promise<number> {
    const begunMs = machineMs();
    for (let index = 0; index < requests; index++) {
      const dueMs = begunMs + index * periodMs;
      const earlyMs = dueMs - machineMs();
      // A timer that comes late is no wait of a record; a broker that does not answer is one.
      if (earlyMs > 0) await new Promise((resolve) => setTimeout(resolve, earlyMs));
      const stampMs = earlyMs > 0 || periodMs === 0 ? machineMs() : dueMs;
      while (this.#underWay.size >= inFlightMax) await Promise.race(this.#underWay);
      const sent = this.#send(stampMs).finally(() => this.#underWay.delete(sent));
      this.#underWay.add(sent);
    }
    await Promise.all(this.#underWay);
    return begunMs;
  }

  async #send(stampMs: number): Promise<void> {
    const records = stampedBatch(stampMs);
    const partitionData = Array.from({ length: partitions }, (_, index) =>
      createPartitionProduceData({ index, records }),
    );
    const request = createProduceRequest({
      acks: -1,
      timeoutMs: 30_000,
      topicData: [createTopicProduceData({ name: topicName, partitionData })],
    });
    const answer = await this.#cluster.send({ kind: 'node', nodeId: 1 }, produceApi, request);
    for (const { errorCode } of answer.responses[0]?.partitionResponses ?? []) {
      if (errorCode !== 0) throw new Error(`the source answers Produce with error ${errorCode}`);
    }
  }
}

async function openReader(bootstrap: string): Promise<Child> {
  const program = path.join(rootDirectory, 'dist/bench/stamp-reader.js');
  const reader = new Child([program, bootstrap, topicName, String(partitions)]);
  await reader.line();
  return reader;
}

/** The figures of each reader, and how long it took until the last one had everything. */
async function measure(
  producer: Producer,
  readers: readonly Child[],
  load: Load,
): Promise<{ figures: readonly StampFigures[]; seconds: number }> {
  for (const reader of readers) reader.send(String(load.requests * partitions));
  const [begunMs, ...lines] = await Promise.all([
    producer.run(load),
    ...readers.map((reader) => reader.line()),
  ]);
  const figures = lines.map((line) => JSON.parse(line) as StampFigures);
  const endedMs = Math.max(...figures.map(({ lastAtMs }) => lastAtMs));
  return { figures, seconds: (endedMs - begunMs) / 1000 };
}

export async function benchLag(options: BenchOptions): Promise<BenchResult> {
  const size = options.quick ? quick : full;
  const [source, destination] = await Promise.all([
    startKafkaCluster({ name: 'source', advertise: 'reachable', heapMb: 512 }),
    startKafkaCluster({ name: 'destination', heapMb: 512 }),
  ]);
  const causeway = await startCauseway({ destination });
  const client = openCluster(source);
  const readers: Child[] = [];
  try {
    await createTopic(client, topicName, { partitions });
    await causeway.cli('link', 'create', 'lag', '--source', source.bootstrap);
    await causeway.cli('mirror', 'create', topicName, '--link', 'lag');
    for (const { bootstrap } of [source, causeway]) readers.push(await openReader(bootstrap));
    const producer = new Producer(client);
    await measure(producer, readers, { requests: size.warmUpRequests, periodMs: 0 });
    const { seconds } = await measure(producer, readers, {
      requests: size.fullRequests,
      periodMs: 0,
    });
    const megabytesPerSecond = (size.fullRequests * requestBytes) / seconds / 1e6;
    const periodMs = (2 * seconds * 1000) / size.fullRequests;
    const requests = Math.ceil((size.halfSeconds * 1000) / periodMs);
    const { figures } = await measure(producer, readers, { requests, periodMs });
    const [direct, mirrored] = figures;
    if (direct === undefined || mirrored === undefined) throw new Error('a reader said nothing');
    const [p50, p99] = [direct.p50Ms, direct.p99Ms];
    return {
      bench: 'lag',
      rows: [
        row('full load, until read through the proxy', megabytesPerSecond, 'MB/s'),
        row('load while measured', requestBytes / 1000 / periodMs, 'MB/s'),
        row('consumer at the source, p50', p50, 'ms'),
        row('consumer at the source, p99', p99, 'ms'),
        row('consumer of the mirror, p50', mirrored.p50Ms, 'ms', { baseline: p50 }),
        row('consumer of the mirror, p99', mirrored.p99Ms, 'ms', { baseline: p99 }),
      ],
    };
  } finally {
    for (const reader of readers) await reader.stop();
    await client.close();
    await causeway.stop();
    await Promise.all([source.stop(), destination.stop()]);
  }
}

// A consumer that notes how old records are when it has them: `node stamp-reader.js BOOTSTRAP TOPIC
// PARTITIONS` reads from the start, prints `ready`, and for each line `N` on its input the figures
// of the next N batches. Owns its place in each partition; refuses to know whether it reads a
// broker or a proxy. Invariant: each batch counts once, in the order of its partition.
import { createInterface } from 'node:readline';
import {
  createFetchPartition,
  createFetchRequest,
  createFetchTopic,
} from '../protocol/generated/fetch-request.ts';
import { forEachBatch, nextOffset, zeroUuid } from '../protocol/index.ts';
import { fetchApi } from '../src/cluster/apis.ts';
import type { TopicInfo } from '../src/cluster/cluster.ts';
import { openCluster } from '../test/helpers/raw-batches.ts';
import { until } from '../test/helpers/wait.ts';
import { percentile } from './report.ts';
import { machineMs, stampOf } from './stamped-batch.ts';

/** What one line says. */
export interface StampFigures {
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** When the last batch was there, on the clock of `machineMs`. */
  readonly lastAtMs: number;
}

const [bootstrap = '', topicName = '', partitionsCount = '1'] = process.argv.slice(2);
const cluster = openCluster({ bootstrap });
const offsets = Array.from({ length: Number(partitionsCount) }, () => 0n);
const agesMs: number[] = [];
let wanted = 0;

async function withLeaders(): Promise<TopicInfo> {
  const topic = (await cluster.metadata([topicName])).topics.get(topicName);
  const led = topic?.partitions.filter(({ leaderId }) => leaderId >= 0) ?? [];
  if (topic === undefined || led.length < offsets.length) throw new Error('no leaders yet');
  return topic;
}

function take(partition: number, records: Buffer, nowMs: number): void {
  forEachBatch(records, (header, position) => {
    if (nextOffset(header) <= (offsets[partition] ?? 0n)) return;
    offsets[partition] = nextOffset(header);
    agesMs.push(nowMs - stampOf(records, position));
  });
}

function report(lastAtMs: number): void {
  if (wanted === 0 || agesMs.length < wanted) return;
  const ages = agesMs.splice(0, wanted);
  wanted = 0;
  const figures = { p50Ms: percentile(ages, 0.5), p99Ms: percentile(ages, 0.99), lastAtMs };
  process.stdout.write(`${JSON.stringify(figures satisfies StampFigures)}\n`);
}

async function readOn({ name, topicId, partitions }: TopicInfo): Promise<void> {
  const nodeId = partitions[0]?.leaderId ?? -1;
  for (;;) {
    const asked = offsets.map((fetchOffset, partition) =>
      createFetchPartition({ partition, fetchOffset, partitionMaxBytes: 1 << 20 }),
    );
    const request = createFetchRequest({
      maxWaitMs: 500,
      minBytes: 1,
      maxBytes: 50 << 20,
      sessionEpoch: -1,
      topics: [createFetchTopic({ topic: name, topicId, partitions: asked })],
    });
    const limit = topicId === zeroUuid ? { versionMax: 12 } : {};
    const answer = await cluster.send({ kind: 'node', nodeId }, fetchApi, request, limit);
    const nowMs = machineMs();
    for (const { partitionIndex, errorCode, records } of answer.responses[0]?.partitions ?? []) {
      if (errorCode !== 0) throw new Error(`partition ${partitionIndex}: error ${errorCode}`);
      if (records !== null) take(partitionIndex, records, nowMs);
    }
    report(nowMs);
  }
}

const topic = await until(`leaders of ${topicName}`, withLeaders, { deadlineMs: 60_000 });
createInterface(process.stdin).on('line', (line) => {
  wanted = Number(line);
});
process.stdout.write('ready\n');
await readOn(topic);

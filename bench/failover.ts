// `npm run bench -- failover`: one call that fails over many mirrored topics of one
// partition each, in a proxy process of its own, after its source was killed; and when a client
// that asks for metadata all the while is told the new leaders. Owns no figure but those it
// measured. The baseline is what the destination itself needs to create as many topics.
import {
  createCreatableTopic,
  createCreateTopicsRequest,
} from '../protocol/generated/create-topics-request.ts';
import { createTopicsApi } from '../src/cluster/apis.ts';
import type { Cluster } from '../src/cluster/cluster.ts';
import { startStage } from '../test/helpers/linked-stage.ts';
import { post } from '../test/helpers/mirror-commands.ts';
import { write } from '../test/helpers/raw-writes.ts';
import { until } from '../test/helpers/wait.ts';
import { type BenchResult, row } from './report.ts';

const topicsCount = 1_000;
const createdAtOnce = 100;
const mirrorsAtOnce = 8;
const waitMs = 600_000;

interface Answer {
  readonly rows: readonly { readonly state: string | null; readonly error: unknown }[];
  readonly receipt: { readonly id: string } | null;
}

async function createTopics(cluster: Cluster, names: readonly string[]): Promise<void> {
  for (let index = 0; index < names.length; index += createdAtOnce) {
    const topics = names
      .slice(index, index + createdAtOnce)
      .map((name) => createCreatableTopic({ name, numPartitions: 1, replicationFactor: 1 }));
    const request = createCreateTopicsRequest({ topics, timeoutMs: 60_000 });
    const answer = await cluster.send({ kind: 'controller' }, createTopicsApi, request, {
      timeoutMs: 65_000,
    });
    const failed = answer.topics.find(({ errorCode }) => errorCode !== 0);
    if (failed) throw new Error(`${failed.name}: ${failed.errorCode} ${failed.errorMessage}`);
  }
}

async function inParallel<Item>(
  items: readonly Item[],
  limit: number,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const rest = items[Symbol.iterator]();
  const worker = async (): Promise<void> => {
    for (const item of rest) await work(item);
  };
  await Promise.all(Array.from({ length: limit }, worker));
}

/** Milliseconds until metadata of all topics names no leader but the destination's own. */
async function seenByClient(cluster: Cluster, names: readonly string[]): Promise<number> {
  const begun = performance.now();
  await until(
    'the new leaders',
    async () => {
      const { topics } = await cluster.metadata(names);
      return names.every((name) => topics.get(name)?.partitions[0]?.leaderId === 1);
    },
    { deadlineMs: waitMs, intervalMs: 20 },
  );
  return performance.now() - begun;
}

export async function benchFailover(): Promise<BenchResult> {
  const stage = await startStage({ linkConfigs: { 'promote.quiet.ms': '0' } });
  try {
    const { atSource, atDestination, atProxy, causeway } = stage;
    const names = Array.from({ length: topicsCount }, (_, index) => `bench-${index}`);
    await createTopics(atSource, names);
    await inParallel(names, mirrorsAtOnce, async (name) => {
      await until('a leader', () => write(atSource, name, 0, ['x']).then(() => true));
      await stage.mirror(name);
    });
    await until(
      'all records here',
      async () => {
        type Row = { readonly partitions: readonly { readonly mirrorEnd: number }[] };
        const { mirrors } = await causeway.get<{ mirrors: readonly Row[] }>('/causeway/v1/mirrors');
        return mirrors.every(({ partitions }) => Number(partitions[0]?.mirrorEnd) >= 1);
      },
      { deadlineMs: waitMs, intervalMs: 500 },
    );
    await stage.source.kill9();
    const all = { link: 'dr', all: true };
    const dryBegun = performance.now();
    await post<Answer>(causeway, '/causeway/v1/mirrors:failover?validateOnly=true', all);
    const dryMs = performance.now() - dryBegun;
    const begun = performance.now();
    const client = seenByClient(atProxy, names);
    const answer = await post<Answer>(causeway, '/causeway/v1/mirrors:failover', all);
    const commandMs = performance.now() - begun;
    const clientMs = await client;
    const done = answer.rows.filter(({ state }) => state === 'STOPPED').length;
    if (done !== topicsCount) throw new Error(`${done} of ${topicsCount} topics were failed over`);
    const plainBegun = performance.now();
    await createTopics(
      atDestination,
      names.map((name) => `plain-${name}`),
    );
    const plainMs = performance.now() - plainBegun;
    return {
      bench: 'failover',
      rows: [
        row('topics in one call', topicsCount, 'topics'),
        row('dry run', dryMs, 'ms'),
        row('destination creates as many topics', plainMs, 'ms'),
        row('failover, until it is answered', commandMs, 'ms', { baseline: plainMs }),
        row('failover, until a client sees all leaders', clientMs, 'ms', { baseline: plainMs }),
      ],
    };
  } finally {
    await stage.stop();
  }
}

// Clusters that mirror each other, each behind a Causeway of its own: A, B and C. Topics come back
// to no cluster that they came through, by hand or by filters that match everything, however long
// the way is; several sources feed one destination, and two clusters feed each other, by prefixes.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { type CausewayProcess, startCauseway } from '../helpers/causeway-process.ts';
import { type KafkaCluster, startKafkaCluster } from '../helpers/kafka-cluster.ts';
import { compareTopic } from '../helpers/linked-stage.ts';
import { post, waitForState } from '../helpers/mirror-commands.ts';
import { openCluster } from '../helpers/raw-batches.ts';
import { values, write } from '../helpers/raw-writes.ts';
import { createTopic } from '../helpers/topic-admin.ts';
import { uniqueName, until } from '../helpers/wait.ts';

interface Site {
  readonly kafka: KafkaCluster;
  readonly causeway: CausewayProcess;
  /** Through the proxy. */
  readonly client: Cluster;
}

const sites: Site[] = [];

async function startSite(name: string): Promise<Site> {
  const kafka = await startKafkaCluster({ name });
  const causeway = await startCauseway({ destination: kafka, name });
  const site = { kafka, causeway, client: openCluster({ bootstrap: causeway.bootstrap }) };
  sites.push(site);
  return site;
}

let a: Site;
let b: Site;
let c: Site;

before(async () => {
  for (const name of ['a', 'b', 'c']) await startSite(name);
  [a, b, c] = sites as [Site, Site, Site];
});

after(async () => {
  for (const { client, causeway, kafka } of sites) {
    await client.close();
    await causeway.stop();
    await kafka.stop();
  }
});

async function link(from: Site, to: Site, configs: Record<string, string> = {}): Promise<string> {
  const name = uniqueName('link');
  const settings = Object.entries(configs).flatMap(([key, value]) => [
    '--config',
    `${key}=${value}`,
  ]);
  await to.causeway.cli('link', 'create', name, '--source', from.causeway.bootstrap, ...settings);
  return name;
}

async function mirror(site: Site, name: string, source: string, topic = source): Promise<void> {
  const base = `/kafka/v3/clusters/${site.kafka.clusterId}/links/${name}/mirrors`;
  await post(site.causeway, base, { source_topic_name: source, mirror_topic_name: topic });
  await waitForState(site.causeway, topic, 'ACTIVE');
}

const everything = JSON.stringify({
  topicFilters: [{ name: '*', patternType: 'LITERAL', filterType: 'INCLUDE' }],
});

async function mirrorsOf({ causeway }: Site): Promise<string[]> {
  const { mirrors } = await causeway.get<{ mirrors: { name: string }[] }>('/causeway/v1/mirrors');
  return mirrors.map(({ name }) => name).sort();
}

/** Resolves when the task has looked at all topics, twice. */
async function roundsOf(site: Site, name: string): Promise<void> {
  for (let count = 0; count < 2; count++) {
    const last = async (): Promise<number> => {
      const path = `/causeway/v1/links/${name}`;
      const { tasks } = await site.causeway.get<{
        tasks: readonly { name: string; lastSuccessTimeMs: number }[];
      }>(path);
      return tasks.find((task) => task.name === 'AutoCreateMirror')?.lastSuccessTimeMs ?? -1;
    };
    const before = await last();
    await until('a round', async () => (await last()) > before);
  }
}

test('R16: A to B to A, and A to B to C to A, are refused by hand', async () => {
  await createTopic(a.client, 'round');
  await write(a.client, 'round', 0, values('round', 5));
  const [toB, toC, backFromB, backFromC] = [
    await link(a, b),
    await link(b, c),
    await link(b, a, { 'cluster.link.prefix': 'from-b.' }),
    await link(c, a, { 'cluster.link.prefix': 'from-c.' }),
  ];
  await mirror(b, toB, 'round');
  await mirror(c, toC, 'round');
  await until('all of it at C', async () => {
    const { difference, batches } = await compareTopic(a.client, c.client, 'round');
    return difference === null && batches > 0;
  });
  for (const name of [backFromB, backFromC]) {
    const args = ['mirror', 'create', 'round', '--link', name];
    const { code, stderr } = await a.causeway.cliResult(...args);
    assert.equal(code, 1);
    assert.match(stderr, /came from here: .* is a loop/);
  }
  assert.deepEqual(await mirrorsOf(a), []);
});

test('R16: two clusters that mirror everything of each other make no towers', async () => {
  await createTopic(a.client, 'ours');
  await write(a.client, 'ours', 0, values('of a', 3));
  await createTopic(b.client, 'theirs');
  await write(b.client, 'theirs', 0, values('of b', 3));
  const all = {
    'auto.create.mirror.topics.enable': 'true',
    'auto.create.mirror.topics.filters': everything,
  };
  const toB = await link(a, b, { ...all, 'cluster.link.prefix': 'a.' });
  const toA = await link(b, a, { ...all, 'cluster.link.prefix': 'b.' });
  await waitForState(b.causeway, 'a.ours', 'ACTIVE');
  await waitForState(a.causeway, 'b.theirs', 'ACTIVE');
  for (const [site, name] of [
    [b, toB],
    [a, toA],
  ] as const) {
    await roundsOf(site, name);
  }
  // Every topic of the other side, but what came from here.
  assert.deepEqual(await mirrorsOf(a), ['b.theirs']);
  assert.deepEqual(await mirrorsOf(b), ['a.ours', 'a.round', 'round']);
});

test('R1: a hub feeds two clusters, and one cluster is fed by two', async () => {
  await createTopic(a.client, 'hub');
  await write(a.client, 'hub', 0, values('hub', 4));
  await createTopic(b.client, 'spoke');
  await write(b.client, 'spoke', 0, values('spoke', 4));
  await mirror(b, await link(a, b, { 'cluster.link.prefix': 'h.' }), 'hub', 'h.hub');
  await mirror(c, await link(a, c, { 'cluster.link.prefix': 'a.' }), 'hub', 'a.hub');
  await mirror(c, await link(b, c, { 'cluster.link.prefix': 'b.' }), 'spoke', 'b.spoke');
  const end = async (site: Site, topic: string): Promise<number> => {
    const path = `/causeway/v1/mirrors/${topic}`;
    const view = await site.causeway.get<{ partitions: { mirrorEnd: number | string }[] }>(path);
    return Number(view.partitions[0]?.mirrorEnd);
  };
  for (const [site, topic] of [
    [b, 'h.hub'],
    [c, 'a.hub'],
    [c, 'b.spoke'],
  ] as const) {
    await until(`all of ${topic}`, async () => (await end(site, topic)) === 4);
  }
});

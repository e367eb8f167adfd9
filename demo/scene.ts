// The stage of the demo: a source and a destination cluster (one real broker each), the proxy in
// front of the destination, a link, and a bootstrap name that first leads to the source. Owns all
// it starts, and stops it.

import { type CausewayProcess, startCauseway } from '../test/helpers/causeway-process.ts';
import { type KafkaCluster, startKafkaCluster } from '../test/helpers/kafka-cluster.ts';
import { kafkaJars } from '../test/helpers/kafka-jars.ts';
import { openCluster } from '../test/helpers/raw-batches.ts';
import { Relay } from '../test/helpers/relay.ts';
import { javaPrograms } from '../test/helpers/toolchains.ts';
import { createTopic } from '../test/helpers/topic-admin.ts';
import { until } from '../test/helpers/wait.ts';

export const topic = 'orders';
export const partitionsCount = 6;
export const link = 'dr';

export interface Scene {
  readonly source: KafkaCluster;
  readonly destination: KafkaCluster;
  readonly causeway: CausewayProcess;
  /** The name that clients of the source have in their `bootstrap.servers`. */
  readonly bootstrapName: Relay;
  /** A client that ends with the scene at the latest; a dead cluster must not hold it up. */
  own<Client extends { kill(): Promise<void> }>(client: Client): Client;
  stop(): Promise<void>;
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

async function createOrders(source: KafkaCluster): Promise<void> {
  const client = openCluster(source);
  try {
    await createTopic(client, topic, { partitions: partitionsCount });
  } finally {
    await client.close();
  }
}

interface MirrorList {
  readonly data: readonly { readonly mirror_status: string }[];
}

/** Waits until the mirror of the demo is ACTIVE. */
async function waitUntilActive(causeway: CausewayProcess): Promise<void> {
  await until('an ACTIVE mirror', async () => {
    const list = await causeway.get<MirrorList>(`${await base(causeway)}/links/${link}/mirrors`);
    return list.data.every((mirror) => mirror.mirror_status === 'ACTIVE') && list.data.length > 0;
  });
}

async function base(causeway: CausewayProcess): Promise<string> {
  const clusters = await causeway.get<{ data: { cluster_id: string }[] }>('/kafka/v3/clusters');
  return `/kafka/v3/clusters/${clusters.data[0]?.cluster_id}`;
}

export async function setScene(): Promise<Scene> {
  await kafkaJars();
  await javaPrograms();
  const begun = performance.now();
  const elapsed = (): string => `${((performance.now() - begun) / 1000).toFixed(1)} s`;
  say('Starting a source and a destination cluster (Kafka 4.4.0, one broker each) ...');
  const settings = { 'broker.session.timeout.ms': '9000' };
  const started = await Promise.allSettled([
    startKafkaCluster({ name: 'source', advertise: 'reachable', settings }),
    startKafkaCluster({ name: 'destination', settings }),
  ]);
  const clusters = started.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  const stops: (() => Promise<void>)[] = clusters.map((cluster) => () => cluster.stop());
  const stop = async (): Promise<void> => {
    for (const one of stops.splice(0).reverse()) await one();
  };
  try {
    const [source, destination] = clusters;
    for (const one of started) if (one.status === 'rejected') throw one.reason;
    if (!source || !destination) throw new Error('two clusters are needed');
    await createOrders(source);
    say(`  both answer (${elapsed()}). Starting the proxy in front of the destination ...`);
    const causeway = await startCauseway({ destination });
    stops.push(() => causeway.stop());
    const bootstrapName = await Relay.start({ target: source.bootstrap });
    stops.push(() => bootstrapName.stop());
    say(`  ready (${elapsed()}). Linking the source and mirroring '${topic}' ...`);
    const sync = ['--config', 'consumer.offset.sync.enable=true'];
    await causeway.cli('link', 'create', link, '--source', source.bootstrap, ...sync);
    await causeway.cli('mirror', 'create', topic, '--link', link);
    await waitUntilActive(causeway);
    say(`  mirroring (${elapsed()}).`);
    const own = <Client extends { kill(): Promise<void> }>(client: Client): Client => {
      stops.push(() => client.kill());
      return client;
    };
    return { source, destination, causeway, bootstrapName, own, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

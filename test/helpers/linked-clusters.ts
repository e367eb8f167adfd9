// A source, a destination and the proxy between them, for tests of mirrors with real clients.
//
// Owns: starting all three at once, the link, mirrors that have caught up, and the end of
// everything. Knows the product by its command line and admin API only.
// Invariant: `stop` ends whatever was started, also when the start failed half-way.

import { type CausewayProcess, startCauseway } from './causeway-process.ts';
import { type KafkaCluster, type KafkaClusterOptions, startKafkaCluster } from './kafka-cluster.ts';
import { listOffset, openCluster } from './raw-batches.ts';
import { RecordingRelay } from './recording-relay.ts';
import { until } from './wait.ts';

export const linkName = 'dr';

export interface LinkedClusters {
  readonly source: KafkaCluster;
  readonly destination: KafkaCluster;
  readonly causeway: CausewayProcess;
  /** Between the link and the source; all that the link ever saw went through it. */
  readonly relay: RecordingRelay;
  stop(): Promise<void>;
}

export interface MirrorPartition {
  readonly partition: number;
  readonly logStart: number;
  readonly mirrorEnd: number;
  readonly sourceEnd: number;
}

export interface MirrorDescription {
  readonly name: string;
  readonly topicId: string;
  readonly state: string;
  readonly phase: string | null;
  readonly partitions: readonly MirrorPartition[];
  readonly blocking: readonly { readonly code: string; readonly message: string }[];
}

async function createLink(causeway: CausewayProcess, source: KafkaCluster, relay: RecordingRelay) {
  const map = source.brokers.map(({ advertised }) => `${advertised}=${relay.address}`).join(',');
  const configs = [
    '--config',
    `address.map=${map}`,
    '--config',
    'consumer.offset.sync.enable=true',
  ];
  await causeway.cli('link', 'create', linkName, '--source', relay.address, ...configs);
}

/**
 * One broker on each side (the destination may have more), the proxy, and the link `dr` through a
 * recording relay.
 */
export async function startLinkedClusters(
  options: { source?: KafkaClusterOptions; destination?: KafkaClusterOptions } = {},
): Promise<LinkedClusters> {
  const stops: (() => Promise<void>)[] = [];
  const stop = async (): Promise<void> => {
    for (const one of stops.splice(0).reverse()) await one();
  };
  const started = await Promise.allSettled([
    startKafkaCluster({ name: 'source', ...options.source }),
    startKafkaCluster({ name: 'destination', ...options.destination }),
  ]);
  for (const one of started) {
    if (one.status === 'fulfilled') stops.push(() => one.value.stop());
  }
  try {
    const clusters = started.map((one) => {
      if (one.status === 'rejected') throw one.reason;
      return one.value;
    });
    const [source, destination] = clusters;
    const broker = source?.brokers[0];
    if (!source || !destination || !broker) throw new Error('two clusters are needed');
    const relay = await RecordingRelay.start(broker);
    stops.push(() => relay.stop());
    const causeway = await startCauseway({ destination });
    stops.push(() => causeway.stop());
    await createLink(causeway, source, relay);
    return { source, destination, causeway, relay, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

export function describeMirror(
  causeway: CausewayProcess,
  topic: string,
): Promise<MirrorDescription> {
  return causeway.get(`/causeway/v1/mirrors/${encodeURIComponent(topic)}`);
}

/** Makes mirrors of topics under their own names; they exist when this resolves. */
export async function createMirrors(causeway: CausewayProcess, topics: readonly string[]) {
  for (const topic of topics) await causeway.cli('mirror', 'create', topic, '--link', linkName);
}

/** The ends of partitions as an endpoint tells them to any client. */
export async function partitionEnds(
  endpoint: { bootstrap: string; addressMap?: Record<string, string> },
  topic: string,
  partitions: number,
): Promise<number[]> {
  const client = openCluster(endpoint);
  try {
    const ends: number[] = [];
    for (let partition = 0; partition < partitions; partition++) {
      ends.push(Number(await listOffset(client, topic, partition, -1n)));
    }
    return ends;
  } finally {
    await client.close();
  }
}

/**
 * Waits until a mirror is ACTIVE and ends, durably, where the source ends now. Returns these ends.
 */
export async function waitUntilMirrored(
  { source, causeway }: LinkedClusters,
  topic: string,
  partitions: number,
): Promise<number[]> {
  const ends = await partitionEnds(source, topic, partitions);
  let seen = '';
  await until(
    `the mirror of ${topic} at the source's end`,
    async () => {
      const mirror = await describeMirror(causeway, topic);
      const reached = mirror.partitions.map((one) => Number(one.mirrorEnd));
      seen = `${mirror.state}, ends ${reached.join(', ')}, wanted ${ends.join(', ')}`;
      return mirror.state === 'ACTIVE' && reached.join() === ends.join();
    },
    { describe: () => seen },
  );
  return ends;
}

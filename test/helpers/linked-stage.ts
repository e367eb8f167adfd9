// The stage of tests of the whole path: a source, a destination whose advertised addresses lead
// nowhere, the proxy in front of it as a process, and a link. All as an operator would have them;
// on request the link reaches the source through a relay that records every byte.
//
// Owns: starting and stopping all of it, clients of ours for each side, and waiting for mirrors.
// Knows nothing of what a test does with them, and the product from outside only.
// Invariant: `stop` ends everything that was started here, also after a start that failed half-way.

import type { Cluster } from '../../src/cluster/cluster.ts';
import {
  type CausewayOptions,
  type CausewayProcess,
  prepareCauseway,
  startCauseway,
} from './causeway-process.ts';
import { type ClusterPairOptions, startClusterPair } from './cluster-pair.ts';
import type { KafkaCluster } from './kafka-cluster.ts';
import { post, waitForMirrorEnds, waitForState } from './mirror-commands.ts';
import { mirrorNewTopic, type Records } from './mirrored-topic.ts';
import { firstDifference, listOffset, openCluster, readBatches } from './raw-batches.ts';
import { type RecordingRelay, startRecordingRelay } from './recording-relay.ts';
import type { NewTopic } from './topic-admin.ts';
import { until } from './wait.ts';

export interface StageOptions extends ClusterPairOptions {
  readonly linkConfigs?: Readonly<Record<string, string>>;
  readonly causeway?: Omit<CausewayOptions, 'destination'>;
  /** Puts a recording relay between the link and its source, which then has one broker. */
  readonly isRecorded?: boolean;
}

interface StageParts {
  readonly source: KafkaCluster;
  readonly destination: KafkaCluster;
  readonly causeway: CausewayProcess;
  readonly relay: RecordingRelay | null;
}

export const linkName = 'dr';

export class LinkedStage {
  readonly source: KafkaCluster;
  readonly destination: KafkaCluster;
  readonly causeway: CausewayProcess;
  /** Clients of ours: at the source, at the destination beside the proxy, through the proxy. */
  readonly atSource: Cluster;
  readonly atDestination: Cluster;
  readonly atProxy: Cluster;
  readonly #relay: RecordingRelay | null;
  readonly #others: CausewayProcess[] = [];

  constructor({ source, destination, causeway, relay }: StageParts) {
    this.source = source;
    this.destination = destination;
    this.causeway = causeway;
    this.#relay = relay;
    this.atSource = openCluster(source);
    this.atDestination = openCluster(destination);
    this.atProxy = openCluster({ bootstrap: causeway.bootstrap });
  }

  /** Between the link and the source; all that the link ever saw went through it. */
  get relay(): RecordingRelay {
    if (this.#relay === null) throw new Error('this stage was started without a relay');
    return this.#relay;
  }

  /** The real addresses and names of the destination's brokers: no client may ever see one. */
  get hiddenAddresses(): { readonly hosts: readonly string[]; readonly ports: readonly number[] } {
    const { brokers } = this.destination;
    return {
      hosts: brokers.map(({ advertised }) => advertised.split(':')[0] ?? advertised),
      ports: brokers.flatMap(({ port, internalPort }) => [port, internalPort]),
    };
  }

  /** Another instance in front of the same destination, not yet started; stopped with the rest. */
  async prepareAnother(options: Omit<CausewayOptions, 'destination'>): Promise<CausewayProcess> {
    const other = await prepareCauseway({ destination: this.destination, ...options });
    this.#others.push(other);
    return other;
  }

  async createLink(configs: Readonly<Record<string, string>> = {}): Promise<void> {
    const address = this.#relay?.relay.address ?? null;
    const map = this.source.brokers.map(({ advertised }) => `${advertised}=${address}`).join(',');
    const all = address === null ? configs : { 'address.map': map, ...configs };
    const settings = Object.entries(all).flatMap(([name, value]) => [
      '--config',
      `${name}=${value}`,
    ]);
    const from = ['--source', address ?? this.source.bootstrap];
    await this.causeway.cli('link', 'create', linkName, ...from, ...settings);
  }

  /** Creates the mirror of a topic over REST v3 and waits until it is ACTIVE. */
  async mirror(topic: string, causeway: CausewayProcess = this.causeway): Promise<void> {
    const base = `/kafka/v3/clusters/${this.destination.clusterId}/links/${linkName}/mirrors`;
    await post(causeway, base, { source_topic_name: topic });
    await waitForState(causeway, topic, 'ACTIVE');
  }

  /** Waits until every partition shows, through the proxy, the end that the source has. */
  async caughtUp(topic: string, through: Cluster = this.atProxy): Promise<bigint[]> {
    const ends = await offsets(this.atSource, topic, -1n);
    let seen: bigint[] = [];
    await until(
      `the mirror of ${topic} complete`,
      async () => {
        seen = await offsets(through, topic, -1n);
        return seen.every((end, index) => end >= (ends[index] ?? 0n));
      },
      { describe: () => `ends ${seen.join()} of ${ends.join()}` },
    );
    return ends;
  }

  /**
   * Waits until the mirror is ACTIVE and ends, durably, where the source ends now: its log on disk
   * can be read. Returns these ends.
   */
  async mirrored(topic: string): Promise<number[]> {
    const ends = (await offsets(this.atSource, topic, -1n)).map(Number);
    await waitForMirrorEnds(this.causeway, topic, ends);
    return ends;
  }

  /** A new topic of the source, and its mirror, complete on disk and for clients of the proxy. */
  mirrorNewTopic(topic: string, records: Records, options: NewTopic = {}): Promise<bigint[]> {
    const mirror = async (): Promise<bigint[]> => {
      await this.mirror(topic);
      await this.mirrored(topic);
      return this.caughtUp(topic);
    };
    return mirrorNewTopic({ source: this.atSource, topic, records, options, mirror });
  }

  /** The ends of all partitions as the proxy tells them to any client. */
  async ends(topic: string): Promise<number[]> {
    return (await offsets(this.atProxy, topic, -1n)).map(Number);
  }

  async stop(): Promise<void> {
    const clients = [this.atSource, this.atDestination, this.atProxy];
    await Promise.all(clients.map((client) => client.close()));
    for (const other of this.#others) await other.stop();
    await this.causeway.stop();
    await this.#relay?.relay.stop();
    await Promise.all([this.source.stop(), this.destination.stop()]);
  }
}

/** One special offset of every partition: -2 earliest, -1 latest. */
export async function offsets(
  cluster: Cluster,
  topic: string,
  timestamp: bigint,
): Promise<bigint[]> {
  const info = (await cluster.metadata([topic])).topics.get(topic);
  const partitions = (info?.partitions ?? []).map(({ partition }) => partition);
  if (partitions.length === 0) throw new Error(`${topic} has no partitions`);
  partitions.sort((left, right) => left - right);
  const found: bigint[] = [];
  for (const partition of partitions) {
    found.push(await listOffset(cluster, topic, partition, timestamp));
  }
  return found;
}

export interface Comparison {
  readonly batches: number;
  /** Where the copies differ first, or null. */
  readonly difference: string | null;
}

/** Compares a whole topic batch by batch; `below` ends the comparison for each partition. */
export async function compareTopic(
  expected: Cluster,
  actual: Cluster,
  topic: string,
  below?: readonly (bigint | number)[],
): Promise<Comparison> {
  const info = (await expected.metadata([topic])).topics.get(topic);
  let batches = 0;
  for (const { partition } of info?.partitions ?? []) {
    const limit = below?.[partition];
    const isWanted = (offset: bigint): boolean => limit === undefined || offset < BigInt(limit);
    const [left = [], right = []] = await Promise.all(
      [expected, actual].map(async (cluster) =>
        (await readBatches(cluster, topic, partition)).filter((one) => isWanted(one.baseOffset)),
      ),
    );
    const difference = firstDifference(left, right);
    if (difference !== null) {
      return { batches, difference: `${topic}-${partition}, ${difference}` };
    }
    batches += left.length;
  }
  return { batches, difference: null };
}

async function startRelay(source: KafkaCluster): Promise<RecordingRelay> {
  const [broker, ...others] = source.brokers;
  if (!broker || others.length > 0) throw new Error('a relay leads to a source of one broker');
  return startRecordingRelay(broker);
}

/** The proxy and what is between it and the source; after a failure none of it is left. */
async function joinClusters(
  source: KafkaCluster,
  destination: KafkaCluster,
  options: StageOptions,
): Promise<LinkedStage> {
  const relay = options.isRecorded ? await startRelay(source) : null;
  try {
    const causeway = await startCauseway({ ...options.causeway, destination });
    return new LinkedStage({ source, destination, causeway, relay });
  } catch (error) {
    await relay?.relay.stop();
    throw error;
  }
}

export async function startStage(options: StageOptions = {}): Promise<LinkedStage> {
  const { source, destination } = await startClusterPair({
    source: { advertise: 'reachable', ...options.source },
    destination: options.destination ?? {},
  });
  try {
    const stage = await joinClusters(source, destination, options);
    try {
      await stage.createLink(options.linkConfigs);
      return stage;
    } catch (error) {
      await stage.stop();
      throw error;
    }
  } catch (error) {
    await Promise.all([source.stop(), destination.stop()]);
    throw error;
  }
}

// A source and a destination for one test file. Owns starting both at a time; refuses to know what
// is put between them. Invariant: when one does not start, the other is not left running.
import { type KafkaCluster, type KafkaClusterOptions, startKafkaCluster } from './kafka-cluster.ts';

export interface ClusterPairOptions {
  readonly source?: KafkaClusterOptions;
  readonly destination?: KafkaClusterOptions;
}

export interface ClusterPair {
  readonly source: KafkaCluster;
  readonly destination: KafkaCluster;
}

export async function startClusterPair(options: ClusterPairOptions): Promise<ClusterPair> {
  const [source, destination] = await Promise.allSettled([
    startKafkaCluster({ name: 'source', ...options.source }),
    startKafkaCluster({ name: 'destination', ...options.destination }),
  ]);
  if (source.status === 'fulfilled' && destination.status === 'fulfilled') {
    return { source: source.value, destination: destination.value };
  }
  const reasons: unknown[] = [];
  for (const one of [source, destination]) {
    if (one.status === 'fulfilled') await one.value.stop();
    else reasons.push(one.reason);
  }
  throw reasons[0];
}

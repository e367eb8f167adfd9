// What a broker answers to Metadata, of the values that are made of it. Owns nothing; the reverse
// of `clusterMetadata`.
import {
  createMetadataResponse,
  createMetadataResponseBroker,
  createMetadataResponsePartition,
  createMetadataResponseTopic,
  type MetadataResponse,
} from '../../../protocol/generated/metadata-response.ts';
import type { ClusterMetadata } from '../../../src/cluster/cluster.ts';

export function metadataAnswer(metadata: ClusterMetadata): MetadataResponse {
  const topics = [...metadata.topics.values()].map(({ partitions, ...topic }) =>
    createMetadataResponseTopic({
      ...topic,
      partitions: partitions.map(({ partition, replicaNodes, ...info }) =>
        createMetadataResponsePartition({
          ...info,
          partitionIndex: partition,
          replicaNodes: [...replicaNodes],
        }),
      ),
    }),
  );
  const brokers = metadata.brokers.map((broker) => createMetadataResponseBroker(broker));
  const { clusterId, controllerId } = metadata;
  return createMetadataResponse({ clusterId, controllerId, brokers, topics });
}

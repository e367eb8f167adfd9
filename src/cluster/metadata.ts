// Metadata answers as the values that the rest of the service uses. Pure.
// Invariant: what a broker left out (old versions) appears as Kafka's own "unknown": zero id, epoch
// -1.
import {
  createMetadataRequest,
  createMetadataRequestTopic,
  type MetadataRequest,
} from '../../protocol/generated/metadata-request.ts';
import type {
  MetadataResponse,
  MetadataResponseTopic,
} from '../../protocol/generated/metadata-response.ts';
import type { BrokerInfo, ClusterMetadata, TopicInfo } from './cluster.ts';

export function metadataRequest(topics: 'all' | readonly string[]): MetadataRequest {
  const request = createMetadataRequest({ allowAutoTopicCreation: false });
  request.topics =
    topics === 'all' ? null : topics.map((name) => createMetadataRequestTopic({ name }));
  return request;
}

export function brokersOf(response: MetadataResponse): BrokerInfo[] {
  return response.brokers.map(({ nodeId, host, port, rack }) => ({ nodeId, host, port, rack }));
}

function topicOf(name: string, topic: MetadataResponseTopic): TopicInfo {
  const partitions = topic.partitions.map((partition) => ({
    partition: partition.partitionIndex,
    leaderId: partition.leaderId,
    leaderEpoch: partition.leaderEpoch,
    replicaNodes: partition.replicaNodes,
    errorCode: partition.errorCode,
  }));
  return {
    name,
    topicId: topic.topicId,
    isInternal: topic.isInternal,
    errorCode: topic.errorCode,
    partitions: partitions.sort((left, right) => left.partition - right.partition),
  };
}

export function clusterMetadata(response: MetadataResponse): ClusterMetadata {
  const topics = new Map<string, TopicInfo>();
  for (const topic of response.topics) {
    if (topic.name !== null) topics.set(topic.name, topicOf(topic.name, topic));
  }
  return {
    clusterId: response.clusterId,
    controllerId: response.controllerId,
    brokers: brokersOf(response),
    topics,
  };
}

// Which handler belongs to which API. Owns what handlers share beyond the services: the topics that
// are our own, and the epochs that were advertised.
import { ApiKey } from '../../protocol/index.ts';
import { AdvertisedEpochs } from './advertised-epochs.ts';
import type { Handler, Inspect } from './handler.ts';
import { createAlterConfigsHandler } from './handlers/alter-configs.ts';
import { alterShareGroupOffsetsHandler } from './handlers/alter-share-group-offsets.ts';
import { consumerGroupHeartbeatHandler } from './handlers/consumer-group-heartbeat.ts';
import { createCreatePartitionsHandler } from './handlers/create-partitions.ts';
import { createCreateTopicsHandler } from './handlers/create-topics.ts';
import { createDeleteRecordsHandler } from './handlers/delete-records.ts';
import { createDeleteTopicsHandler } from './handlers/delete-topics.ts';
import { describeClusterHandler } from './handlers/describe-cluster.ts';
import { describeConfigsHandler } from './handlers/describe-configs.ts';
import { describeLogDirsHandler } from './handlers/describe-log-dirs.ts';
import { describeProducersHandler } from './handlers/describe-producers.ts';
import { describeQuorumHandler } from './handlers/describe-quorum.ts';
import { describeShareGroupOffsetsHandler } from './handlers/describe-share-group-offsets.ts';
import { createDescribeTopicPartitionsHandler } from './handlers/describe-topic-partitions.ts';
import { fetchHandler } from './handlers/fetch.ts';
import { findCoordinatorHandler } from './handlers/find-coordinator.ts';
import { joinGroupHandler, streamsGroupHeartbeatHandler } from './handlers/group-joins.ts';
import { createIncrementalAlterConfigsHandler } from './handlers/incremental-alter-configs.ts';
import { listGroupsHandler } from './handlers/list-groups.ts';
import { listOffsetsHandler } from './handlers/list-offsets.ts';
import { listTransactionsHandler } from './handlers/list-transactions.ts';
import { createMetadataHandler } from './handlers/metadata.ts';
import { createOffsetFetchHandler } from './handlers/offset-fetch.ts';
import { offsetForLeaderEpochHandler } from './handlers/offset-for-leader-epoch.ts';
import { createOwnTransactionHandlers } from './handlers/own-transactions.ts';
import { createProduceHandler, createProduceInspect } from './handlers/produce.ts';
import { saslHandshakeHandler } from './handlers/sasl-handshake.ts';
import { shareAcknowledgeHandler } from './handlers/share-acknowledge.ts';
import { shareFetchHandler } from './handlers/share-fetch.ts';
import { createWriteTxnMarkersHandler } from './handlers/write-txn-markers.ts';
import type { OwnTopics } from './own-topics.ts';

export function createHandlers(ownTopics: OwnTopics): ReadonlyMap<number, Handler> {
  const epochs = new AdvertisedEpochs();
  return new Map<number, Handler>([
    [ApiKey.Produce, createProduceHandler(ownTopics)],
    [ApiKey.Fetch, fetchHandler],
    [ApiKey.ListOffsets, listOffsetsHandler],
    [ApiKey.Metadata, createMetadataHandler({ epochs, ownTopics })],
    [ApiKey.OffsetFetch, createOffsetFetchHandler(epochs)],
    [ApiKey.FindCoordinator, findCoordinatorHandler],
    [ApiKey.JoinGroup, joinGroupHandler],
    [ApiKey.ListGroups, listGroupsHandler],
    [ApiKey.StreamsGroupHeartbeat, streamsGroupHeartbeatHandler],
    [ApiKey.CreateTopics, createCreateTopicsHandler(ownTopics)],
    [ApiKey.DeleteTopics, createDeleteTopicsHandler(ownTopics)],
    [ApiKey.DeleteRecords, createDeleteRecordsHandler(ownTopics)],
    ...createOwnTransactionHandlers(ownTopics),
    [ApiKey.WriteTxnMarkers, createWriteTxnMarkersHandler(ownTopics)],
    [ApiKey.SaslHandshake, saslHandshakeHandler],
    [ApiKey.OffsetForLeaderEpoch, offsetForLeaderEpochHandler],
    [ApiKey.DescribeConfigs, describeConfigsHandler],
    [ApiKey.AlterConfigs, createAlterConfigsHandler(ownTopics)],
    [ApiKey.DescribeLogDirs, describeLogDirsHandler],
    [ApiKey.CreatePartitions, createCreatePartitionsHandler(ownTopics)],
    [ApiKey.IncrementalAlterConfigs, createIncrementalAlterConfigsHandler(ownTopics)],
    [ApiKey.DescribeCluster, describeClusterHandler],
    [ApiKey.DescribeProducers, describeProducersHandler],
    [ApiKey.DescribeQuorum, describeQuorumHandler],
    [ApiKey.ListTransactions, listTransactionsHandler],
    [ApiKey.ConsumerGroupHeartbeat, consumerGroupHeartbeatHandler],
    [ApiKey.DescribeTopicPartitions, createDescribeTopicPartitionsHandler({ epochs, ownTopics })],
    [ApiKey.ShareFetch, shareFetchHandler],
    [ApiKey.ShareAcknowledge, shareAcknowledgeHandler],
    [ApiKey.DescribeShareGroupOffsets, describeShareGroupOffsetsHandler],
    [ApiKey.AlterShareGroupOffsets, alterShareGroupOffsetsHandler],
  ]);
}

/** For APIs whose requests may be large: told while they come in whether they pass. */
export function createInspectors(ownTopics: OwnTopics): ReadonlyMap<number, Inspect> {
  return new Map([[ApiKey.Produce, createProduceInspect(ownTopics)]]);
}

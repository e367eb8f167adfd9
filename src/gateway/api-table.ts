// The reviewed table of Kafka's APIs: for each key what we do with it, which versions somebody has
// read, and why. Owns that judgement and nothing else. Invariant: what is not in this table, or
// hidden in it, is never advertised and never forwarded; a test fails when the message definitions
// have a key or a version that nobody has reviewed, and when a response with a broker's address or
// id is not accounted for.
import { ApiKey } from '../../protocol/index.ts';

export type Handling =
  /** Forwarded and answered byte for byte. */
  | 'pass'
  /** Looked at: request, response or both may be changed, or answered here in part. */
  | 'handled'
  /** Not advertised and not accepted. */
  | 'hidden';

export interface ReviewedApi {
  readonly key: number;
  readonly handling: Handling;
  readonly versionMin: number;
  /** Highest reviewed version; for hidden keys the highest that was reviewed before hiding it. */
  readonly versionMax: number;
  readonly why: string;
}

type Row = readonly [key: number, versionMin: number, versionMax: number, why: string];

const handled: readonly Row[] = [
  [ApiKey.Produce, 3, 13, 'writes to mirrors refused; offsets, epochs and endpoints rewritten'],
  [
    ApiKey.Fetch,
    4,
    18,
    'mirrors read here; promoted topics shifted; claimed replicas refused; endpoints rewritten',
  ],
  [ApiKey.ListOffsets, 1, 11, 'answered along the timeline'],
  [ApiKey.Metadata, 0, 13, 'addresses, link node, leaders and epochs of our topics'],
  [ApiKey.OffsetFetch, 1, 10, 'committed epochs above the advertised one become -1'],
  [ApiKey.FindCoordinator, 0, 6, 'addresses of coordinators'],
  [ApiKey.JoinGroup, 0, 9, 'held off while the group is handed over from the source'],
  [ApiKey.StreamsGroupHeartbeat, 0, 1, 'joins held off during a handover; no broker addresses'],
  [ApiKey.ListGroups, 0, 5, 'empty at the link node: clients ask every node and merge'],
  // Version 0 sends raw frames without headers afterwards, whose number nobody can know.
  [ApiKey.SaslHandshake, 1, 1, 'v0 is refused, and who has a certificate as principal'],
  [ApiKey.ApiVersions, 0, 5, 'intersection with this table; cluster and node id checked here'],
  [ApiKey.CreateTopics, 2, 7, 'our own topics and pending mirrors refused'],
  [ApiKey.DeleteTopics, 1, 6, 'our own topics and mirrors refused'],
  [ApiKey.DeleteRecords, 0, 2, 'our own topics and mirrors refused; promoted topics shifted'],
  [ApiKey.InitProducerId, 0, 5, 'our own transactional ids refused; the rest is the destination’s'],
  [
    ApiKey.AddPartitionsToTxn,
    0,
    5,
    'our own transactional ids refused, and no topic: librdkafka could not abort then',
  ],
  [ApiKey.AddOffsetsToTxn, 0, 4, 'our own transactional ids refused'],
  [ApiKey.EndTxn, 0, 5, 'our own transactional ids refused'],
  [ApiKey.TxnOffsetCommit, 0, 6, 'our own transactional ids refused; else as OffsetCommit'],
  [ApiKey.WriteTxnMarkers, 1, 2, 'markers in our own topics and in mirrors refused'],
  [ApiKey.DescribeQuorum, 0, 2, 'addresses of controllers left out'],
  [ApiKey.OffsetForLeaderEpoch, 2, 4, 'answered along the timeline'],
  [
    ApiKey.DescribeConfigs,
    1,
    4,
    'the link node has no configs; addresses among those of brokers hidden',
  ],
  [ApiKey.AlterConfigs, 0, 2, 'our own topics, the link node and synced keys of mirrors refused'],
  [ApiKey.DescribeLogDirs, 1, 5, 'empty at the link node: clients ask every node and merge'],
  [ApiKey.CreatePartitions, 0, 3, 'our own topics and mirrors refused'],
  [
    ApiKey.IncrementalAlterConfigs,
    0,
    1,
    'our own topics, the link node and synced keys of mirrors refused',
  ],
  [ApiKey.DescribeCluster, 0, 2, 'addresses, link node'],
  [
    ApiKey.DescribeProducers,
    0,
    0,
    'mirrors have no producers here; offsets of promoted topics shifted',
  ],
  [ApiKey.ListTransactions, 0, 2, 'empty at the link node: clients ask every node and merge'],
  [ApiKey.ConsumerGroupHeartbeat, 0, 1, 'a member that comes from elsewhere is told to join again'],
  [ApiKey.DescribeTopicPartitions, 0, 0, 'leaders and epochs of our topics'],
  [ApiKey.ShareFetch, 1, 2, 'mirrors refused; promoted topics shifted; endpoints rewritten'],
  [ApiKey.ShareAcknowledge, 1, 2, 'mirrors refused; promoted topics shifted; endpoints rewritten'],
  [ApiKey.DescribeShareGroupOffsets, 0, 1, 'offsets and epochs of promoted topics shifted'],
  [ApiKey.AlterShareGroupOffsets, 0, 0, 'mirrors refused; offsets of promoted topics shifted'],
];

const passed: readonly Row[] = [
  [ApiKey.OffsetCommit, 2, 10, 'groups keep virtual offsets; brokers do not compare with the log'],
  [ApiKey.Heartbeat, 0, 4, 'nothing of ours inside'],
  [ApiKey.LeaveGroup, 0, 5, 'nothing of ours inside'],
  [ApiKey.SyncGroup, 0, 5, 'opaque to us'],
  [ApiKey.DescribeGroups, 0, 6, 'client hosts, no broker addresses'],
  [ApiKey.SaslAuthenticate, 0, 2, 'passes to the destination, which authenticates'],
  [ApiKey.DescribeAcls, 1, 3, 'hosts are those of clients'],
  [ApiKey.CreateAcls, 1, 3, 'hosts are those of clients'],
  [ApiKey.DeleteAcls, 1, 3, 'hosts are those of clients'],
  [ApiKey.AlterReplicaLogDirs, 1, 2, 'shell topics have ordinary replicas'],
  [ApiKey.CreateDelegationToken, 1, 3, 'nothing of ours inside'],
  [ApiKey.RenewDelegationToken, 1, 2, 'nothing of ours inside'],
  [ApiKey.ExpireDelegationToken, 1, 2, 'nothing of ours inside'],
  [ApiKey.DescribeDelegationToken, 1, 3, 'nothing of ours inside'],
  [ApiKey.DeleteGroups, 0, 3, 'nothing of ours inside'],
  [ApiKey.ElectLeaders, 0, 2, 'elects among the shell topic’s replicas; names no address'],
  [ApiKey.AlterPartitionReassignments, 0, 1, 'node ids are the destination’s own'],
  [ApiKey.ListPartitionReassignments, 0, 0, 'node ids are the destination’s own; no addresses'],
  [ApiKey.OffsetDelete, 0, 0, 'nothing of ours inside'],
  [ApiKey.DescribeClientQuotas, 0, 1, 'nothing of ours inside'],
  [ApiKey.AlterClientQuotas, 0, 1, 'nothing of ours inside'],
  [ApiKey.DescribeUserScramCredentials, 0, 0, 'nothing of ours inside'],
  [ApiKey.AlterUserScramCredentials, 0, 0, 'nothing of ours inside'],
  [ApiKey.AddRaftVoter, 0, 1, 'the addresses are those that the operator gives; none comes back'],
  [ApiKey.RemoveRaftVoter, 0, 0, 'ids of a controller and its directory'],
  [ApiKey.UnregisterController, 0, 0, 'the id of a controller'],
  [ApiKey.UpdateFeatures, 0, 2, 'nothing of ours inside'],
  [ApiKey.UnregisterBroker, 0, 0, 'the controller refuses the link node’s id by itself'],
  [ApiKey.DescribeTransactions, 0, 0, 'topics and producer ids of the destination'],
  [ApiKey.ConsumerGroupDescribe, 0, 1, 'client hosts, no broker addresses'],
  [ApiKey.GetTelemetrySubscriptions, 0, 0, 'opaque to us'],
  [ApiKey.PushTelemetry, 0, 0, 'opaque to us'],
  [ApiKey.ListConfigResources, 0, 1, 'nothing of ours inside'],
  [ApiKey.ShareGroupHeartbeat, 1, 1, 'assignments by the destination’s own topic ids'],
  [ApiKey.ShareGroupDescribe, 1, 1, 'client hosts, no broker addresses'],
  [ApiKey.StreamsGroupDescribe, 0, 1, 'endpoints are those of applications'],
  [ApiKey.DeleteShareGroupOffsets, 0, 0, 'whole topics, no offsets inside'],
  [ApiKey.StreamsGroupTopologyDescriptionUpdate, 0, 0, 'opaque to us'],
];

const removed = 'removed from Kafka; no version is left';
const betweenBrokers = 'between brokers and controllers only';

const hidden: readonly Row[] = [
  [ApiKey.LeaderAndIsr, 0, -1, removed],
  [ApiKey.StopReplica, 0, -1, removed],
  [ApiKey.UpdateMetadata, 0, -1, removed],
  [ApiKey.ControlledShutdown, 0, -1, removed],
  [ApiKey.Vote, 0, 2, betweenBrokers],
  [ApiKey.BeginQuorumEpoch, 0, 1, betweenBrokers],
  [ApiKey.EndQuorumEpoch, 0, 1, betweenBrokers],
  [ApiKey.AlterPartition, 2, 3, betweenBrokers],
  [ApiKey.Envelope, 0, 0, betweenBrokers],
  [ApiKey.FetchSnapshot, 0, 1, betweenBrokers],
  [ApiKey.BrokerRegistration, 0, 4, betweenBrokers],
  [ApiKey.BrokerHeartbeat, 0, 2, betweenBrokers],
  [ApiKey.AllocateProducerIds, 0, 0, betweenBrokers],
  [ApiKey.ControllerRegistration, 0, 0, betweenBrokers],
  [ApiKey.AssignReplicasToDirs, 0, 0, betweenBrokers],
  [ApiKey.UpdateRaftVoter, 0, 0, betweenBrokers],
  [ApiKey.InitializeShareGroupState, 0, 0, betweenBrokers],
  [ApiKey.ReadShareGroupState, 0, 0, betweenBrokers],
  [ApiKey.WriteShareGroupState, 0, 1, betweenBrokers],
  [ApiKey.DeleteShareGroupState, 0, 0, betweenBrokers],
  [ApiKey.ReadShareGroupStateSummary, 0, 1, betweenBrokers],
];

function reviewed(rows: readonly Row[], handling: Handling): readonly ReviewedApi[] {
  return rows.map(([key, versionMin, versionMax, why]) => ({
    key,
    handling,
    versionMin,
    versionMax,
    why,
  }));
}

export const apiTable: ReadonlyMap<number, ReviewedApi> = new Map(
  [...reviewed(handled, 'handled'), ...reviewed(passed, 'pass'), ...reviewed(hidden, 'hidden')].map(
    (api) => [api.key, api],
  ),
);

/**
 * Versions of Produce that are advertised but not served: brokers do the same, because librdkafka
 * takes a broker without them for one that cannot compress (KAFKA-18659).
 */
export const produceVersionMinAdvertised = 0;

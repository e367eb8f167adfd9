/**
 * The reviewed list of every address and every node id that a broker's answers carry. A new Kafka
 * release with one more fails here, and whoever adds it decides what the gateway does with it.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  addressFacts,
  brokerIdFacts,
  type FieldFact,
  isOnBrokerListener,
  loneHostFacts,
  unmarkedNodeIdFacts,
} from '../../../protocol/field-audit.ts';

/** broker: an address of the cluster, to be rewritten. other: of somebody else, to be passed. */
const reviewedAddresses: Record<string, 'broker' | 'other'> = {
  'DescribeClusterResponse brokers[].': 'broker',
  'DescribeQuorumResponse nodes[].listeners[].': 'broker',
  'FetchResponse nodeEndpoints[].': 'broker',
  'FindCoordinatorResponse ': 'broker',
  'FindCoordinatorResponse coordinators[].': 'broker',
  'MetadataResponse brokers[].': 'broker',
  'ProduceResponse nodeEndpoints[].': 'broker',
  'ShareAcknowledgeResponse nodeEndpoints[].': 'broker',
  'ShareFetchResponse nodeEndpoints[].': 'broker',
  // The endpoints that Streams applications offer to each other.
  'StreamsGroupDescribeResponse groups[].members[].userEndpoint.': 'other',
  'StreamsGroupHeartbeatResponse partitionsByUserEndpoint[].userEndpoint.': 'other',
};

/** Hosts of clients, in ACLs and group descriptions. */
const reviewedLoneHosts = [
  'ConsumerGroupDescribeResponse groups[].members[].clientHost',
  'DeleteAclsResponse filterResults[].matchingAcls[].host',
  'DescribeAclsResponse resources[].acls[].host',
  'DescribeGroupsResponse groups[].members[].clientHost',
  'ShareGroupDescribeResponse groups[].members[].clientHost',
  'StreamsGroupDescribeResponse groups[].members[].clientHost',
];

const reviewedNodeIds = [
  'DescribeClusterResponse brokers[].brokerId',
  'DescribeClusterResponse controllerId',
  'DescribeQuorumResponse nodes[].nodeId',
  'DescribeQuorumResponse topics[].partitions[].currentVoters[].replicaId',
  'DescribeQuorumResponse topics[].partitions[].leaderId',
  'DescribeQuorumResponse topics[].partitions[].observers[].replicaId',
  'DescribeTopicPartitionsResponse topics[].partitions[].eligibleLeaderReplicas[]',
  'DescribeTopicPartitionsResponse topics[].partitions[].isrNodes[]',
  'DescribeTopicPartitionsResponse topics[].partitions[].lastKnownElr[]',
  'DescribeTopicPartitionsResponse topics[].partitions[].leaderId',
  'DescribeTopicPartitionsResponse topics[].partitions[].offlineReplicas[]',
  'DescribeTopicPartitionsResponse topics[].partitions[].replicaNodes[]',
  'FetchResponse nodeEndpoints[].nodeId',
  'FetchResponse responses[].partitions[].currentLeader.leaderId',
  'FetchResponse responses[].partitions[].preferredReadReplica',
  'FindCoordinatorResponse coordinators[].nodeId',
  'FindCoordinatorResponse nodeId',
  'ListPartitionReassignmentsResponse topics[].partitions[].addingReplicas[]',
  'ListPartitionReassignmentsResponse topics[].partitions[].removingReplicas[]',
  'ListPartitionReassignmentsResponse topics[].partitions[].replicas[]',
  'MetadataResponse brokers[].nodeId',
  'MetadataResponse controllerId',
  'MetadataResponse topics[].partitions[].isrNodes[]',
  'MetadataResponse topics[].partitions[].leaderId',
  'MetadataResponse topics[].partitions[].offlineReplicas[]',
  'MetadataResponse topics[].partitions[].replicaNodes[]',
  'ProduceResponse nodeEndpoints[].nodeId',
  'ProduceResponse responses[].partitionResponses[].currentLeader.leaderId',
  'ShareAcknowledgeResponse nodeEndpoints[].nodeId',
  'ShareFetchResponse nodeEndpoints[].nodeId',
];

/** Not marked in the definitions, yet node ids. */
const reviewedUnmarked = [
  'AddRaftVoterRequest voterId',
  'ApiVersionsRequest nodeId',
  'RemoveRaftVoterRequest voterId',
  'ShareAcknowledgeResponse responses[].partitions[].currentLeader.leaderId',
  'ShareFetchResponse responses[].partitions[].currentLeader.leaderId',
  'UnregisterControllerRequest controllerId',
];

function names(facts: readonly FieldFact[], wanted: (message: string) => boolean): string[] {
  return facts
    .filter((fact) => wanted(fact.message))
    .map((fact) => `${fact.message} ${fact.path}`)
    .sort();
}

function isBrokerResponse(message: string): boolean {
  return isOnBrokerListener(message) && message.endsWith('Response');
}

test('every address in an answer of a broker has been reviewed', () => {
  const found = addressFacts()
    .filter((fact) => isBrokerResponse(fact.message))
    .map((fact) => `${fact.message} ${fact.parent}`);
  assert.deepEqual(found.sort(), Object.keys(reviewedAddresses).sort());
  assert.deepEqual(names(loneHostFacts(), isBrokerResponse), reviewedLoneHosts);
});

test('every node id in an answer of a broker has been reviewed', () => {
  assert.deepEqual(names(brokerIdFacts(), isBrokerResponse), reviewedNodeIds);
  assert.deepEqual(names(unmarkedNodeIdFacts(), isOnBrokerListener), reviewedUnmarked);
});

test('the field facts know what they are asked for', () => {
  const leader = brokerIdFacts().find(
    (fact) => fact.message === 'FetchResponse' && fact.path.endsWith('currentLeader.leaderId'),
  );
  assert.equal(leader?.versions, '12-18');
  assert.equal(leader?.struct, 'LeaderIdAndEpoch');
});

// Every response field that holds a broker's host, port or id, with what keeps it from leading
// clients past us (R2). Data for the audit test, which fails when the message definitions have such
// a field that is not here, or when one here no longer exists. Paths are those of
// protocol/generated/field-facts.ts.

/** Whole prefixes: a field is covered by the longest that fits. */
export const auditedFields: Readonly<Record<string, string>> = {
  'MetadataResponse.brokers[]': 'rewritten: our endpoints, the link node added',
  'MetadataResponse.controllerId': 'a node id of the destination, served under the same id',
  'MetadataResponse.topics[].partitions[].leaderId': 'rewritten: the link node leads mirrors',
  'MetadataResponse.topics[].partitions[].replicaNodes[]': 'node ids of the destination',
  'MetadataResponse.topics[].partitions[].isrNodes[]': 'node ids of the destination',
  'MetadataResponse.topics[].partitions[].offlineReplicas[]': 'node ids of the destination',
  'FindCoordinatorResponse.nodeId': 'a node id of the destination, its endpoint is rewritten',
  'FindCoordinatorResponse.host': 'rewritten',
  'FindCoordinatorResponse.port': 'rewritten',
  'FindCoordinatorResponse.coordinators[]': 'rewritten',
  'DescribeClusterResponse.brokers[]': 'rewritten: our endpoints, the link node added',
  'DescribeClusterResponse.controllerId': 'a node id of the destination',
  'DescribeTopicPartitionsResponse.topics[].partitions[].leaderId': 'rewritten as in Metadata',
  'DescribeTopicPartitionsResponse.topics[].partitions[]': 'node ids of the destination',
  'ProduceResponse.responses[].partitionResponses[].currentLeader.leaderId':
    'rewritten together with the endpoints',
  'ProduceResponse.nodeEndpoints[]': 'rewritten',
  'FetchResponse.responses[].partitions[].currentLeader.leaderId':
    'a node id of the destination, or the link node, as Metadata has it',
  'FetchResponse.responses[].partitions[].preferredReadReplica': 'a node id of the destination',
  'FetchResponse.nodeEndpoints[]': 'asked for in a version without it, or rewritten',
  'ShareFetchResponse.responses[].partitions[].currentLeader.leaderId':
    'rewritten together with the endpoints',
  'ShareAcknowledgeResponse.responses[].partitions[].currentLeader.leaderId':
    'rewritten together with the endpoints',
  'ShareFetchResponse.nodeEndpoints[]': 'rewritten',
  'ShareAcknowledgeResponse.nodeEndpoints[]': 'rewritten',
  'DescribeQuorumResponse.topics[].partitions[]': 'node ids of the destination',
  'DescribeQuorumResponse.nodes[].nodeId': 'node ids of the destination, its controllers',
  'DescribeQuorumResponse.nodes[].listeners[]': 'rewritten: left out',
  'ListPartitionReassignmentsResponse.topics[].partitions[]': 'node ids of the destination',
  'DescribeAclsResponse.resources[].acls[].host': 'the host of a client',
  'DeleteAclsResponse.filterResults[].matchingAcls[].host': 'the host of a client',
  'StreamsGroupDescribeResponse.groups[].members[].userEndpoint': 'the endpoint of an application',
  'StreamsGroupHeartbeatResponse.partitionsByUserEndpoint[].userEndpoint':
    'the endpoint of an application',
};

// The APIs of a broker that we call for our own work, as descriptors over the generated codecs.
// Owns which versions we speak: the most that our callers understand (name-based where newer
// versions carry topic ids only), the least that brokers from 2.1 on have. Refuses to know who
// calls, and when.
// Invariant: what is listed here can be sent to any broker that shares one version with the range.
import type { MessageCodec } from '../../protocol/codec.ts';
import * as addPartitionsToTxn from '../../protocol/generated/add-partitions-to-txn-request.ts';
import * as addPartitionsToTxnResponse from '../../protocol/generated/add-partitions-to-txn-response.ts';
import * as apiVersions from '../../protocol/generated/api-versions-request.ts';
import * as apiVersionsResponse from '../../protocol/generated/api-versions-response.ts';
import * as createAcls from '../../protocol/generated/create-acls-request.ts';
import * as createAclsResponse from '../../protocol/generated/create-acls-response.ts';
import * as createPartitions from '../../protocol/generated/create-partitions-request.ts';
import * as createPartitionsResponse from '../../protocol/generated/create-partitions-response.ts';
import * as createTopics from '../../protocol/generated/create-topics-request.ts';
import * as createTopicsResponse from '../../protocol/generated/create-topics-response.ts';
import * as deleteAcls from '../../protocol/generated/delete-acls-request.ts';
import * as deleteAclsResponse from '../../protocol/generated/delete-acls-response.ts';
import * as deleteRecords from '../../protocol/generated/delete-records-request.ts';
import * as deleteRecordsResponse from '../../protocol/generated/delete-records-response.ts';
import * as deleteTopics from '../../protocol/generated/delete-topics-request.ts';
import * as deleteTopicsResponse from '../../protocol/generated/delete-topics-response.ts';
import * as describeAcls from '../../protocol/generated/describe-acls-request.ts';
import * as describeAclsResponse from '../../protocol/generated/describe-acls-response.ts';
import * as describeCluster from '../../protocol/generated/describe-cluster-request.ts';
import * as describeClusterResponse from '../../protocol/generated/describe-cluster-response.ts';
import * as describeConfigs from '../../protocol/generated/describe-configs-request.ts';
import * as describeConfigsResponse from '../../protocol/generated/describe-configs-response.ts';
import * as describeLogDirs from '../../protocol/generated/describe-log-dirs-request.ts';
import * as describeLogDirsResponse from '../../protocol/generated/describe-log-dirs-response.ts';
import * as describeProducers from '../../protocol/generated/describe-producers-request.ts';
import * as describeProducersResponse from '../../protocol/generated/describe-producers-response.ts';
import * as describeShareGroupOffsets from '../../protocol/generated/describe-share-group-offsets-request.ts';
import * as describeShareGroupOffsetsResponse from '../../protocol/generated/describe-share-group-offsets-response.ts';
import * as describeTopicPartitions from '../../protocol/generated/describe-topic-partitions-request.ts';
import * as describeTopicPartitionsResponse from '../../protocol/generated/describe-topic-partitions-response.ts';
import * as endTxn from '../../protocol/generated/end-txn-request.ts';
import * as endTxnResponse from '../../protocol/generated/end-txn-response.ts';
import * as fetch from '../../protocol/generated/fetch-request.ts';
import * as fetchResponse from '../../protocol/generated/fetch-response.ts';
import * as findCoordinator from '../../protocol/generated/find-coordinator-request.ts';
import * as findCoordinatorResponse from '../../protocol/generated/find-coordinator-response.ts';
import * as incrementalAlterConfigs from '../../protocol/generated/incremental-alter-configs-request.ts';
import * as incrementalAlterConfigsResponse from '../../protocol/generated/incremental-alter-configs-response.ts';
import * as initProducerId from '../../protocol/generated/init-producer-id-request.ts';
import * as initProducerIdResponse from '../../protocol/generated/init-producer-id-response.ts';
import * as listGroups from '../../protocol/generated/list-groups-request.ts';
import * as listGroupsResponse from '../../protocol/generated/list-groups-response.ts';
import * as listOffsets from '../../protocol/generated/list-offsets-request.ts';
import * as listOffsetsResponse from '../../protocol/generated/list-offsets-response.ts';
import * as metadata from '../../protocol/generated/metadata-request.ts';
import * as metadataResponse from '../../protocol/generated/metadata-response.ts';
import * as offsetCommit from '../../protocol/generated/offset-commit-request.ts';
import * as offsetCommitResponse from '../../protocol/generated/offset-commit-response.ts';
import * as offsetFetch from '../../protocol/generated/offset-fetch-request.ts';
import * as offsetFetchResponse from '../../protocol/generated/offset-fetch-response.ts';
import * as offsetForLeaderEpoch from '../../protocol/generated/offset-for-leader-epoch-request.ts';
import * as offsetForLeaderEpochResponse from '../../protocol/generated/offset-for-leader-epoch-response.ts';
import * as produce from '../../protocol/generated/produce-request.ts';
import * as produceResponse from '../../protocol/generated/produce-response.ts';
import * as saslAuthenticate from '../../protocol/generated/sasl-authenticate-request.ts';
import * as saslAuthenticateResponse from '../../protocol/generated/sasl-authenticate-response.ts';
import * as saslHandshake from '../../protocol/generated/sasl-handshake-request.ts';
import * as saslHandshakeResponse from '../../protocol/generated/sasl-handshake-response.ts';
import type { Reader } from '../../protocol/index.ts';
import type { Api } from './cluster.ts';

function defineApi<Request extends object, Response extends object>(
  request: MessageCodec<Request>,
  response: MessageCodec<Response>,
  versionMin: number,
  versionMax: number,
  routingErrors?: (response: Response) => readonly number[],
): Api<Request, Response> {
  if (request.apiKey === undefined) throw new Error(`${request.name} has no API key`);
  return {
    key: request.apiKey,
    name: request.name.replace(/Request$/, ''),
    versionMin,
    versionMax,
    encode: (writer, message, version) => request.encode(writer, message, version),
    decode: (reader, version) => response.decode(reader, version),
    ...(routingErrors === undefined ? {} : { routingErrors }),
  };
}

const unsupportedVersion = 35;

/** A broker that does not know our version says so in a version 0 body. */
function decodeApiVersions(
  reader: Reader,
  version: number,
): apiVersionsResponse.ApiVersionsResponse {
  const start = reader.offset;
  const errorCode = reader.readInt16('ApiVersionsResponse.errorCode');
  reader.offset = start;
  return apiVersionsResponse.decodeApiVersionsResponse(
    reader,
    errorCode === unsupportedVersion ? 0 : version,
  );
}

export const apiVersionsApi: Api<
  apiVersions.ApiVersionsRequest,
  apiVersionsResponse.ApiVersionsResponse
> = {
  ...defineApi(
    apiVersions.apiVersionsRequestCodec,
    apiVersionsResponse.apiVersionsResponseCodec,
    0,
    4,
  ),
  decode: decodeApiVersions,
};

/** Version 0 would have what follows sent without headers. */
export const saslHandshakeApi = defineApi(
  saslHandshake.saslHandshakeRequestCodec,
  saslHandshakeResponse.saslHandshakeResponseCodec,
  1,
  1,
);
export const saslAuthenticateApi = defineApi(
  saslAuthenticate.saslAuthenticateRequestCodec,
  saslAuthenticateResponse.saslAuthenticateResponseCodec,
  0,
  2,
);
/** From 4 on, because earlier versions cannot forbid the creation of topics. */
export const metadataApi = defineApi(
  metadata.metadataRequestCodec,
  metadataResponse.metadataResponseCodec,
  4,
  13,
);
export const describeClusterApi = defineApi(
  describeCluster.describeClusterRequestCodec,
  describeClusterResponse.describeClusterResponseCodec,
  0,
  2,
);
export const findCoordinatorApi = defineApi(
  findCoordinator.findCoordinatorRequestCodec,
  findCoordinatorResponse.findCoordinatorResponseCodec,
  1,
  6,
);

/**
 * Up to 12: from 13 on topics are named by id only. `acks: 0` has no answer and is not supported.
 */
export const produceApi = defineApi(
  produce.produceRequestCodec,
  produceResponse.produceResponseCodec,
  3,
  12,
);
export const fetchApi = defineApi(fetch.fetchRequestCodec, fetchResponse.fetchResponseCodec, 4, 17);
export const listOffsetsApi = defineApi(
  listOffsets.listOffsetsRequestCodec,
  listOffsetsResponse.listOffsetsResponseCodec,
  1,
  11,
);
export const offsetForLeaderEpochApi = defineApi(
  offsetForLeaderEpoch.offsetForLeaderEpochRequestCodec,
  offsetForLeaderEpochResponse.offsetForLeaderEpochResponseCodec,
  2,
  4,
);
export const deleteRecordsApi = defineApi(
  deleteRecords.deleteRecordsRequestCodec,
  deleteRecordsResponse.deleteRecordsResponseCodec,
  0,
  2,
);
export const describeProducersApi = defineApi(
  describeProducers.describeProducersRequestCodec,
  describeProducersResponse.describeProducersResponseCodec,
  0,
  0,
);

export const createTopicsApi = defineApi(
  createTopics.createTopicsRequestCodec,
  createTopicsResponse.createTopicsResponseCodec,
  2,
  7,
  (response) => response.topics.map((topic) => topic.errorCode),
);
/** Version 6 names topics in `topics`, earlier ones in `topicNames`. */
export const deleteTopicsApi = defineApi(
  deleteTopics.deleteTopicsRequestCodec,
  deleteTopicsResponse.deleteTopicsResponseCodec,
  1,
  6,
  (response) => response.responses.map((topic) => topic.errorCode),
);
export const createPartitionsApi = defineApi(
  createPartitions.createPartitionsRequestCodec,
  createPartitionsResponse.createPartitionsResponseCodec,
  0,
  3,
  (response) => response.results.map((topic) => topic.errorCode),
);
export const describeConfigsApi = defineApi(
  describeConfigs.describeConfigsRequestCodec,
  describeConfigsResponse.describeConfigsResponseCodec,
  1,
  4,
);
export const describeLogDirsApi = defineApi(
  describeLogDirs.describeLogDirsRequestCodec,
  describeLogDirsResponse.describeLogDirsResponseCodec,
  1,
  4,
);
export const incrementalAlterConfigsApi = defineApi(
  incrementalAlterConfigs.incrementalAlterConfigsRequestCodec,
  incrementalAlterConfigsResponse.incrementalAlterConfigsResponseCodec,
  0,
  1,
  (response) => response.responses.map((result) => result.errorCode),
);
/** From 1 on, which knows prefixed patterns. */
export const describeAclsApi = defineApi(
  describeAcls.describeAclsRequestCodec,
  describeAclsResponse.describeAclsResponseCodec,
  1,
  3,
);
export const createAclsApi = defineApi(
  createAcls.createAclsRequestCodec,
  createAclsResponse.createAclsResponseCodec,
  1,
  3,
  (response) => response.results.map((result) => result.errorCode),
);
export const deleteAclsApi = defineApi(
  deleteAcls.deleteAclsRequestCodec,
  deleteAclsResponse.deleteAclsResponseCodec,
  1,
  3,
  (response) => response.filterResults.map((result) => result.errorCode),
);
export const describeTopicPartitionsApi = defineApi(
  describeTopicPartitions.describeTopicPartitionsRequestCodec,
  describeTopicPartitionsResponse.describeTopicPartitionsResponseCodec,
  0,
  0,
);

export const initProducerIdApi = defineApi(
  initProducerId.initProducerIdRequestCodec,
  initProducerIdResponse.initProducerIdResponseCodec,
  0,
  5,
  (response) => [response.errorCode],
);
/** Up to 3: later versions are the brokers' own. */
export const addPartitionsToTxnApi = defineApi(
  addPartitionsToTxn.addPartitionsToTxnRequestCodec,
  addPartitionsToTxnResponse.addPartitionsToTxnResponseCodec,
  0,
  3,
  (response) =>
    response.resultsByTopicV3AndBelow.flatMap((topic) =>
      topic.resultsByPartition.map((partition) => partition.partitionErrorCode),
    ),
);
/** Up to 4: from 5 on every transaction raises the producer's epoch. */
export const endTxnApi = defineApi(
  endTxn.endTxnRequestCodec,
  endTxnResponse.endTxnResponseCodec,
  0,
  4,
  (response) => [response.errorCode],
);

export const listGroupsApi = defineApi(
  listGroups.listGroupsRequestCodec,
  listGroupsResponse.listGroupsResponseCodec,
  0,
  5,
);
/** Up to 9: from 10 on topics are named by id only. Several groups per request from 8 on. */
export const offsetFetchApi = defineApi(
  offsetFetch.offsetFetchRequestCodec,
  offsetFetchResponse.offsetFetchResponseCodec,
  1,
  9,
  (response) => [response.errorCode, ...response.groups.map((group) => group.errorCode)],
);
/** Up to 9: from 10 on topics are named by id only. */
export const offsetCommitApi = defineApi(
  offsetCommit.offsetCommitRequestCodec,
  offsetCommitResponse.offsetCommitResponseCodec,
  2,
  9,
  (response) =>
    response.topics.flatMap((topic) => topic.partitions.map((partition) => partition.errorCode)),
);
export const describeShareGroupOffsetsApi = defineApi(
  describeShareGroupOffsets.describeShareGroupOffsetsRequestCodec,
  describeShareGroupOffsetsResponse.describeShareGroupOffsetsResponseCodec,
  0,
  1,
);

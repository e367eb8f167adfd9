// Requests for tests of the gateway's answers: those whose answers may tell addresses, and a mix of
// what the proxy answers itself and what it forwards.
//
// Owns: building valid requests for any version. Knows nothing of what the answers should be, but
// for what proves that an answer belongs to its request. Invariant: nothing here changes a mirror.

import { createDescribeClusterRequest } from '../../protocol/generated/describe-cluster-request.ts';
import { createDescribeTopicPartitionsRequest } from '../../protocol/generated/describe-topic-partitions-request.ts';
import {
  createFetchPartition,
  createFetchRequest,
  createFetchTopic,
  type FetchRequest,
} from '../../protocol/generated/fetch-request.ts';
import { createFindCoordinatorRequest } from '../../protocol/generated/find-coordinator-request.ts';
import {
  createListOffsetsPartition,
  createListOffsetsRequest,
  createListOffsetsTopic,
} from '../../protocol/generated/list-offsets-request.ts';
import {
  createMetadataRequest,
  createMetadataRequestTopic,
} from '../../protocol/generated/metadata-request.ts';
import {
  apiVersionsApi,
  describeClusterApi,
  describeTopicPartitionsApi,
  fetchApi,
  findCoordinatorApi,
  initProducerIdApi,
  listOffsetsApi,
  metadataApi,
  produceApi,
} from '../../src/cluster/apis.ts';
import type { Api, ClusterMetadata, TopicInfo } from '../../src/cluster/cluster.ts';
import type { RawConnection } from './raw-connection.ts';
import { produceRequest, values } from './raw-writes.ts';
import type { SeededRandom } from './seeded-random.ts';

export interface VersionedRequest {
  readonly api: Api<unknown, unknown>;
  readonly request: (version: number) => unknown;
}

function asked<Request, Response>(
  api: Api<Request, Response>,
  request: (version: number) => Request,
): VersionedRequest {
  return { api: api as unknown as Api<unknown, unknown>, request };
}

export interface Reading {
  readonly offset?: bigint;
  readonly maxWaitMs?: number;
  readonly maxBytes?: number;
}

/** Fetch outside of any session, by name below version 13 and by id from there on. */
export function fetchRequest(topic: TopicInfo, reading: Reading = {}): FetchRequest {
  const { offset = 0n, maxWaitMs = 0, maxBytes = 1 << 20 } = reading;
  const partitions = topic.partitions.map(({ partition }) =>
    createFetchPartition({ partition, fetchOffset: offset, partitionMaxBytes: maxBytes }),
  );
  return createFetchRequest({
    maxWaitMs,
    minBytes: maxWaitMs === 0 ? 0 : 1 << 20,
    maxBytes,
    sessionEpoch: -1,
    topics: [createFetchTopic({ topic: topic.name, topicId: topic.topicId, partitions })],
  });
}

/** For every API whose answers hold addresses. */
export function addressRequests(topics: readonly TopicInfo[]): readonly VersionedRequest[] {
  const names = topics.map(({ name }) => createMetadataRequestTopic({ name }));
  const coordinator = (key: string, keyType: number) =>
    asked(findCoordinatorApi, (version) =>
      version >= 4
        ? createFindCoordinatorRequest({ coordinatorKeys: [key], keyType })
        : createFindCoordinatorRequest({ key, keyType: version === 0 ? 0 : keyType }),
    );
  return [
    asked(metadataApi, () => createMetadataRequest({ topics: names })),
    // An empty list is "all" in version 0, and "none" later.
    asked(metadataApi, () => createMetadataRequest({ topics: [] })),
    coordinator('some-group', 0),
    coordinator('some-transaction', 1),
    asked(describeClusterApi, () => createDescribeClusterRequest()),
    asked(describeTopicPartitionsApi, () =>
      createDescribeTopicPartitionsRequest({
        topics: topics.map(({ name }) => ({ name, unknownTags: undefined })),
      }),
    ),
    ...topics.flatMap((topic) => [
      asked(fetchApi, () => fetchRequest(topic)),
      ...topic.partitions.map(({ partition }) =>
        asked(produceApi, (version) => {
          const request = produceRequest(topic.name, partition, values('audit', 1));
          for (const one of request.topicData) if (version >= 13) one.topicId = topic.topicId;
          return request;
        }),
      ),
    ]),
  ];
}

export interface OrderedJob {
  readonly name: string;
  /** Resolves when the answer came and was the one for this request. */
  run(connection: RawConnection): Promise<unknown>;
}

function expect(isRight: boolean, what: string): void {
  if (!isRight) throw new Error(`not the answer to this request: ${what}`);
}

/** Local, forwarded, rewritten, late and large answers, each with something to know it by. */
export function orderedJobs(view: ClusterMetadata, random: SeededRandom): readonly OrderedJob[] {
  const topics = [...view.topics.values()];
  const fetch = (name: string, reading: () => Reading): OrderedJob => ({
    name,
    run: async (connection) => {
      const topic = random.pick(topics);
      const answer = await connection.ask(fetchApi, 12, fetchRequest(topic, reading()));
      expect(answer.response.responses[0]?.topic === topic.name, `Fetch of ${topic.name}`);
    },
  });
  return [
    fetch('Fetch from the start', () => ({ maxBytes: 1 + random.below(200_000) })),
    fetch('Fetch that waits', () => ({ offset: 10_000n, maxWaitMs: random.below(30) })),
    fetch('Fetch with a wait at the start', () => ({ maxWaitMs: random.below(30), maxBytes: 100 })),
    {
      name: 'Metadata',
      run: async (connection) => {
        const { name } = random.pick(topics);
        const request = createMetadataRequest({ topics: [createMetadataRequestTopic({ name })] });
        const answer = await connection.ask(metadataApi, 12, request);
        expect(answer.response.topics[0]?.name === name, `Metadata of ${name}`);
      },
    },
    {
      name: 'FindCoordinator',
      run: async (connection) => {
        const key = `group-${random.below(1_000_000)}`;
        const request = createFindCoordinatorRequest({ coordinatorKeys: [key] });
        const answer = await connection.ask(findCoordinatorApi, 4, request);
        expect(answer.response.coordinators[0]?.key === key, `FindCoordinator of ${key}`);
      },
    },
    {
      name: 'ListOffsets',
      run: async (connection) => {
        const { name } = random.pick(topics);
        const partitions = [createListOffsetsPartition({ timestamp: -1n })];
        const list = createListOffsetsTopic({ name, partitions });
        const request = createListOffsetsRequest({ replicaId: -1, topics: [list] });
        const answer = await connection.ask(listOffsetsApi, 7, request);
        expect(answer.response.topics[0]?.name === name, `ListOffsets of ${name}`);
      },
    },
    {
      name: 'Produce',
      run: async (connection) => {
        const { name } = random.pick(topics);
        const request = produceRequest(name, 0, values('ordered', 1 + random.below(3)));
        const answer = await connection.ask(produceApi, 9, request);
        expect(answer.response.responses[0]?.name === name, `Produce to ${name}`);
      },
    },
    {
      name: 'ApiVersions',
      run: async (connection) => {
        const request = {
          clientSoftwareName: 'raw-test',
          clientSoftwareVersion: '1',
          clusterId: null,
          nodeId: -1,
        };
        const answer = await connection.ask(apiVersionsApi, 3, request);
        expect(answer.response.apiKeys.length > 20, 'ApiVersions');
      },
    },
    {
      name: 'InitProducerId',
      run: async (connection) => {
        await connection.ask(initProducerIdApi, 1, {
          transactionalId: null,
          transactionTimeoutMs: 1000,
          producerId: -1n,
          producerEpoch: -1,
          enable2Pc: false,
          keepPreparedTxn: false,
        });
      },
    },
  ];
}

// DescribeProducers: which producers a partition's leader knows. For a mirror these are the
// transactions that are open in the copy; for a promoted partition the broker's, with the offset
// shifted. Refuses to know how hanging transactions are dealt with. Invariant: no native offset of
// a promoted partition leaves unshifted.
import {
  createDescribeProducersRequest,
  createTopicRequest,
  type DescribeProducersRequest,
  describeProducersRequestCodec,
} from '../../../protocol/generated/describe-producers-request.ts';
import {
  createDescribeProducersResponse,
  createPartitionResponse,
  createProducerState,
  createTopicResponse,
  describeProducersResponseCodec,
  type PartitionResponse,
} from '../../../protocol/generated/describe-producers-response.ts';
import { errorName } from '../../../protocol/index.ts';
import type { MirrorLog } from '../../../storage/mirror-log.ts';
import { nativeOffset } from '../../timeline/offsets.ts';
import { type NativeExtent, toVirtualOffset } from '../../timeline/timeline.ts';
import { AclOperation } from '../authorizer.ts';
import type { Handler, RequestContext } from '../handler.ts';
import { apiOf, decodeBody, responseTo } from '../messages.ts';
import {
  findPlaces,
  isAllOrdinary,
  type PlaceOf,
  type Resolution,
  resolveAll,
} from '../partition-places.ts';
import { ThrottledSession } from '../throttled-session.ts';

const describeProducersApi = apiOf(describeProducersRequestCodec, describeProducersResponseCodec);

interface Asked {
  readonly partitionIndex: number;
}

export const describeProducersHandler: Handler = (context) => {
  const request = decodeBody(context, describeProducersRequestCodec);
  const names = request.topics.map(({ name }) => name);
  if (isAllOrdinary(context.session, names)) return { kind: 'forward' };
  return { kind: 'answer', response: answerProducers(context, request, names) };
};

async function answerProducers(
  { session: client, header }: RequestContext,
  request: DescribeProducersRequest,
  names: readonly string[],
): Promise<readonly Buffer[]> {
  const session = new ThrottledSession(client);
  // kafka-transactions find-hanging asks each replica, which are the shell's.
  const options = { mirrorsEverywhere: true };
  const placeOf = await findPlaces(session, names, AclOperation.READ, options);
  const asked = request.topics.map(({ name, partitionIndexes }) => ({
    name,
    partitions: partitionIndexes.map((partitionIndex): Asked => ({ partitionIndex })),
  }));
  const topics = await resolveAll<Asked, PartitionResponse>(asked, {
    indexOf: ({ partitionIndex }) => partitionIndex,
    resolve: async (topic, ask) => resolve(topic, ask, placeOf),
    askBroker: async (open) => {
      const upstream = createDescribeProducersRequest({
        topics: open.map(({ name, partitions }) =>
          createTopicRequest({
            name,
            partitionIndexes: partitions.map(({ partitionIndex }) => partitionIndex),
          }),
        ),
      });
      const answer = await session.callUpstream(describeProducersApi, upstream);
      return answer.topics;
    },
    refuse,
  });
  const response = createDescribeProducersResponse({
    topics: topics.map(({ name, partitions }) =>
      createTopicResponse({ name, partitions: [...partitions] }),
    ),
  });
  session.tell(response);
  return responseTo(header, describeProducersResponseCodec, response);
}

function refuse(partitionIndex: number, errorCode: number): PartitionResponse {
  return createPartitionResponse({
    partitionIndex,
    errorCode,
    errorMessage: errorName(errorCode),
  });
}

function resolve(
  topic: string,
  ask: Asked,
  placeOf: PlaceOf,
): Resolution<Asked, PartitionResponse> {
  const { partitionIndex } = ask;
  const place = placeOf(topic, { partition: partitionIndex, currentLeaderEpoch: -1 });
  switch (place.kind) {
    case 'error':
      return { kind: 'done', answer: refuse(partitionIndex, place.errorCode) };
    case 'ordinary':
      return { kind: 'ask', ask, finish: (answer) => answer };
    case 'mirror':
      return { kind: 'done', answer: openInMirror(partitionIndex, place.log) };
    case 'promoted':
      return { kind: 'ask', ask, finish: (answer) => shifted(answer, place.native) };
  }
}

/** Of a mirrored producer we know its open transaction; what else it did is the source's to say. */
function openInMirror(partitionIndex: number, log: MirrorLog): PartitionResponse {
  return createPartitionResponse({
    partitionIndex,
    activeProducers: log.openTransactions().map(({ producerId, producerEpoch, firstOffset }) =>
      createProducerState({
        producerId,
        producerEpoch,
        coordinatorEpoch: -1,
        currentTxnStartOffset: firstOffset,
      }),
    ),
  });
}

function shifted(answer: PartitionResponse, native: NativeExtent): PartitionResponse {
  return {
    ...answer,
    activeProducers: answer.activeProducers.map((producer) => ({
      ...producer,
      currentTxnStartOffset: toVirtualOffset(native, nativeOffset(producer.currentTxnStartOffset)),
    })),
  };
}

// OffsetForLeaderEpoch: where an epoch ends, by which clients find out that a log was cut. Mirrors
// answer from the epochs of their stored batches, promoted partitions from a merged view (rule 5):
// epochs before V0 from the copy, once the shell's broker has said that it leads and in which
// epoch; V0 and later from the shell. Refuses to know what clients conclude. Invariant: an epoch is
// never forwarded unshifted (the broker would answer 75, and Java and franz-go would never start).
import {
  createOffsetForLeaderEpochRequest,
  createOffsetForLeaderTopic,
  type OffsetForLeaderEpochRequest,
  type OffsetForLeaderPartition,
  offsetForLeaderEpochRequestCodec,
} from '../../../protocol/generated/offset-for-leader-epoch-request.ts';
import {
  createEpochEndOffset,
  createOffsetForLeaderEpochResponse,
  createOffsetForLeaderTopicResult,
  type EpochEndOffset,
  offsetForLeaderEpochResponseCodec,
} from '../../../protocol/generated/offset-for-leader-epoch-response.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import { epochEndFromNative, epochEndInCopy } from '../../timeline/merged-view.ts';
import {
  nativeEpoch,
  nativeOffset,
  type VirtualEpoch,
  virtualEpoch,
} from '../../timeline/offsets.ts';
import { type NativeExtent, toNativeEpoch } from '../../timeline/timeline.ts';
import { AclOperation } from '../authorizer.ts';
import { storageErrorCode } from '../extent-reader.ts';
import type { Handler, RequestContext, SessionView } from '../handler.ts';
import { apiOf, decodeBody, responseTo } from '../messages.ts';
import {
  findPlaces,
  isAllOrdinary,
  type Place,
  type PlaceOf,
  type Resolution,
  resolveAll,
} from '../partition-places.ts';
import { ThrottledSession } from '../throttled-session.ts';
import type { PartitionView } from '../topic-directory.ts';

const offsetForLeaderEpochApi = apiOf(
  offsetForLeaderEpochRequestCodec,
  offsetForLeaderEpochResponseCodec,
);

type Outcome = Resolution<OffsetForLeaderPartition, EpochEndOffset>;

export const offsetForLeaderEpochHandler: Handler = (context) => {
  const request = decodeBody(context, offsetForLeaderEpochRequestCodec);
  const names = request.topics.map(({ topic }) => topic);
  if (isAllOrdinary(context.session, names)) return { kind: 'forward' };
  return { kind: 'answer', response: answerEpochs(context, request, names) };
};

async function answerEpochs(
  { session: client, header }: RequestContext,
  request: OffsetForLeaderEpochRequest,
  names: readonly string[],
): Promise<readonly Buffer[]> {
  const session = new ThrottledSession(client);
  const placeOf = await findPlaces(session, names, AclOperation.DESCRIBE);
  const asked = request.topics.map(({ topic, partitions }) => ({ name: topic, partitions }));
  const topics = await resolveAll(asked, {
    indexOf: ({ partition }: OffsetForLeaderPartition | EpochEndOffset) => partition,
    resolve: async (topic, ask) => resolve(session, topic, ask, placeOf),
    askBroker: async (open) => {
      const upstream = createOffsetForLeaderEpochRequest({
        ...request,
        topics: open.map(({ name, partitions }) =>
          createOffsetForLeaderTopic({ topic: name, partitions: [...partitions] }),
        ),
      });
      const options = { versionMax: header.apiVersion };
      const answer = await session.callUpstream(offsetForLeaderEpochApi, upstream, options);
      return answer.topics.map(({ topic, partitions }) => ({ name: topic, partitions }));
    },
    refuse,
  });
  const response = createOffsetForLeaderEpochResponse({
    topics: topics.map(({ name, partitions }) =>
      createOffsetForLeaderTopicResult({ topic: name, partitions: [...partitions] }),
    ),
  });
  session.tell(response);
  return responseTo(header, offsetForLeaderEpochResponseCodec, response);
}

function refuse(partition: number, errorCode: number): EpochEndOffset {
  return createEpochEndOffset({ partition, errorCode });
}

function resolve(
  session: SessionView,
  topic: string,
  ask: OffsetForLeaderPartition,
  placeOf: PlaceOf,
): Outcome {
  const { partition, currentLeaderEpoch } = ask;
  const place = placeOf(topic, { partition, currentLeaderEpoch });
  if (place.kind === 'error') return { kind: 'done', answer: refuse(partition, place.errorCode) };
  if (place.kind === 'ordinary') return { kind: 'ask', ask, finish: (answer) => answer };
  const log = place.kind === 'mirror' ? place.log : place.view.log;
  try {
    return place.kind === 'mirror' ? inMirror(place, ask) : inBoth(place, ask);
  } catch (error) {
    if (log === null) throw error;
    const errorCode = storageErrorCode(session.services, { topic, partition, log }, error);
    return { kind: 'done', answer: refuse(partition, errorCode) };
  }
}

function inMirror(
  { log }: Extract<Place, { kind: 'mirror' }>,
  ask: OffsetForLeaderPartition,
): Outcome {
  const { partition, leaderEpoch } = ask;
  if (leaderEpoch < 0) return { kind: 'done', answer: createEpochEndOffset({ partition }) };
  const { epoch, endOffset } = log.epochEnd(leaderEpoch);
  const answer = createEpochEndOffset({
    partition,
    // As a broker: an epoch before the first one "ends" where that begins.
    leaderEpoch: epoch < 0 && endOffset >= 0n ? leaderEpoch : epoch,
    endOffset,
  });
  return { kind: 'done', answer };
}

function inBoth(
  { view, native }: Extract<Place, { kind: 'promoted' }>,
  ask: OffsetForLeaderPartition,
): Outcome {
  const { partition, leaderEpoch, currentLeaderEpoch } = ask;
  const epoch = virtualEpoch(leaderEpoch);
  const isInCopy = epoch < native.firstEpoch;
  return {
    kind: 'ask',
    ask: {
      ...ask,
      // Of an earlier one the copy knows; whether it leads, and in which epoch, only the broker.
      leaderEpoch: toNativeEpoch(native, isInCopy ? native.firstEpoch : epoch),
      currentLeaderEpoch: toNativeEpoch(native, virtualEpoch(currentLeaderEpoch)),
    },
    finish: (answer) => {
      if (answer.errorCode !== ErrorCode.NONE) return answer;
      if (isInCopy) return endInCopy(view, native, { partition, epoch });
      const end = epochEndFromNative(native, {
        epoch: nativeEpoch(answer.leaderEpoch),
        endOffset: nativeOffset(answer.endOffset),
      });
      return { ...answer, leaderEpoch: end.epoch, endOffset: end.endOffset };
    },
  };
}

function endInCopy(
  { log }: PartitionView,
  native: NativeExtent,
  { partition, epoch }: { readonly partition: number; readonly epoch: VirtualEpoch },
): EpochEndOffset {
  // An end that only a copy in part has would be taken for a truncation (R19).
  if (log === null || log.visibleEnd < native.start) {
    const isHeld = log !== null && log.heldFrom !== null;
    const errorCode = isHeld ? ErrorCode.NOT_LEADER_OR_FOLLOWER : ErrorCode.KAFKA_STORAGE_ERROR;
    return refuse(partition, errorCode);
  }
  const end = epochEndInCopy(native, epoch, log.epochEnd(epoch));
  return createEpochEndOffset({ partition, leaderEpoch: end.epoch, endOffset: end.endOffset });
}

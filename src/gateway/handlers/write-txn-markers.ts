// WriteTxnMarkers: coordinators send it to brokers, and `kafka-transactions abort` to the leader of
// a partition in which a transaction hangs. Looked at partition by partition; markers carry no
// offset, so what is forwarded goes unchanged.
//  * Our own topics and mirrors: 44. Who has no right to write there gets 31, what a broker says to
//    everybody without that right on the cluster.
//  * A topic that is not settled, and any at the link node: 6, the client asks the leader.
//  * Everything else, promoted topics too, is the destination's, its rights with it.
import {
  createWritableTxnMarker,
  createWritableTxnMarkerTopic,
  type WritableTxnMarker,
  type WritableTxnMarkerTopic,
  writeTxnMarkersRequestCodec,
} from '../../../protocol/generated/write-txn-markers-request.ts';
import {
  createWritableTxnMarkerPartitionResult,
  createWritableTxnMarkerResult,
  createWritableTxnMarkerTopicResult,
  createWriteTxnMarkersResponse,
  type WritableTxnMarkerResult,
  type WriteTxnMarkersResponse,
  writeTxnMarkersResponseCodec,
} from '../../../protocol/generated/write-txn-markers-response.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import { AclOperation, authorize } from '../authorizer.ts';
import type { Handler, SessionView } from '../handler.ts';
import { decodeBody, requestWith, responseTo, rewriting } from '../messages.ts';
import type { OwnTopics } from '../own-topics.ts';
import { isMirrored, topicStanding } from '../topic-standing.ts';

export function createWriteTxnMarkersHandler(ownTopics: OwnTopics): Handler {
  return (context) => {
    const { session, header } = context;
    const request = decodeBody(context, writeTxnMarkersRequestCodec);
    const refused: WritableTxnMarkerResult[] = [];
    const markers: WritableTxnMarker[] = [];
    for (const marker of request.markers) {
      const kept: WritableTxnMarkerTopic[] = [];
      const results = marker.topics.flatMap((topic) => {
        const errorCode = refusal(session, ownTopics, topic.name);
        if (errorCode !== null) return [refusedTopic(topic, errorCode)];
        kept.push(createWritableTxnMarkerTopic(topic));
        return [];
      });
      const { producerId } = marker;
      if (results.length > 0) {
        refused.push(createWritableTxnMarkerResult({ producerId, topics: results }));
      }
      // A marker without topics is the broker's to answer, as it came.
      if (kept.length > 0 || results.length === 0) {
        markers.push(createWritableTxnMarker({ ...marker, topics: kept }));
      }
    }
    if (refused.length === 0) return { kind: 'forward' };
    if (markers.length === 0) {
      const message = createWriteTxnMarkersResponse();
      const response = addRefused(session, message, refused).then(() =>
        responseTo(header, writeTxnMarkersResponseCodec, message),
      );
      return { kind: 'answer', response };
    }
    return {
      kind: 'forward',
      request: requestWith(context, writeTxnMarkersRequestCodec, { ...request, markers }),
      rewrite: rewriting(header, writeTxnMarkersResponseCodec, async (response) => {
        await addRefused(session, response, refused);
        return true;
      }),
      asksUpstream: true,
    };
  };
}

function refusal(session: SessionView, ownTopics: OwnTopics, name: string): number | null {
  if (ownTopics.has({ name })) return ErrorCode.POLICY_VIOLATION;
  const standing = topicStanding(session.services.directory, { name });
  if (standing.kind === 'unsettled') return ErrorCode.NOT_LEADER_OR_FOLLOWER;
  if (standing.kind === 'known' && isMirrored(standing.view)) return ErrorCode.POLICY_VIOLATION;
  return session.role.kind === 'link' ? ErrorCode.NOT_LEADER_OR_FOLLOWER : null;
}

function refusedTopic({ name, partitionIndexes }: WritableTxnMarkerTopic, errorCode: number) {
  const partitions = partitionIndexes.map((partitionIndex) =>
    createWritableTxnMarkerPartitionResult({ partitionIndex, errorCode }),
  );
  return createWritableTxnMarkerTopicResult({ name, partitions });
}

async function addRefused(
  session: SessionView,
  response: WriteTxnMarkersResponse,
  refused: readonly WritableTxnMarkerResult[],
): Promise<void> {
  const names = refused.flatMap(({ topics }) => topics.map(({ name }) => name));
  const verdicts = await authorize(session, names, AclOperation.WRITE);
  const results = new Map(response.markers.map((marker) => [marker.producerId, marker]));
  for (const result of refused) {
    const { producerId, topics } = result;
    for (const { name, partitions } of topics) {
      if (verdicts.get(name) !== ErrorCode.TOPIC_AUTHORIZATION_FAILED) continue;
      for (const one of partitions) one.errorCode = ErrorCode.CLUSTER_AUTHORIZATION_FAILED;
    }
    const answered = results.get(producerId);
    if (answered === undefined) {
      results.set(producerId, result);
      response.markers.push(result);
    } else {
      for (const topic of topics) answered.topics.push(topic);
    }
  }
}

// Produce, looked at on every node, because a client with stale metadata may write anywhere.
//  * Mirror: 44 POLICY_VIOLATION with a sentence that names topic and link (29 for who lacks
//    WRITE). Final, so that producers fail at once instead of spinning.
//  * Switching, or state not settled: 6 NOT_LEADER_OR_FOLLOWER, given late.
//  * Promoted or ordinary at the link node: 6 with the leader and its endpoint as hints (from
//    version 10 on).
//  * Our own topics: 44; our own transactional ids: 53. The rest of a mixed request is forwarded
//    and merged in request order.
//  * acks=0 has no answer: what is not refused goes on, and then the connection is closed, as
//    brokers do: so the client hears that it has to ask for metadata.
//  * Promoted: base offset, log start and the hinted epoch are shifted. Endpoints are always ours.
import {
  type ProduceRequest,
  produceRequestCodec,
  type TopicProduceData,
} from '../../../protocol/generated/produce-request.ts';
import {
  createProduceResponse,
  type PartitionProduceResponse,
  type ProduceResponse,
  produceResponseCodec,
  type TopicProduceResponse,
} from '../../../protocol/generated/produce-response.ts';
import {
  mayNameEndpoints,
  ProduceScanner,
  ProtocolError,
  produceEndpointsFrom,
} from '../../../protocol/index.ts';
import { nativeOffset } from '../../timeline/offsets.ts';
import type {
  Disposition,
  GatewayServices,
  Handler,
  Inspect,
  Passage,
  RequestContext,
  SessionView,
} from '../handler.ts';
import { decodeBody, type Rewrite, requestWith, responseTo, rewriting } from '../messages.ts';
import { advertiseNodes, dropLostHints } from '../node-endpoints.ts';
import type { OwnTopics } from '../own-topics.ts';
import {
  type ProduceVerdict,
  produceVerdict,
  type RefusedTopic,
  refuseProduce,
} from '../produce-refusal.ts';
import { promotedStart } from '../shell-starts.ts';
import { ThrottledSession } from '../throttled-session.ts';
import type { TopicView } from '../topic-directory.ts';
import { openNativeExtent, topicStanding } from '../topic-standing.ts';

interface Plan {
  readonly forwarded: readonly TopicProduceData[];
  readonly refused: readonly RefusedTopic[];
  readonly hasPromoted: boolean;
}

export function createProduceHandler(ownTopics: OwnTopics): Handler {
  return (context) => {
    const request = decodeBody(context, produceRequestCodec);
    const plan = planProduce(context.session, ownTopics, request);
    if (request.acks === 0) return withoutAnswer(context, request, plan);
    const { refused } = plan;
    if (refused.length === 0) {
      return { kind: 'forward', ...answerOf(context, plan) };
    }
    if (plan.forwarded.length === 0) return refuseAll(context, refused);
    const rewrite = shifting(context, plan, request.topicData) ?? undefined;
    const kept = requestWith(context, produceRequestCodec, keeping(request, plan));
    return { kind: 'forward', request: kept, asksUpstream: true, ...(rewrite && { rewrite }) };
  };
}

/**
 * Most requests name topics that are not ours: they pass while they come in. Everything else is
 * held for the handler. Whoever sends slowly must not reach a shell that was made meanwhile (R3),
 * so the topics of a request that came in parts are looked at once more at the end.
 */
export function createProduceInspect(ownTopics: OwnTopics): Inspect {
  return (session, header, bodyOffset) => {
    const scanner = new ProduceScanner({ version: header.apiVersion, bodyOffset });
    return {
      push: (bytes) => {
        const isKnown = scannedAll(scanner, bytes);
        if (isKnown === null) return 'whole';
        if (ownTopics.has({ name: scanner.transactionalId })) return 'whole';
        const before = standingOf(session, ownTopics, scanner.topics);
        if (before === 'refused') return 'whole';
        if (!isKnown) return 'more';
        const { topics, scannedBytes: decidedByBytes } = scanner;
        const stillHolds = (): boolean => standingOf(session, ownTopics, topics) === before;
        if (scanner.acks === 0) return { hasResponse: false, stillHolds, decidedByBytes };
        const plan = { refused: [], hasPromoted: before === 'promoted' };
        return { stillHolds, decidedByBytes, ...answerOf({ session, header }, plan) };
      },
    };
  };
}

/** What becomes of the answer to a request that goes to the broker as it is. */
function answerOf(
  context: Pick<RequestContext, 'header' | 'session'>,
  plan: Omit<Plan, 'forwarded'>,
): Pick<Passage, 'rewrite' | 'staysAsItIs'> {
  const rewrite = shifting(context, plan, []);
  if (rewrite === null) return {};
  const { apiVersion } = context.header;
  if (plan.hasPromoted) return { rewrite };
  return { rewrite, staysAsItIs: (frame) => !mayNameEndpoints(frame, apiVersion) };
}

/** Null when the request cannot be walked: the decoder says what is wrong with it. */
function scannedAll(scanner: ProduceScanner, bytes: Buffer): boolean | null {
  try {
    return scanner.push(bytes);
  } catch (error) {
    if (error instanceof ProtocolError) return null;
    throw error;
  }
}

type ProduceStanding = 'ordinary' | 'promoted' | 'refused';

function standingOf(
  session: SessionView,
  ownTopics: OwnTopics,
  topics: readonly { readonly name: string; readonly topicId: string }[],
): ProduceStanding {
  let standing: ProduceStanding = 'ordinary';
  for (const topic of topics) {
    const verdict = produceVerdict(session, ownTopics, topic);
    if (verdict.kind !== 'forward') return 'refused';
    if (verdict.view !== null) standing = 'promoted';
  }
  return standing;
}

function planProduce(session: SessionView, ownTopics: OwnTopics, request: ProduceRequest): Plan {
  const forwarded: TopicProduceData[] = [];
  const refused: RefusedTopic[] = [];
  let hasPromoted = false;
  const isOwnTransaction = ownTopics.has({ name: request.transactionalId });
  for (const topic of request.topicData) {
    const verdict: ProduceVerdict = isOwnTransaction
      ? { kind: 'ownTransaction' }
      : produceVerdict(session, ownTopics, topic);
    if (verdict.kind === 'forward') {
      forwarded.push(topic);
      if (verdict.view !== null) hasPromoted = true;
    } else {
      refused.push({ topic, verdict });
    }
  }
  return { forwarded, refused, hasPromoted };
}

function keeping(request: ProduceRequest, plan: Plan): ProduceRequest {
  return { ...request, topicData: [...plan.forwarded] };
}

function withoutAnswer(context: RequestContext, request: ProduceRequest, plan: Plan): Disposition {
  if (plan.refused.length === 0) return { kind: 'forward', hasResponse: false };
  if (plan.forwarded.length === 0) {
    return {
      kind: 'close',
      reason: 'a Produce with acks=0 named only topics that are refused here',
    };
  }
  const kept = requestWith(context, produceRequestCodec, keeping(request, plan));
  const thenEnds = 'a Produce with acks=0 named topics that are refused here';
  return { kind: 'forward', request: kept, hasResponse: false, thenEnds };
}

function refuseAll(context: RequestContext, refused: readonly RefusedTopic[]): Disposition {
  const { header } = context;
  const session = new ThrottledSession(context.session);
  const options = { version: header.apiVersion, mayWait: true };
  const response = refuseProduce(session, refused, options).then((answers) => {
    const message = createProduceResponse({
      responses: [...answers.responses],
      nodeEndpoints: [...answers.nodeEndpoints],
    });
    session.tell(message);
    return responseTo(header, produceResponseCodec, message);
  });
  return { kind: 'answer', response };
}

/** The change of the broker's response, or null when there can be nothing to change. */
function shifting(
  { header, session }: Pick<RequestContext, 'header' | 'session'>,
  plan: Omit<Plan, 'forwarded'>,
  order: readonly TopicProduceData[],
): Rewrite | null {
  const version = header.apiVersion;
  const mayHaveEndpoints = version >= produceEndpointsFrom;
  if (!mayHaveEndpoints && !plan.hasPromoted && plan.refused.length === 0) return null;
  return rewriting(header, produceResponseCodec, (response) => {
    const isShifted = plan.hasPromoted && shiftPromoted(session, response);
    const isDone = plan.refused.length === 0 && response.nodeEndpoints.length === 0;
    return isDone ? dropLost(response) || isShifted : complete(response, isShifted);
  });

  async function complete(response: ProduceResponse, isShifted: boolean): Promise<boolean> {
    const isAdvertised = await advertiseNodes(session.services, response.nodeEndpoints);
    if (plan.refused.length > 0) {
      const asking = new ThrottledSession(session);
      const answers = await refuseProduce(asking, plan.refused, { version, mayWait: false });
      asking.tell(response);
      response.responses = inOrder(order, [...response.responses, ...answers.responses]);
      const known = new Set(response.nodeEndpoints.map(({ nodeId }) => nodeId));
      response.nodeEndpoints.push(
        ...answers.nodeEndpoints.filter(({ nodeId }) => !known.has(nodeId)),
      );
    }
    const isDropped = dropLost(response);
    return plan.refused.length > 0 || isShifted || isDropped || isAdvertised;
  }
}

function dropLost({ responses, nodeEndpoints }: ProduceResponse): boolean {
  const partitions = responses.flatMap(({ partitionResponses }) => partitionResponses);
  return dropLostHints(nodeEndpoints, partitions);
}

function inOrder(
  order: readonly TopicProduceData[],
  responses: readonly TopicProduceResponse[],
): TopicProduceResponse[] {
  const key = (topic: { name: string; topicId: string }): string =>
    `${topic.topicId}/${topic.name}`;
  const positions = new Map(order.map((topic, index) => [key(topic), index]));
  const position = (topic: TopicProduceResponse): number =>
    positions.get(key(topic)) ?? order.length;
  return [...responses].sort((left, right) => position(left) - position(right));
}

function shiftPromoted(session: SessionView, response: ProduceResponse): boolean {
  let isChanged = false;
  for (const topic of response.responses) {
    const standing = topicStanding(session.services.directory, topic);
    if (standing.kind !== 'known') continue;
    for (const partition of topic.partitionResponses) {
      shiftPartition(session.services, standing.view, partition);
    }
    isChanged = true;
  }
  return isChanged;
}

function shiftPartition(
  services: GatewayServices,
  view: TopicView,
  response: PartitionProduceResponse,
): void {
  const partition = view.partition(response.index);
  const extent = openNativeExtent(partition);
  if (partition === undefined || extent === undefined) return;
  if (response.baseOffset >= 0n) response.baseOffset += extent.offsetShift;
  if (response.logStartOffset >= 0n) {
    const nativeStart = nativeOffset(response.logStartOffset);
    const place = { topicId: view.topicId, partition: response.index, native: extent };
    response.logStartOffset = promotedStart(services, place, partition, nativeStart);
  }
  const { currentLeader } = response;
  if (currentLeader.leaderEpoch >= 0) currentLeader.leaderEpoch += extent.epochShift;
}

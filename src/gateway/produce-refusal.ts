// Produce requests as far as they are not the destination's: which topics are refused, and with
// what. Owns the verdicts and the building of error answers. Invariant: no record ever goes to a
// shell topic while it is mirrored (R3); a retriable answer to a writer that has to wait comes
// late, so that it does not spin.
import { setTimeout as delay } from 'node:timers/promises';
import type { TopicProduceData } from '../../protocol/generated/produce-request.ts';
import {
  createLeaderIdAndEpoch,
  createNodeEndpoint,
  createPartitionProduceResponse,
  createTopicProduceResponse,
  type NodeEndpoint,
  type TopicProduceResponse,
} from '../../protocol/generated/produce-response.ts';
import { ErrorCode } from '../../protocol/index.ts';
import { ClusterError } from '../cluster/cluster.ts';
import { AclOperation, authorize } from './authorizer.ts';
import type { SessionView } from './handler.ts';
import { findLeaders, hintEndpoints, type LeaderHint, type LeaderHints } from './node-endpoints.ts';
import type { OwnTopics } from './own-topics.ts';
import { mirrorRefusal, ownTopicRefusal, ownTransactionRefusal, type Refusal } from './refusals.ts';
import type { TopicView } from './topic-directory.ts';
import { topicStanding } from './topic-standing.ts';

export type ProduceVerdict =
  | { readonly kind: 'forward'; readonly view: TopicView | null }
  | { readonly kind: 'own' }
  /** The request is one of the state's own transaction. */
  | { readonly kind: 'ownTransaction' }
  | { readonly kind: 'readOnly'; readonly view: TopicView }
  /** A mirror that is switching, or a topic of which we cannot tell: try again here. */
  | { readonly kind: 'wait' }
  /** The link node does not lead it: go to whom the metadata (or the hint) names. */
  | { readonly kind: 'elsewhere'; readonly name: string | null };

export interface RefusedTopic {
  readonly topic: TopicProduceData;
  readonly verdict: Exclude<ProduceVerdict, { kind: 'forward' }>;
}

export interface RefusedAnswers {
  readonly responses: readonly TopicProduceResponse[];
  readonly nodeEndpoints: readonly NodeEndpoint[];
}

const hintsFrom = 10;
const waitMs = 200;

export function produceVerdict(
  session: SessionView,
  ownTopics: OwnTopics,
  topic: { readonly name: string; readonly topicId: string },
): ProduceVerdict {
  if (ownTopics.has(topic)) return { kind: 'own' };
  const standing = topicStanding(session.services.directory, topic);
  if (standing.kind === 'unsettled') return { kind: 'wait' };
  const isAtLinkNode = session.role.kind === 'link';
  if (standing.kind === 'ordinary') {
    const name = topic.name === '' ? null : topic.name;
    return isAtLinkNode ? { kind: 'elsewhere', name } : { kind: 'forward', view: null };
  }
  const { view } = standing;
  if (view.mode === 'mirror') return { kind: 'readOnly', view };
  if (view.mode === 'switching') return { kind: 'wait' };
  return isAtLinkNode ? { kind: 'elsewhere', name: view.name } : { kind: 'forward', view };
}

/**
 * The answers for refused topics. `mayWait`: nothing else in the request has to be answered soon.
 */
export async function refuseProduce(
  session: SessionView,
  refused: readonly RefusedTopic[],
  options: { readonly version: number; readonly mayWait: boolean },
): Promise<RefusedAnswers> {
  const { version, mayWait } = options;
  const readOnly = await readOnlyRefusals(session, refused);
  const elsewhere = refused.flatMap(({ verdict }) =>
    verdict.kind === 'elsewhere' && verdict.name !== null ? [verdict.name] : [],
  );
  const hints =
    version >= hintsFrom && elsewhere.length > 0 ? await hintsFor(session, elsewhere) : noHints;
  if (mayWait && refused.some(({ verdict }) => verdict.kind === 'wait')) await holdBack(session);
  const leaders: number[] = [];
  const responses = onceEach(refused).map(({ topic, verdict, indexes }) => {
    const refusal = refusalOf(verdict, readOnly);
    const known = verdict.kind === 'elsewhere' ? hints.get(verdict.name ?? '') : undefined;
    return createTopicProduceResponse({
      name: topic.name,
      topicId: topic.topicId,
      partitionResponses: [...indexes].map((index) => {
        const hint = known?.get(index);
        if (hint) leaders.push(hint.leaderId);
        return errorAnswer(index, refusal, hint);
      }),
    });
  });
  const nodeEndpoints = hintEndpoints(session.services, leaders).map((endpoint) =>
    createNodeEndpoint({ ...endpoint }),
  );
  return { responses, nodeEndpoints };
}

interface RefusedOnce extends RefusedTopic {
  readonly indexes: Set<number>;
}

/** As at a broker: a partition that is named more than once has one answer. */
function onceEach(refused: readonly RefusedTopic[]): readonly RefusedOnce[] {
  const topics = new Map<string, RefusedOnce>();
  for (const one of refused) {
    const { name, topicId, partitionData } = one.topic;
    const key = `${topicId}/${name}`;
    const once = topics.get(key) ?? { ...one, indexes: new Set() };
    topics.set(key, once);
    for (const { index } of partitionData) once.indexes.add(index);
  }
  return [...topics.values()];
}

const noHints: LeaderHints = new Map();

/** Hints only save a round trip, so going without them is no error. */
async function hintsFor(session: SessionView, names: readonly string[]): Promise<LeaderHints> {
  try {
    return await findLeaders(session, names);
  } catch (error) {
    if (error instanceof ClusterError) return noHints;
    throw error;
  }
}

/** Who may not write anyway is told that (29); who may is told that this is a mirror. */
async function readOnlyRefusals(
  session: SessionView,
  refused: readonly RefusedTopic[],
): Promise<ReadonlyMap<TopicView, Refusal>> {
  const views = refused.flatMap(({ verdict }) =>
    verdict.kind === 'readOnly' ? [verdict.view] : [],
  );
  if (views.length === 0) return new Map();
  const names = views.map(({ name }) => name);
  const rights = await authorize(session, names, AclOperation.WRITE);
  return new Map(
    views.map((view) => {
      const isForbidden = rights.get(view.name) === ErrorCode.TOPIC_AUTHORIZATION_FAILED;
      return [view, isForbidden ? forbidden : mirrorRefusal(view, 'it cannot be written to')];
    }),
  );
}

const forbidden: Refusal = {
  errorCode: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
  errorMessage: 'not authorized to write to this topic',
};

const notLeader: Refusal = {
  errorCode: ErrorCode.NOT_LEADER_OR_FOLLOWER,
  errorMessage: 'this node does not lead the partition now',
};

function refusalOf(
  verdict: RefusedTopic['verdict'],
  readOnly: ReadonlyMap<TopicView, Refusal>,
): Refusal {
  if (verdict.kind === 'own') return ownTopicRefusal();
  if (verdict.kind === 'ownTransaction') return ownTransactionRefusal;
  return (verdict.kind === 'readOnly' ? readOnly.get(verdict.view) : undefined) ?? notLeader;
}

function errorAnswer(index: number, refusal: Refusal, hint: LeaderHint | undefined) {
  return createPartitionProduceResponse({
    index,
    ...refusal,
    baseOffset: -1n,
    ...(hint === undefined ? {} : { currentLeader: createLeaderIdAndEpoch({ ...hint }) }),
  });
}

/** Holds a retriable refusal back for a moment; ends early when the client is gone. */
export async function holdBack(session: SessionView): Promise<void> {
  try {
    await delay(waitMs, undefined, { signal: session.closed });
  } catch (error) {
    if (!session.closed.aborted) throw error;
  }
}

// Who may read (or write) a topic that we answer for: asked of the destination, with the client's
// own rights, by Metadata with authorised operations on the client's own upstream connection
// (design §3). Owns the cache of one connection; refuses to know users or ACLs. Invariant: nothing
// is allowed without an answer that says so and is younger than 30 s. Never called inside a SASL
// exchange: handlers run after it.
import {
  createMetadataRequest,
  createMetadataRequestTopic,
  metadataRequestCodec,
} from '../../protocol/generated/metadata-request.ts';
import { metadataResponseCodec } from '../../protocol/generated/metadata-response.ts';
import { ErrorCode } from '../../protocol/index.ts';
import { ClusterError } from '../cluster/cluster.ts';
import type { SessionView } from './handler.ts';
import { apiOf } from './messages.ts';

/** Kafka's numbers of ACL operations; each is a bit of `topicAuthorizedOperations`. */
export const AclOperation = {
  READ: 3,
  WRITE: 4,
  DELETE: 6,
  ALTER: 7,
  DESCRIBE: 8,
  ALTER_CONFIGS: 11,
} as const;
export type AclOperation = (typeof AclOperation)[keyof typeof AclOperation];

/** An allowed topic is asked for again after this. */
export const verdictAgeMsMax = 30_000;
/**
 * A refusal may be lifted, and a topic made, at any moment: it is kept just long enough to damp
 * retries.
 */
const refusalAgeMsMax = 1_000;
/** Of one connection. */
const cachedTopicsMax = 10_000;
/** No topic has a longer name; one that a client makes up is neither asked for nor kept (R14). */
const topicNameCharactersMax = 249;

const metadataApi = apiOf(metadataRequestCodec, metadataResponseCodec, { min: 8 });

interface Answer {
  readonly askedAtMs: number;
  readonly errorCode: number;
  readonly operations: number;
}

interface Cache {
  readonly answers: Map<string, Answer>;
  /** Of them so many are in the common count. */
  counted: number;
}

const cacheKey = Symbol('authorizer');

/**
 * The error for each topic name: NONE when the operation is allowed, TOPIC_AUTHORIZATION_FAILED
 * when not, UNKNOWN_TOPIC_OR_PARTITION as the destination says; NOT_LEADER_OR_FOLLOWER (retriable)
 * when nobody answers.
 */
export async function authorize(
  session: SessionView,
  topics: Iterable<string>,
  operation: AclOperation,
): Promise<ReadonlyMap<string, number>> {
  const cache = cacheOf(session);
  const nowMs = session.services.now();
  const names = [...new Set(topics)];
  const stale = names.filter((name) => {
    if (name.length > topicNameCharactersMax) return false;
    const answer = cache.answers.get(name);
    if (answer === undefined) return true;
    const ageMsMax =
      verdict(answer, operation) === ErrorCode.NONE ? verdictAgeMsMax : refusalAgeMsMax;
    return nowMs - answer.askedAtMs >= ageMsMax;
  });
  if (stale.length > 0) await ask(session, cache, stale);
  const verdicts = new Map(
    names.map((name) => [
      name,
      name.length > topicNameCharactersMax
        ? ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        : verdict(cache.answers.get(name), operation),
    ]),
  );
  // Only now: one request may name more topics than are kept.
  evict(session, cache);
  return verdicts;
}

/** The destination went away; the session itself reports that and ends with its upstream. */
export function isUnanswered(error: unknown): boolean {
  if (!(error instanceof ClusterError)) return false;
  return error.code === 'UNREACHABLE' || error.code === 'CLOSED' || error.code === 'TIMEOUT';
}

function cacheOf(session: SessionView): Cache {
  const known = session.scratch.get(cacheKey) as Cache | undefined;
  if (known !== undefined) return known;
  const cache: Cache = { answers: new Map(), counted: 0 };
  session.scratch.set(cacheKey, cache);
  const { verdicts } = session.services;
  session.closed.addEventListener('abort', () => {
    verdicts.change(-cache.counted);
    cache.counted = 0;
    cache.answers.clear();
  });
  return cache;
}

function verdict(answer: Answer | undefined, operation: AclOperation): number {
  if (answer === undefined) return ErrorCode.NOT_LEADER_OR_FOLLOWER;
  // While a leader is elected the rights are there all the same.
  if (answer.errorCode !== ErrorCode.NONE && answer.errorCode !== ErrorCode.LEADER_NOT_AVAILABLE) {
    return answer.errorCode;
  }
  const isAllowed = ((answer.operations >> operation) & 1) === 1;
  return isAllowed ? ErrorCode.NONE : ErrorCode.TOPIC_AUTHORIZATION_FAILED;
}

async function ask(
  session: SessionView,
  { answers }: Cache,
  names: readonly string[],
): Promise<void> {
  for (const name of names) answers.delete(name);
  const askedAtMs = session.services.now();
  const request = createMetadataRequest({
    topics: names.map((name) => createMetadataRequestTopic({ name })),
    allowAutoTopicCreation: false,
    includeTopicAuthorizedOperations: true,
  });
  try {
    const response = await session.callUpstream(metadataApi, request);
    for (const { name, errorCode, topicAuthorizedOperations } of response.topics) {
      if (name !== null) {
        answers.set(name, { askedAtMs, errorCode, operations: topicAuthorizedOperations });
      }
    }
  } catch (error) {
    // No answer means no: nothing was cached, so every name is refused retriably.
    if (!isUnanswered(error)) throw error;
  }
}

/** The oldest answers go first: `ask` puts renewed ones at the end. */
function evict(session: SessionView, cache: Cache): void {
  const { verdicts } = session.services;
  const { counted } = cache;
  const most = session.closed.aborted ? 0 : Math.min(cachedTopicsMax, verdicts.most(counted));
  for (const name of cache.answers.keys()) {
    if (cache.answers.size <= most) break;
    cache.answers.delete(name);
  }
  cache.counted = cache.answers.size;
  verdicts.change(cache.counted - counted);
}

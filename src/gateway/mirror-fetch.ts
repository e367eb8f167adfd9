// Fetch on the link node: mirrors out of the mirror log, with a long poll of its own; everything
// else is led elsewhere. No fetch sessions: session id 0 is always a legal answer, and a full
// request states all that we need, so a restart or another link node has nothing to remember.
// Refuses to know the destination's offsets. Invariants: epochs are fenced before offsets are
// looked at; an error ends the wait at once.
import type {
  FetchPartition,
  FetchRequest,
  FetchTopic,
} from '../../protocol/generated/fetch-request.ts';
import {
  createEpochEndOffset,
  createPartitionData,
  fetchResponseCodec,
  type PartitionData,
} from '../../protocol/generated/fetch-response.ts';
import { ErrorCode, type RequestHeader } from '../../protocol/index.ts';
import type { MirrorLog } from '../../storage/mirror-log.ts';
import { virtualOffset } from '../timeline/offsets.ts';
import { extentAt, lastExtent } from '../timeline/timeline.ts';
import { AnswerRoom } from './answer-room.ts';
import { AclOperation, authorize, isUnanswered, verdictAgeMsMax } from './authorizer.ts';
import { type ExtentAnswer, readExtent, storageErrorCode, unreadable } from './extent-reader.ts';
import {
  completeHints,
  currentLeaderFrom,
  fetchKey,
  fromExtent,
  hintFor,
  refusal,
  sessionlessResponse,
  setLeader,
} from './fetch-answers.ts';
import type { GatewayServices, SessionView } from './handler.ts';
import { responseTo } from './messages.ts';
import { findLeaders, type LeaderHints } from './node-endpoints.ts';
import { ParkedFetch } from './parked-fetch.ts';
import type { AnswerMemory } from './read-memory.ts';
import { ThrottledSession } from './throttled-session.ts';
import type { PartitionView, TopicView } from './topic-directory.ts';
import { isMirrored, mirrorLeaderEpoch, topicStanding } from './topic-standing.ts';

/**
 * What one answer may hold, whatever the client allows: a broker's default of `fetch.max.bytes`.
 */
export const responseBytesMax = 55 * 1024 * 1024;

/** One batch of a partition may be so large, whatever the client allows for it. */
const partitionBytesLeast = 1024 * 1024;

/**
 * What an answer may hold. As at a broker the first batch passes whatever the client allows: one
 * that allows less (even nothing) would ask for it for ever. 0: too much is held for others.
 */
export function answerBytesMax({ held }: GatewayServices, request: FetchRequest): number {
  let partitionsBytes = 0;
  for (const { partitions } of request.topics) {
    for (const { partitionMaxBytes } of partitions) {
      partitionsBytes += Math.max(partitionBytesLeast, partitionMaxBytes);
    }
  }
  return held.room(Math.max(1, Math.min(request.maxBytes, responseBytesMax, partitionsBytes)));
}

/** Nobody waits for more than an answer may hold, nor for anything when nothing was asked. */
function isEnough(pass: Pass, { minBytes, maxBytes }: FetchRequest): boolean {
  if (pass.mustAnswer || pass.answers.size === 0) return true;
  const { bytes, bytesMax } = pass.room;
  return bytesMax > 0 && bytes >= Math.min(minBytes, maxBytes, bytesMax);
}

interface Pass {
  readonly answers: Map<string, PartitionData>;
  readonly logs: Set<MirrorLog>;
  readonly topics: Set<string>;
  readonly room: AnswerRoom;
  readonly memory: AnswerMemory;
  /** An error or a divergence: the client must hear of it now. */
  mustAnswer: boolean;
}

/** Null when the client went away meanwhile. The answer's records lie in `memory`. */
export async function fetchFromMirrors(
  client: SessionView,
  header: RequestHeader,
  request: FetchRequest,
  memory: AnswerMemory,
): Promise<readonly Buffer[] | null> {
  const session = new ThrottledSession(client);
  const { services, closed } = session;
  const deadlineMs = services.now() + request.maxWaitMs;
  let parked: ParkedFetch | undefined;
  try {
    for (;;) {
      const bytesMax = answerBytesMax(services, request);
      const pass = await services.held.during(bytesMax, () =>
        onePass(session, header, request, { room: new AnswerRoom(bytesMax), memory }),
      );
      const remainingMs = deadlineMs - services.now();
      if (closed.aborted) return null;
      if (isEnough(pass, request) || remainingMs <= 0) {
        const response = sessionlessResponse(request, pass.answers);
        completeHints(services, response, header.apiVersion);
        session.tell(response);
        return responseTo(header, fetchResponseCodec, response);
      }
      memory.giveBack();
      if (parked === undefined || !parked.covers(pass.logs)) {
        parked?.close();
        const { logs, topics } = pass;
        parked = new ParkedFetch({ logs, topics, directory: services.directory, closed });
        // Once more without a wait: something may have come between reading and subscribing.
        continue;
      }
      // Rights are asked for again while a fetch is parked: a lost one ends it with 29.
      await parked.wait(Math.min(remainingMs, verdictAgeMsMax));
    }
  } finally {
    parked?.close();
  }
}

async function onePass(
  session: SessionView,
  header: RequestHeader,
  request: FetchRequest,
  { room, memory }: Pick<Pass, 'room' | 'memory'>,
): Promise<Pass> {
  const { directory } = session.services;
  const pass: Pass = {
    answers: new Map(),
    logs: new Set(),
    topics: new Set(),
    room,
    memory,
    mustAnswer: false,
  };
  const places = request.topics.map((topic) => ({
    topic,
    standing: topicStanding(directory, { name: topic.topic, topicId: topic.topicId }),
  }));
  const names = places.flatMap(({ topic, standing }) => {
    if (standing.kind === 'known') return [standing.view.name];
    return standing.kind === 'ordinary' && topic.topic !== '' ? [topic.topic] : [];
  });
  const verdicts = await authorize(session, names, AclOperation.READ);
  const promoted: { readonly name: string; readonly data: PartitionData }[] = [];
  for (const { topic, standing } of places) {
    const view = standing.kind === 'known' ? standing.view : undefined;
    const name = view?.name ?? topic.topic;
    pass.topics.add(name);
    const refused = topicRefusal(standing.kind, name, verdicts.get(name));
    for (const partition of topic.partitions) {
      if (refused === undefined && view !== undefined && isMirrored(view)) {
        await room.begin(Math.max(1, partition.partitionMaxBytes), async (bytesMax) => {
          const fetch = { view, partition, pass, header, bytesMax };
          return add(pass, topic, await fetchPartition(session, request, fetch));
        });
        continue;
      }
      const data = refusal(partition.partition, refused ?? ErrorCode.NOT_LEADER_OR_FOLLOWER);
      add(pass, topic, data);
      if (refused === undefined && view !== undefined) promoted.push({ name, data });
    }
  }
  await room.settled();
  if (promoted.length > 0 && header.apiVersion >= currentLeaderFrom) {
    const hints = await leadersOf(session, new Set(promoted.map(({ name }) => name)));
    for (const { name, data } of promoted) {
      setLeader(data, hintFor(hints, name, data.partitionIndex), header.apiVersion);
    }
  }
  return pass;
}

/**
 * Why nothing of a topic is answered here, or undefined when it is ours and the client may read it.
 */
function topicRefusal(
  standing: 'ordinary' | 'unsettled' | 'known',
  name: string,
  verdict: number | undefined,
): number | undefined {
  if (standing === 'unsettled') return ErrorCode.NOT_LEADER_OR_FOLLOWER;
  if (name === '') return ErrorCode.UNKNOWN_TOPIC_ID;
  if (verdict !== ErrorCode.NONE) return verdict ?? ErrorCode.NOT_LEADER_OR_FOLLOWER;
  return standing === 'ordinary' ? ErrorCode.NOT_LEADER_OR_FOLLOWER : undefined;
}

/** Returns how many bytes of records it holds. */
function add(pass: Pass, topic: FetchTopic, data: PartitionData): number {
  pass.answers.set(fetchKey(topic, data.partitionIndex), data);
  if (data.errorCode !== ErrorCode.NONE || data.divergingEpoch.epoch >= 0) pass.mustAnswer = true;
  return data.records?.length ?? 0;
}

/**
 * Hints are a help, not needed (rule 6): without an answer the client looks the leader up itself.
 */
export async function leadersOf(
  session: SessionView,
  topics: Iterable<string>,
): Promise<LeaderHints | undefined> {
  try {
    return await findLeaders(session, [...topics]);
  } catch (error) {
    if (isUnanswered(error)) return undefined;
    throw error;
  }
}

interface PartitionFetch {
  readonly view: TopicView;
  readonly partition: FetchPartition;
  readonly pass: Pass;
  readonly header: RequestHeader;
  /** What is left for it. Zero or less: nothing is. */
  readonly bytesMax: number;
}

async function fetchPartition(
  session: SessionView,
  request: FetchRequest,
  fetch: PartitionFetch,
): Promise<PartitionData> {
  const { view, partition, pass, header, bytesMax } = fetch;
  const index = partition.partition;
  const place = view.partition(index);
  if (place === undefined) return refusal(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION);
  const fenced = epochError(partition.currentLeaderEpoch, mirrorLeaderEpoch(view, index));
  if (fenced !== ErrorCode.NONE) {
    const leaderEpoch = mirrorLeaderEpoch(view, index);
    const hint = { leaderId: session.services.linkNodeId, leaderEpoch };
    return setLeader(refusal(index, fenced), hint, header.apiVersion);
  }
  if (place.isTruncating === true) return refusal(index, ErrorCode.NOT_LEADER_OR_FOLLOWER);
  if (place.log === null) return refusal(index, ErrorCode.KAFKA_STORAGE_ERROR);
  pass.logs.add(place.log);
  const { log } = place;
  const { memory } = pass;
  return fetchFromLog(session, { view, place, log, partition, request, bytesMax, memory });
}

interface LogFetch {
  readonly view: TopicView;
  readonly place: PartitionView;
  readonly log: MirrorLog;
  readonly partition: FetchPartition;
  readonly request: FetchRequest;
  /** One batch always passes while it is above zero, so that no client is stuck on a large one. */
  readonly bytesMax: number;
  readonly memory: AnswerMemory;
}

async function fetchFromLog(session: SessionView, fetch: LogFetch): Promise<PartitionData> {
  const { view, place, log, partition, request, bytesMax, memory } = fetch;
  const index = partition.partition;
  const diverging = divergence(log, partition);
  if (diverging !== undefined) {
    return createPartitionData({
      partitionIndex: index,
      highWatermark: log.visibleEnd,
      lastStableOffset: log.lastStableOffset,
      logStartOffset: log.logStart,
      divergingEpoch: createEpochEndOffset(diverging),
      abortedTransactions: null,
      records: Buffer.alloc(0),
    });
  }
  const offset = virtualOffset(partition.fetchOffset);
  const extent = extentAt(place.timeline, offset) ?? lastExtent(place.timeline);
  // An earlier native extent (after a fail-back) is the shell's: this version makes none and reads
  // none.
  if (extent.where === 'native') return refusal(index, ErrorCode.KAFKA_STORAGE_ERROR);
  const read = memory.forRead();
  let answer: ExtentAnswer;
  try {
    answer = await readExtent({
      log,
      extent,
      offset,
      readCommitted: request.isolationLevel === 1,
      bytesMax,
      memory: read.take,
    });
  } catch (error) {
    storageErrorCode(session.services, { topic: view.name, partition: index, log }, error);
    answer = unreadable;
  }
  read.keepOnly(answer.records);
  return fromExtent(index, answer);
}

/** The fencing that each leader does: older than ours 74, newer than ours 75. */
export function epochError(requested: number, current: number): number {
  if (requested < 0 || requested === current) return ErrorCode.NONE;
  return requested < current ? ErrorCode.FENCED_LEADER_EPOCH : ErrorCode.UNKNOWN_LEADER_EPOCH;
}

export interface Divergence {
  readonly epoch: number;
  readonly endOffset: bigint;
}

/** Where the client's log and ours part, if its last fetched epoch says that they do. */
function divergence(log: MirrorLog, partition: FetchPartition): Divergence | undefined {
  const { lastFetchedEpoch, fetchOffset } = partition;
  // Out of range, which a broker says first; or appended and not yet visible: the client waits.
  if (lastFetchedEpoch < 0 || fetchOffset < log.logStart) return undefined;
  if (fetchOffset > log.visibleEnd && fetchOffset <= log.end) return undefined;
  const { epoch, endOffset } = log.epochEnd(lastFetchedEpoch);
  if (endOffset < 0n) return undefined;
  // As a broker: an epoch before the first one "ends" where that begins.
  return divergingAt(partition, { epoch: epoch < 0 ? lastFetchedEpoch : epoch, endOffset });
}

/** Whether a client can have gone on to where it is from the end of its last epoch. */
export function divergingAt(
  { lastFetchedEpoch, fetchOffset }: FetchPartition,
  end: Divergence,
): Divergence | undefined {
  return end.epoch < lastFetchedEpoch || end.endOffset < fetchOffset ? end : undefined;
}

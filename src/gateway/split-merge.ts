// A fetch at a virtual broker: which of its partitions the broker behind it answers (shifted or as
// they are), which a copy answers, and which nobody here may; and the merging of both sides in the
// order of the request. Refuses to know byte positions. Invariants: rights come first, as at a
// broker; one partition's answer comes from one side only; a copy is left for the shell only when
// no batch of it lies at or after the offset; a merged answer never has a session.
import {
  createFetchRequest,
  createFetchTopic,
  type FetchPartition,
  type FetchRequest,
  type FetchTopic,
} from '../../protocol/generated/fetch-request.ts';
import {
  createEpochEndOffset,
  createFetchResponse,
  fetchResponseCodec,
  type PartitionData,
} from '../../protocol/generated/fetch-response.ts';
import { ErrorCode, type RequestHeader } from '../../protocol/index.ts';
import { epochEndInCopy } from '../timeline/merged-view.ts';
import { virtualEpoch, virtualOffset } from '../timeline/offsets.ts';
import {
  currentLeaderEpochToNative,
  extentAt,
  type MirrorExtent,
  type NativeExtent,
  toVirtualBound,
} from '../timeline/timeline.ts';
import { AclOperation, authorize } from './authorizer.ts';
import {
  type ExtentAnswer,
  outOfRange,
  readExtent,
  storageErrorCode,
  unreadable,
} from './extent-reader.ts';
import {
  completeHints,
  currentLeaderFrom,
  fetchKey,
  fromExtent,
  hintFor,
  inRequestOrder,
  refusal,
  setLeader,
} from './fetch-answers.ts';
import { partitionToNative, type Replaced } from './fetch-shift.ts';
import type { GatewayServices, SessionView } from './handler.ts';
import { responseTo } from './messages.ts';
import { answerBytesMax, type Divergence, divergingAt, leadersOf } from './mirror-fetch.ts';
import { confirmedEpoch, knownBounds, outlivedBy, type ShellPlace } from './shell-facts.ts';
import { askShells, type CopyAsked, fetchShells } from './shell-fetch.ts';
import { ThrottledSession } from './throttled-session.ts';
import type { PartitionView, TopicView } from './topic-directory.ts';
import {
  isMirrored,
  mirrorLeaderEpoch,
  openNativeExtent,
  topicStanding,
} from './topic-standing.ts';

/** `extent` null: an ordinary partition. */
interface UpstreamPart {
  readonly kind: 'upstream';
  readonly extent: NativeExtent | null;
}

/** Answered out of what we hold: a read of the copy, or what the copy knows of its epochs. */
interface CopyPart {
  readonly kind: 'copy';
  readonly view: TopicView;
  readonly place: PartitionView;
  readonly shell: ShellPlace;
  readonly from: MirrorExtent | { readonly where: 'diverging'; readonly end: Divergence };
}

interface RefusedPart {
  readonly kind: 'refused';
  readonly errorCode: number;
  /** Undefined while we cannot tell. */
  readonly view: TopicView | undefined;
  /** Whether the client should hear who leads it. */
  readonly hasLeader: boolean;
}

type Part = UpstreamPart | CopyPart | RefusedPart;

interface Item {
  readonly topic: FetchTopic;
  readonly partition: FetchPartition;
  readonly part: Part;
}

export interface SplitFetch {
  readonly items: readonly Item[];
  /** Something that the broker behind us cannot answer. */
  readonly hasLocal: boolean;
  /** Something whose offsets have to be shifted. */
  readonly hasShifted: boolean;
}

const asItIs: Part = { kind: 'upstream', extent: null };

export function splitFetch(services: GatewayServices, request: FetchRequest): SplitFetch {
  const items: Item[] = [];
  let hasLocal = false;
  let hasShifted = false;
  for (const topic of request.topics) {
    const standing = topicStanding(services.directory, {
      name: topic.topic,
      topicId: topic.topicId,
    });
    for (const partition of topic.partitions) {
      let part = asItIs;
      if (standing.kind === 'unsettled') {
        const errorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER;
        part = { kind: 'refused', errorCode, view: undefined, hasLeader: false };
      } else if (standing.kind === 'known') {
        part = partOf(services, standing.view, partition);
      }
      items.push({ topic, partition, part });
      if (part.kind !== 'upstream') hasLocal = true;
      else if (part.extent !== null) hasShifted = true;
    }
  }
  return { items, hasLocal, hasShifted };
}

function partOf(services: GatewayServices, view: TopicView, partition: FetchPartition): Part {
  const refused = (errorCode: number, { hasLeader }: { hasLeader: boolean }): RefusedPart => ({
    kind: 'refused',
    errorCode,
    view,
    hasLeader,
  });
  const notLeader = refused(ErrorCode.NOT_LEADER_OR_FOLLOWER, { hasLeader: true });
  if (isMirrored(view)) return notLeader;
  const place = view.partition(partition.partition);
  if (place === undefined) return asItIs;
  const native = openNativeExtent(place);
  if (native === undefined) return notLeader;
  const leaderEpoch = virtualEpoch(partition.currentLeaderEpoch);
  if (currentLeaderEpochToNative(native, leaderEpoch) === 'fenced') {
    return refused(ErrorCode.FENCED_LEADER_EPOCH, { hasLeader: true });
  }
  const extent = extentAt(place.timeline, virtualOffset(partition.fetchOffset));
  const end = divergenceInCopy(place, native, partition);
  if (extent === native && end === undefined) return { kind: 'upstream', extent: native };
  const from = end === undefined ? extent : ({ where: 'diverging', end } as const);
  if (from !== undefined && from.where !== 'native') {
    const shell = { topicId: view.topicId, partition: place.partition, native };
    const isFenced = leaderEpoch >= 0 && leaderEpoch < confirmedEpoch(services, shell);
    if (isFenced) return refused(ErrorCode.FENCED_LEADER_EPOCH, { hasLeader: true });
    return { kind: 'copy', view, place, shell, from };
  }
  // Below the first extent nothing ever was. An earlier native extent (after a fail-back) would be
  // the shell's: this version makes none and reads none.
  const isBelow = extent === undefined;
  const errorCode = isBelow ? ErrorCode.OFFSET_OUT_OF_RANGE : ErrorCode.KAFKA_STORAGE_ERROR;
  return refused(errorCode, { hasLeader: false });
}

/**
 * Where a client's log leaves ours, when its last epoch is one of before the promotion: of those
 * the shell's broker knows nothing. A copy that is not whole says nothing of where its epochs end.
 */
function divergenceInCopy(
  { log }: PartitionView,
  native: NativeExtent,
  partition: FetchPartition,
): Divergence | undefined {
  const epoch = virtualEpoch(partition.lastFetchedEpoch);
  if (epoch < 0 || epoch >= native.firstEpoch) return undefined;
  if (log === null || log.visibleEnd < native.start) return undefined;
  // Out of range, which a broker says first.
  if (partition.fetchOffset < log.logStart) return undefined;
  return divergingAt(partition, epochEndInCopy(native, epoch, log.epochEnd(epoch)));
}

/** The request for the broker: only its own partitions, in native offsets. */
export function upstreamRequest(request: FetchRequest, items: readonly Item[]): FetchRequest {
  const topics = new Map<FetchTopic, FetchPartition[]>();
  for (const { topic, partition, part } of items) {
    if (part.kind !== 'upstream') continue;
    const partitions = topics.get(topic) ?? [];
    topics.set(topic, partitions);
    partitions.push(part.extent === null ? partition : partitionToNative(part.extent, partition));
  }
  return createFetchRequest({
    ...request,
    topics: [...topics].map(([topic, partitions]) => createFetchTopic({ ...topic, partitions })),
  });
}

/** Answers a full request that needs more than the broker behind us. */
export async function fetchMerged(
  client: SessionView,
  header: RequestHeader,
  request: FetchRequest,
  { split, versionUpstream }: Omit<LocalAsk, 'bytesMax'>,
): Promise<readonly Buffer[]> {
  const session = new ThrottledSession(client);
  const { held } = session.services;
  const bytesMax = answerBytesMax(session.services, request);
  const { answers, items, bytes } = await held.during(bytesMax, () =>
    answerLocally(session, header, request, { split, bytesMax, versionUpstream }),
  );
  const upstream = upstreamRequest(request, items);
  let errorCode: number = ErrorCode.NONE;
  if (upstream.topics.length > 0) {
    // Sessionless, which also ends a session that the client may have had; and no wait once there
    // is something to say.
    upstream.sessionEpoch = -1;
    upstream.forgottenTopicsData = [];
    // It is held here until it is merged.
    upstream.maxBytes = Math.max(1, bytesMax - bytes);
    if (answers.size > 0) {
      upstream.maxWaitMs = 0;
      upstream.minBytes = 0;
    }
    const response = await fetchShells(session, versionUpstream, upstream);
    errorCode = response.errorCode;
    for (const topic of response.responses) {
      for (const data of topic.partitions) answers.set(fetchKey(topic, data.partitionIndex), data);
    }
  }
  const isRefused = errorCode !== ErrorCode.NONE;
  const merged = createFetchResponse({
    errorCode,
    responses: isRefused ? [] : inRequestOrder(request.topics, answers),
  });
  completeHints(session.services, merged, header.apiVersion);
  session.tell(merged);
  return responseTo(header, fetchResponseCodec, merged);
}

interface LocalAnswers {
  readonly answers: Map<string, PartitionData>;
  /** As split, but copies that have nothing left are the broker's now. */
  readonly items: readonly Item[];
  readonly bytes: number;
}

interface LocalAsk {
  readonly split: SplitFetch;
  readonly bytesMax: number;
  readonly versionUpstream: number;
}

async function answerLocally(
  session: SessionView,
  header: RequestHeader,
  request: FetchRequest,
  { split, bytesMax, versionUpstream }: LocalAsk,
): Promise<LocalAnswers> {
  const items: Item[] = [];
  const known = split.items.flatMap(({ part }) =>
    part.kind !== 'upstream' && part.view !== undefined ? [part.view.name] : [],
  );
  const verdicts = await authorize(session, known, AclOperation.READ);
  const refused = await askShells(session, versionUpstream, readable(split, verdicts));
  const answers = new Map(refused);
  let bytes = 0;
  for (const item of split.items) {
    const { topic, partition, part } = item;
    items.push(item);
    if (part.kind !== 'copy') continue;
    const key = fetchKey(topic, partition.partition);
    const verdict = verdicts.get(part.view.name) ?? ErrorCode.NOT_LEADER_OR_FOLLOWER;
    if (verdict !== ErrorCode.NONE) {
      answers.set(key, refusal(partition.partition, verdict));
      continue;
    }
    if (refused.has(key)) continue;
    const bytesLeft = bytesMax - bytes;
    const data = await readCopy(session, { request, partition, part, bytesLeft });
    if (data === 'exhausted') {
      items[items.length - 1] = atShellStart(item, part);
    } else {
      answers.set(key, data);
      bytes += data.records?.length ?? 0;
    }
  }
  await answerRefused(session, header, { split, verdicts, answers });
  return { answers, items, bytes };
}

function readable(split: SplitFetch, verdicts: ReadonlyMap<string, number>): readonly CopyAsked[] {
  return split.items.flatMap(({ topic, partition, part }) => {
    if (part.kind !== 'copy' || verdicts.get(part.view.name) !== ErrorCode.NONE) return [];
    return [{ topic, partition, shell: part.shell }];
  });
}

/** A gap at the copy's end: the shell goes on at n. */
function atShellStart(item: Item, part: CopyPart): Item {
  const { native } = part.shell;
  const partition = { ...item.partition, fetchOffset: native.start };
  return { ...item, partition, part: { kind: 'upstream', extent: native } };
}

interface CopyRead {
  readonly request: FetchRequest;
  readonly partition: FetchPartition;
  readonly part: CopyPart;
  /** Of the whole answer; none is left at 0 or below. */
  readonly bytesLeft: number;
}

async function readCopy(
  session: SessionView,
  read: CopyRead,
): Promise<PartitionData | 'exhausted'> {
  const { partition, part } = read;
  const { services } = session;
  const { place, shell } = part;
  const { partition: index, fetchOffset } = partition;
  const shellStart = outlivedBy(services, shell);
  const start = shellStart === null ? null : toVirtualBound(shell.native, shellStart);
  let data: PartitionData;
  if (start !== null && fetchOffset < start) {
    data = fromExtent(index, outOfRange(start));
  } else if (part.from.where === 'diverging') {
    data = refusal(index, ErrorCode.NONE);
    data.logStartOffset = start ?? place.log?.logStart ?? -1n;
    data.divergingEpoch = createEpochEndOffset(part.from.end);
  } else {
    const answer = await readLog(session, read);
    if (answer.isExhausted) return 'exhausted';
    data = fromExtent(index, answer);
  }
  if (data.errorCode === ErrorCode.NONE) Object.assign(data, knownBounds(services, shell));
  return data;
}

async function readLog(
  { services }: SessionView,
  { request, partition, part, bytesLeft }: CopyRead,
): Promise<ExtentAnswer> {
  const { view, place, from } = part;
  const { log } = place;
  const { partition: index, partitionMaxBytes } = partition;
  if (log === null || from.where !== 'mirror') return unreadable;
  try {
    return await readExtent({
      log,
      extent: from,
      offset: partition.fetchOffset,
      readCommitted: request.isolationLevel === 1,
      bytesMax: bytesLeft > 0 ? Math.max(1, Math.min(partitionMaxBytes, bytesLeft)) : 0,
    });
  } catch (error) {
    storageErrorCode(services, { topic: view.name, partition: index, log }, error);
    return unreadable;
  }
}

/**
 * 6 for mirrors names the link node; 74 names the shell's leader, when the destination tells it.
 */
async function answerRefused(
  session: SessionView,
  header: RequestHeader,
  parts: {
    split: SplitFetch;
    verdicts: ReadonlyMap<string, number>;
    answers: Map<string, PartitionData>;
  },
): Promise<void> {
  const { split, verdicts, answers } = parts;
  const fenced = new Set<string>();
  for (const { part } of split.items) {
    if (part.kind !== 'refused' || !part.hasLeader || part.view === undefined) continue;
    if (!isMirrored(part.view)) fenced.add(part.view.name);
  }
  const canHint = header.apiVersion >= currentLeaderFrom;
  const hints = canHint && fenced.size > 0 ? await leadersOf(session, fenced) : undefined;
  for (const { topic, partition, part } of split.items) {
    if (part.kind !== 'refused') continue;
    const index = partition.partition;
    const { errorCode, view, hasLeader } = part;
    const verdict = view === undefined ? undefined : verdicts.get(view.name);
    if (verdict === ErrorCode.TOPIC_AUTHORIZATION_FAILED) {
      answers.set(fetchKey(topic, index), refusal(index, verdict));
      continue;
    }
    let hint: Replaced['hint'];
    if (view !== undefined && isMirrored(view)) {
      const leaderEpoch = mirrorLeaderEpoch(view, index);
      hint = { leaderId: session.services.linkNodeId, leaderEpoch };
    } else if (view !== undefined && hasLeader) {
      hint = hintFor(hints, view.name, index);
    }
    const data = setLeader(refusal(index, errorCode), hint, header.apiVersion);
    answers.set(fetchKey(topic, index), data);
  }
}

// ListOffsets: by sentinel or by time. The link node answers for mirrors out of the mirror log; a
// virtual broker for promoted partitions out of copy and shell as one log (rule 5). Refuses to know
// byte positions. Invariants: READ_COMMITTED never sees beyond the last stable offset; what a copy
// should hold and cannot read is 56, not the shell's offset in its place (R19). As at a broker, a
// partition that is named more than once is answered once, with 42, and nothing of it is looked up.
import {
  createListOffsetsRequest,
  createListOffsetsTopic,
  type ListOffsetsPartition,
  type ListOffsetsRequest,
  listOffsetsRequestCodec,
} from '../../../protocol/generated/list-offsets-request.ts';
import {
  createListOffsetsPartitionResponse,
  createListOffsetsResponse,
  createListOffsetsTopicResponse,
  type ListOffsetsPartitionResponse,
  listOffsetsResponseCodec,
} from '../../../protocol/generated/list-offsets-response.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import type { MirrorLog, TimestampOffset } from '../../../storage/mirror-log.ts';
import { partitionKey } from '../../cluster/partition-key.ts';
import { isCopyOutlived } from '../../timeline/merged-view.ts';
import { nativeEpoch, nativeOffset, virtualEpoch } from '../../timeline/offsets.ts';
import {
  firstNativeOffset,
  type NativeExtent,
  toNativeEpoch,
  toVirtualBound,
  toVirtualEpoch,
} from '../../timeline/timeline.ts';
import { AclOperation } from '../authorizer.ts';
import { storageErrorCode } from '../extent-reader.ts';
import type { Handler, RequestContext } from '../handler.ts';
import { apiOf, decodeBody, responseTo } from '../messages.ts';
import {
  findPlaces,
  isAllOrdinary,
  type Place,
  type PlaceOf,
  type Resolution,
  resolveAll,
  type TopicOf,
} from '../partition-places.ts';
import { askShellStarts, hasCopy, type StartAsked, type ToldStart } from '../shell-starts.ts';
import { ThrottledSession } from '../throttled-session.ts';

const LATEST = -1n;
const EARLIEST = -2n;
const MAX_TIMESTAMP = -3n;
const EARLIEST_LOCAL = -4n;
const LATEST_TIERED = -5n;
const EARLIEST_PENDING_UPLOAD = -6n;

const leaderEpochFrom = 4;
/** Of sentinels the first version that has them; brokers refuse them below it, and all others. */
const sentinelsFrom: ReadonlyMap<bigint, number> = new Map([
  [LATEST, 1],
  [EARLIEST, 1],
  [MAX_TIMESTAMP, 7],
  [EARLIEST_LOCAL, 8],
  [LATEST_TIERED, 9],
  [EARLIEST_PENDING_UPLOAD, 11],
]);

const listOffsetsApi = apiOf(listOffsetsRequestCodec, listOffsetsResponseCodec);

type Answer = ListOffsetsPartitionResponse;
type Outcome = Resolution<ListOffsetsPartition, Answer>;

export const listOffsetsHandler: Handler = (context) => {
  const request = decodeBody(context, listOffsetsRequestCodec);
  const names = request.topics.map(({ name }) => name);
  if (isAllOrdinary(context.session, names)) return { kind: 'forward' };
  return { kind: 'answer', response: answerListOffsets(context, request, names) };
};

async function answerListOffsets(
  context: RequestContext,
  request: ListOffsetsRequest,
  names: readonly string[],
): Promise<readonly Buffer[]> {
  const { header } = context;
  const session = new ThrottledSession(context.session);
  const placeOf = await findPlaces(session, names, AclOperation.DESCRIBE);
  const repeated = repeatedIn(request);
  const starts = await askShellStarts(session, copiesIn(request, placeOf, repeated));
  const hidden: Hidden[] = [];
  const askBroker = async (open: readonly TopicOf<ListOffsetsPartition>[]) => {
    const asked = createListOffsetsRequest({
      ...request,
      topics: open.map(({ name, partitions }) =>
        createListOffsetsTopic({ name, partitions: [...partitions] }),
      ),
    });
    const options = { versionMax: header.apiVersion };
    return (await session.callUpstream(listOffsetsApi, asked, options)).topics;
  };
  const topics = await resolveAll(request.topics, {
    indexOf: ({ partitionIndex }: ListOffsetsPartition | Answer) => partitionIndex,
    resolve: (topic, ask) =>
      resolve(context, request, { topic, ask, placeOf, repeated, starts, hidden }),
    askBroker,
    refuse,
  });
  await withoutMarkers(hidden, askBroker);
  const response = createListOffsetsResponse({
    topics: topics
      .filter(({ partitions }) => partitions.length > 0)
      .map(({ name, partitions }) =>
        createListOffsetsTopicResponse({ name, partitions: [...partitions] }),
      ),
  });
  session.tell(response);
  return responseTo(header, listOffsetsResponseCodec, response);
}

/** Where it is named first, for each partition that is named more than once. */
type Repeated = ReadonlyMap<string, ListOffsetsPartition>;

function repeatedIn(request: ListOffsetsRequest): Repeated {
  const first = new Map<string, ListOffsetsPartition>();
  const repeated = new Map<string, ListOffsetsPartition>();
  for (const { name, partitions } of request.topics) {
    for (const partition of partitions) {
      const key = partitionKey(name, partition.partitionIndex);
      const before = first.get(key);
      if (before === undefined) first.set(key, partition);
      else repeated.set(key, before);
    }
  }
  return repeated;
}

/** What a copy may have to say, if it still counts. */
function copiesIn(request: ListOffsetsRequest, placeOf: PlaceOf, repeated: Repeated): StartAsked[] {
  return request.topics.flatMap(({ name, partitions }) =>
    partitions.flatMap(({ partitionIndex: partition, currentLeaderEpoch, timestamp }) => {
      if (!mayBeInCopy(timestamp) || repeated.has(partitionKey(name, partition))) return [];
      const place = placeOf(name, { partition, currentLeaderEpoch });
      if (place.kind !== 'promoted' || !hasCopy(place.view, place.native)) return [];
      const { topic, topicId, native } = place;
      return [{ topic, topicId, partition, native, currentLeaderEpoch }];
    }),
  );
}

function mayBeInCopy(timestamp: bigint): boolean {
  return (
    timestamp >= 0n ||
    timestamp === EARLIEST ||
    timestamp === EARLIEST_LOCAL ||
    timestamp === MAX_TIMESTAMP
  );
}

/** The shell found a marker below n: which of the records that clients see is it to be? */
interface Hidden {
  readonly topic: string;
  readonly ask: ListOffsetsPartition;
  readonly native: NativeExtent;
  readonly answer: Answer;
  /** What is told when the shell holds nothing that clients see. */
  readonly otherwise: Answer;
}

/**
 * A hidden marker stands for what follows it, but only if anything does. Where records do, a time
 * look-up is told S: none of them is left out, and which of them is the first of that time could
 * only be read from them.
 */
async function withoutMarkers(
  hidden: readonly Hidden[],
  askBroker: (
    open: readonly TopicOf<ListOffsetsPartition>[],
  ) => Promise<readonly TopicOf<Answer>[]>,
): Promise<void> {
  if (hidden.length === 0) return;
  const open = new Map<string, ListOffsetsPartition[]>();
  for (const { topic, ask } of hidden) {
    const partitions = open.get(topic) ?? [];
    partitions.push({ ...ask, timestamp: LATEST });
    open.set(topic, partitions);
  }
  const ends = await askBroker([...open].map(([name, partitions]) => ({ name, partitions })));
  for (const { topic, native, answer, otherwise } of hidden) {
    const end = ends
      .find(({ name }) => name === topic)
      ?.partitions.find(({ partitionIndex }) => partitionIndex === answer.partitionIndex);
    const errorCode = end?.errorCode ?? ErrorCode.UNKNOWN_SERVER_ERROR;
    if (end === undefined || errorCode !== ErrorCode.NONE) {
      Object.assign(answer, refuse(answer.partitionIndex, errorCode));
    } else if (end.offset <= firstNativeOffset(native)) {
      Object.assign(answer, otherwise);
    }
  }
}

function refuse(partitionIndex: number, errorCode: number): Answer {
  return createListOffsetsPartitionResponse({ partitionIndex, errorCode });
}

interface Asked {
  readonly topic: string;
  readonly ask: ListOffsetsPartition;
  readonly placeOf: PlaceOf;
  readonly repeated: Repeated;
  readonly starts: ReadonlyMap<string, ToldStart>;
  readonly hidden: Hidden[];
}

async function resolve(
  { session, header }: RequestContext,
  request: ListOffsetsRequest,
  { topic, ask, placeOf, repeated, starts, hidden }: Asked,
): Promise<Outcome> {
  const { partitionIndex: partition, currentLeaderEpoch } = ask;
  const place = placeOf(topic, { partition, currentLeaderEpoch });
  if (place.kind === 'ordinary') return { kind: 'ask', ask, finish: (answer) => answer };
  const refused = (errorCode: number): Outcome => ({
    kind: 'done',
    answer: refuse(partition, errorCode),
  });
  // Who may not ask hears that as often as it asks.
  if (place.kind === 'error' && place.isOfRights) return refused(place.errorCode);
  const first = repeated.get(partitionKey(topic, partition));
  if (first !== undefined) {
    return first === ask ? refused(ErrorCode.INVALID_REQUEST) : { kind: 'leftOut' };
  }
  if (!isKnown(ask.timestamp, header.apiVersion)) return refused(ErrorCode.UNSUPPORTED_VERSION);
  if (place.kind === 'error') return refused(place.errorCode);
  const look: LookUp = {
    topic,
    ask,
    readCommitted: request.isolationLevel === 1,
    hasEpoch: header.apiVersion >= leaderEpochFrom,
    start: starts.get(partitionKey(topic, partition)),
    hidden,
  };
  const log = place.kind === 'mirror' ? place.log : place.view.log;
  try {
    return place.kind === 'mirror' ? await inMirror(place.log, look) : await inBoth(place, look);
  } catch (error) {
    if (log === null) throw error;
    return refused(storageErrorCode(session.services, { topic, partition, log }, error));
  }
}

function isKnown(timestamp: bigint, version: number): boolean {
  if (timestamp >= 0n) return true;
  const from = sentinelsFrom.get(timestamp);
  return from !== undefined && version >= from;
}

interface LookUp {
  readonly topic: string;
  readonly ask: ListOffsetsPartition;
  readonly readCommitted: boolean;
  readonly hasEpoch: boolean;
  /** Where the shell starts, if that matters. */
  readonly start: ToldStart | undefined;
  /** Gets what has to be asked about once more. */
  readonly hidden: Hidden[];
}

function done(look: LookUp, found: Partial<TimestampOffset> | null): Outcome {
  return { kind: 'done', answer: answerOf(look, found) };
}

function answerOf(look: LookUp, found: Partial<TimestampOffset> | null): Answer {
  return createListOffsetsPartitionResponse({
    partitionIndex: look.ask.partitionIndex,
    offset: found?.offset ?? -1n,
    timestamp: found?.timestamp ?? -1n,
    leaderEpoch: look.hasEpoch ? (found?.leaderEpoch ?? -1) : -1,
  });
}

async function inMirror(log: MirrorLog, look: LookUp): Promise<Outcome> {
  const { timestamp } = look.ask;
  const end = look.readCommitted ? log.lastStableOffset : log.visibleEnd;
  switch (timestamp) {
    case LATEST:
      return done(look, { offset: end, leaderEpoch: log.visibleEpoch });
    case EARLIEST:
    case EARLIEST_LOCAL:
      return done(look, earliest(log));
    case LATEST_TIERED:
    case EARLIEST_PENDING_UPLOAD:
      return done(look, null);
    default:
      return done(look, await byTime(log, timestamp, end));
  }
}

/** With the epoch that the log begins in: consumers check later that it is still the same log. */
function earliest(log: MirrorLog): Partial<TimestampOffset> {
  let leaderEpoch = log.visibleEpoch;
  while (leaderEpoch > 0) {
    const before = log.epochEnd(leaderEpoch - 1);
    if (before.epoch < 0 || before.endOffset <= log.logStart) break;
    leaderEpoch = before.epoch;
  }
  return { offset: log.logStart, leaderEpoch };
}

async function byTime(
  log: MirrorLog,
  timestamp: bigint,
  end: bigint,
): Promise<TimestampOffset | null> {
  const found =
    timestamp === MAX_TIMESTAMP
      ? await log.offsetOfMaxTimestamp()
      : await log.offsetForTimestamp(timestamp);
  return found !== null && found.offset < end ? found : null;
}

/** A promoted partition: what the copy does not settle is asked of the shell. */
async function inBoth(
  { view, native }: Extract<Place, { kind: 'promoted' }>,
  look: LookUp,
): Promise<Outcome> {
  const { ask } = look;
  const shell = (better: TimestampOffset | null = null): Outcome => ({
    kind: 'ask',
    ask: askedOfShell(native, ask),
    finish: (answer) => fromShell(native, look, answer, better),
  });
  if (!mayBeInCopy(ask.timestamp) || !hasCopy(view, native)) return shell();
  const { log } = view;
  const { start } = look;
  if (start === undefined || start.errorCode !== ErrorCode.NONE) {
    const errorCode = start?.errorCode ?? ErrorCode.UNKNOWN_SERVER_ERROR;
    return { kind: 'done', answer: refuse(ask.partitionIndex, errorCode) };
  }
  if (isCopyOutlived(native, start.offset)) return shell();
  if (log === null) {
    const errorCode = ErrorCode.KAFKA_STORAGE_ERROR;
    return { kind: 'done', answer: refuse(ask.partitionIndex, errorCode) };
  }
  if (ask.timestamp === EARLIEST || ask.timestamp === EARLIEST_LOCAL) {
    return done(look, earliest(log));
  }
  const found = await byTime(log, ask.timestamp, native.start);
  if (ask.timestamp === MAX_TIMESTAMP) return shell(found);
  return found === null ? shell() : done(look, found);
}

function askedOfShell(native: NativeExtent, ask: ListOffsetsPartition): ListOffsetsPartition {
  const currentLeaderEpoch = toNativeEpoch(native, virtualEpoch(ask.currentLeaderEpoch));
  return { ...ask, currentLeaderEpoch };
}

/**
 * `better`: the copy's record with the largest timestamp, which wins unless the shell has a later
 * one.
 */
function fromShell(
  native: NativeExtent,
  look: LookUp,
  answer: Answer,
  better: TimestampOffset | null,
): Answer {
  const { ask } = look;
  if (answer.errorCode !== ErrorCode.NONE) return answer;
  if (better !== null && answer.timestamp <= better.timestamp) return answerOf(look, better);
  const offset = toVirtualBound(native, nativeOffset(answer.offset));
  const epoch = toVirtualEpoch(native, nativeEpoch(answer.leaderEpoch));
  // An epoch of hidden markers is older than anything that clients may see at S. Shifted it may be
  // negative, and is no sentinel then.
  const isHidden = answer.leaderEpoch >= 0 && epoch < native.firstEpoch;
  const told = { ...answer, offset, leaderEpoch: isHidden ? native.firstEpoch : epoch };
  const isByTime = ask.timestamp >= 0n || ask.timestamp === MAX_TIMESTAMP;
  if (isByTime && answer.offset >= 0n && answer.offset < firstNativeOffset(native)) {
    look.hidden.push({
      topic: look.topic,
      ask: askedOfShell(native, ask),
      native,
      answer: told,
      otherwise: answerOf(look, better),
    });
  }
  return told;
}

// For the leader-bound APIs that name topics (ListOffsets, OffsetForLeaderEpoch,
// DescribeProducers): where each partition of a request is answered, and the joining of our answers
// with the broker's. Refuses to know what is asked. Invariants: rights come first, then leadership,
// then epochs, as at a broker; answers keep the order of the request; the broker never sees a
// mirror.
import { ErrorCode } from '../../protocol/index.ts';
import type { MirrorLog } from '../../storage/mirror-log.ts';
import { partitionKey } from '../cluster/partition-key.ts';
import { virtualEpoch } from '../timeline/offsets.ts';
import { currentLeaderEpochToNative, type NativeExtent } from '../timeline/timeline.ts';
import { type AclOperation, authorize } from './authorizer.ts';
import type { SessionView } from './handler.ts';
import { epochError } from './mirror-fetch.ts';
import type { PartitionView } from './topic-directory.ts';
import {
  isMirrored,
  mirrorLeaderEpoch,
  openNativeExtent,
  type TopicStanding,
  topicStanding,
} from './topic-standing.ts';

export type Place =
  /** `isOfRights`: the client may not ask at all, whatever is wrong with its question. */
  | { readonly kind: 'error'; readonly errorCode: number; readonly isOfRights: boolean }
  /** The broker's alone. */
  | { readonly kind: 'ordinary' }
  | { readonly kind: 'mirror'; readonly topic: string; readonly log: MirrorLog }
  | {
      readonly kind: 'promoted';
      readonly topic: string;
      readonly topicId: string | null;
      readonly view: PartitionView;
      readonly native: NativeExtent;
    };

export interface PartitionAsked {
  readonly partition: number;
  /** -1 when the API or the version has none. */
  readonly currentLeaderEpoch: number;
}

export type PlaceOf = (topic: string, asked: PartitionAsked) => Place;

/** True when a broker can answer the request just as it is. */
export function isAllOrdinary(session: SessionView, topics: readonly string[]): boolean {
  if (session.role.kind === 'link') return false;
  const { directory } = session.services;
  return topics.every((name) => topicStanding(directory, { name }).kind === 'ordinary');
}

export async function findPlaces(
  session: SessionView,
  topics: readonly string[],
  operation: AclOperation,
  options: { readonly mirrorsEverywhere?: boolean } = {},
): Promise<PlaceOf> {
  const { directory } = session.services;
  const isLink = session.role.kind === 'link';
  const standings = new Map(topics.map((name) => [name, topicStanding(directory, { name })]));
  // A virtual broker's own topics are its broker's to refuse.
  const asked = topics.filter((name) => isLink || standings.get(name)?.kind === 'known');
  const verdicts = await authorize(session, asked, operation);
  return (topic, partition) => {
    const standing = standings.get(topic);
    if (standing === undefined || standing.kind === 'unsettled') return notLeader;
    const verdict = verdicts.get(topic) ?? ErrorCode.NONE;
    if (verdict !== ErrorCode.NONE) return { kind: 'error', errorCode: verdict, isOfRights: true };
    if (standing.kind === 'ordinary') return isLink ? notLeader : { kind: 'ordinary' };
    // Followers are asked too, of what they need not lead for.
    const isOwn = isLink || (options.mirrorsEverywhere === true && isMirrored(standing.view));
    return isOwn ? mirrorPlace(standing, partition) : promotedPlace(standing, partition);
  };
}

type Known = Extract<TopicStanding, { kind: 'known' }>;

function failed(errorCode: number): Place {
  return { kind: 'error', errorCode, isOfRights: false };
}

const notLeader = failed(ErrorCode.NOT_LEADER_OR_FOLLOWER);

function mirrorPlace({ view }: Known, asked: PartitionAsked): Place {
  if (!isMirrored(view)) return notLeader;
  const place = view.partition(asked.partition);
  if (place === undefined) return failed(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION);
  const current = mirrorLeaderEpoch(view, asked.partition);
  const errorCode = epochError(asked.currentLeaderEpoch, current);
  if (errorCode !== ErrorCode.NONE) return failed(errorCode);
  if (place.isTruncating === true) return notLeader;
  if (place.log === null) return failed(ErrorCode.KAFKA_STORAGE_ERROR);
  return { kind: 'mirror', topic: view.name, log: place.log };
}

function promotedPlace({ view: topic }: Known, asked: PartitionAsked): Place {
  if (isMirrored(topic)) return notLeader;
  const view = topic.partition(asked.partition);
  // Added after the promotion: the shell's own, unshifted.
  if (view === undefined) return { kind: 'ordinary' };
  const native = openNativeExtent(view);
  if (native === undefined) return notLeader;
  const epoch = virtualEpoch(asked.currentLeaderEpoch);
  if (currentLeaderEpochToNative(native, epoch) === 'fenced') {
    return failed(ErrorCode.FENCED_LEADER_EPOCH);
  }
  return { kind: 'promoted', topic: topic.name, topicId: topic.topicId, view, native };
}

/** Answered here, or asked of the broker with what becomes of its answer. */
export type Resolution<Ask, Answer> =
  | { readonly kind: 'done'; readonly answer: Answer }
  | { readonly kind: 'ask'; readonly ask: Ask; readonly finish: (answer: Answer) => Answer }
  /** Named before, and answered there. */
  | { readonly kind: 'leftOut' };

export interface TopicOf<Partition> {
  readonly name: string;
  readonly partitions: readonly Partition[];
}

export interface Resolver<Ask, Answer> {
  /** The index that both sides carry. */
  indexOf(partition: Ask | Answer): number;
  resolve(topic: string, ask: Ask): Promise<Resolution<Ask, Answer>>;
  askBroker(topics: readonly TopicOf<Ask>[]): Promise<readonly TopicOf<Answer>[]>;
  /** For a partition that the broker left out. */
  refuse(partition: number, errorCode: number): Answer;
}

/**
 * A partition that is named twice is asked of the broker twice: its answers come in the order of
 * the questions, or it gives one for all of them.
 */
export async function resolveAll<Ask, Answer>(
  topics: readonly TopicOf<Ask>[],
  resolver: Resolver<Ask, Answer>,
): Promise<TopicOf<Answer>[]> {
  const resolved: TopicOf<Resolution<Ask, Answer>>[] = [];
  for (const { name, partitions } of topics) {
    const resolutions: Resolution<Ask, Answer>[] = [];
    for (const ask of partitions) resolutions.push(await resolver.resolve(name, ask));
    resolved.push({ name, partitions: resolutions });
  }
  const open = resolved
    .map(({ name, partitions }) => ({
      name,
      partitions: partitions.flatMap((one) => (one.kind === 'ask' ? [one.ask] : [])),
    }))
    .filter(({ partitions }) => partitions.length > 0);
  const answers = new Map<string, Answer[]>();
  for (const { name, partitions } of open.length > 0 ? await resolver.askBroker(open) : []) {
    for (const answer of partitions) {
      const key = partitionKey(name, resolver.indexOf(answer));
      const sameKey = answers.get(key);
      if (sameKey === undefined) answers.set(key, [answer]);
      else sameKey.push(answer);
    }
  }
  const toldOf = new Map<string, number>();
  return resolved.map(({ name, partitions }) => ({
    name,
    partitions: partitions.flatMap((one): Answer[] => {
      if (one.kind === 'leftOut') return [];
      if (one.kind === 'done') return [one.answer];
      const index = resolver.indexOf(one.ask);
      const key = partitionKey(name, index);
      const told = toldOf.get(key) ?? 0;
      toldOf.set(key, told + 1);
      const answer = answers.get(key)?.[told];
      if (answer !== undefined) return [one.finish(answer)];
      return told > 0 ? [] : [resolver.refuse(index, ErrorCode.UNKNOWN_SERVER_ERROR)];
    }),
  }));
}

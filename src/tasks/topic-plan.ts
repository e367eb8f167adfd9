// Which mirrors the topic task has to make, pause and resume: from the topics of the source, the
// link's filters and the topics of the state. Pure. Refuses to know how topics are read and made.
// Invariants: internal topics and our own are never candidates; a name that is taken is a clash,
// never overwritten; only mirrors that the filters made are ever paused or resumed, and an
// operator's own pause or resume is respected.
import { isNeverMirrored } from '../config/internal-topics.ts';
import type { TopicRecord } from '../state/records.ts';
import { isIncluded, type NameFilter } from './name-filters.ts';

export interface SourceTopic {
  readonly name: string;
  readonly isInternal: boolean;
  /** All partitions have leaders: it can be mirrored now. */
  readonly isReady: boolean;
}

export interface TopicPlanInput {
  readonly source: readonly SourceTopic[];
  /** All topics of the state, by destination name. */
  readonly records: ReadonlyMap<string, TopicRecord>;
  readonly link: string;
  readonly filters: readonly NameFilter[];
  readonly prefix: string;
  readonly ownTopicPrefix: string;
  /** Mirrors that the filters may make for this link. */
  readonly mirrorsMax: number;
}

export interface Wanted {
  readonly sourceTopic: string;
  readonly name: string;
}

export interface Clash extends Wanted {
  readonly why: string;
}

export interface TopicPlan {
  /** By name; new at the source and of no other mirror. */
  readonly create: readonly Wanted[];
  /** More than `mirrorsMax`: they wait. */
  readonly pending: readonly Wanted[];
  readonly clashes: readonly Clash[];
  /** Destination names of mirrors that have left the filters, or are back. */
  readonly leave: readonly string[];
  readonly back: readonly string[];
  readonly candidatesCount: number;
  readonly matchedCount: number;
}

const topicNameMax = 249;

function isCandidate(input: TopicPlanInput, topic: SourceTopic): boolean {
  const { name, isInternal } = topic;
  return !isInternal && !isNeverMirrored(name, input.ownTopicPrefix);
}

function clashOf(input: TopicPlanInput, name: string): string | null {
  if (name.length > topicNameMax) return `its name would be longer than ${topicNameMax} characters`;
  if (isNeverMirrored(name, input.ownTopicPrefix)) {
    return 'it would have the name of an internal topic';
  }
  const record = input.records.get(name);
  if (record === undefined) return null;
  return record.link === input.link
    ? `topic '${name}' is the mirror of source topic '${record.sourceTopic}'`
    : `topic '${name}' is a mirror of link '${record.link}'`;
}

function ownRecords(input: TopicPlanInput): TopicRecord[] {
  return [...input.records.values()].filter((record) => record.link === input.link);
}

export function planTopics(input: TopicPlanInput): TopicPlan {
  const own = ownRecords(input);
  const mirrored = new Set(own.map(({ sourceTopic }) => sourceTopic));
  const candidates = input.source.filter((topic) => isCandidate(input, topic));
  const matched = candidates.filter(({ name }) => isIncluded(input.filters, name));
  const clashes: Clash[] = [];
  const wanted: Wanted[] = [];
  for (const { name: sourceTopic, isReady } of matched) {
    if (mirrored.has(sourceTopic)) continue;
    const name = `${input.prefix}${sourceTopic}`;
    const why = clashOf(input, name);
    if (why !== null) clashes.push({ sourceTopic, name, why });
    else if (isReady) wanted.push({ sourceTopic, name });
  }
  wanted.sort((left, right) => (left.name < right.name ? -1 : 1));
  const made = own.filter(({ auto, state }) => auto !== undefined && state !== 'STOPPED');
  const room = Math.max(0, input.mirrorsMax - made.length);
  const isIn = ({ sourceTopic }: TopicRecord): boolean => isIncluded(input.filters, sourceTopic);
  return {
    create: wanted.slice(0, room),
    pending: wanted.slice(room),
    clashes,
    leave: made
      .filter((record) => record.auto?.isFilteredOut === false && !isIn(record))
      // An operator's own pause stays the operator's.
      .filter(({ state }) => state === 'ACTIVE')
      .map(({ name }) => name),
    back: made
      .filter((record) => record.auto?.isFilteredOut === true && isIn(record))
      .filter(({ state }) => state === 'ACTIVE' || state === 'PAUSED')
      .map(({ name }) => name),
    candidatesCount: candidates.length,
    matchedCount: matched.length,
  };
}

// Is a source topic still the one that was mirrored? Offsets of groups, configs and log ends are
// read by a topic's name, and one that was deleted and made again has it too: until the regular
// look at the source has seen that, what is read may be of the successor. Owns the question, which
// is put after reading and before what was read is written anywhere; refuses to know what was read.
// Invariants: a topic that is not provably the mirrored one is never confirmed, be it by the broker
// that happens to be asked or, where that one has another topic, by most of the source's brokers:
// one that was left behind has what was there before a mirror's own; without topic ids (brokers
// before 2.8) a topic of that name is all that there is to prove it by.
//
// Why afterwards is enough: an id is never given twice, so a topic that has its id now is the one
// that had the name a moment ago.
import type { Cluster, TopicInfo } from '../cluster/cluster.ts';
import type { LinkRecord, TopicRecord } from '../state/records.ts';
import { askEveryBroker } from './every-broker.ts';
import { examine } from './source-watch.ts';

const lane = 'source-identity';

/** What is mirrored, as the record of the mirror has it. */
export type MirroredSource = Pick<
  TopicRecord,
  'name' | 'sourceTopic' | 'sourceTopicId' | 'partitions'
>;

export interface Unconfirmed {
  /** `other` is for good; the rest may be over with the next answer. */
  readonly kind: 'other' | 'missing' | 'unreadable';
  readonly cause: string;
}

interface Source {
  readonly cluster: Cluster;
  /** Of the link, where it is known: another cluster has other topics. */
  readonly record?: Pick<LinkRecord, 'sourceClusterId'>;
}

/**
 * Mirrors whose source cannot be confirmed now, by name; in one request, but for those of which the
 * broker that answers has another topic. @throws ClusterError
 */
export async function unconfirmedSources(
  source: Source,
  mirrors: readonly MirroredSource[],
): Promise<ReadonlyMap<string, Unconfirmed>> {
  const { cluster, record } = source;
  const unconfirmed = new Map<string, Unconfirmed>();
  if (mirrors.length === 0) return unconfirmed;
  const names = [...new Set(mirrors.map(({ sourceTopic }) => sourceTopic))];
  const { clusterId, topics } = await cluster.metadata(names);
  const isOther = record !== undefined && record.sourceClusterId !== clusterId;
  for (const mirror of mirrors) {
    const doubt = isOther
      ? other(`the source is cluster ${clusterId} now`)
      : doubtOf(mirror, examine(mirror, topics.get(mirror.sourceTopic)));
    if (doubt !== null) unconfirmed.set(mirror.name, doubt);
  }
  if (isOther) return unconfirmed;
  const others = mirrors.filter(({ name }) => unconfirmed.get(name)?.kind === 'other');
  const known = await knownToMost(source, others);
  for (const name of known.keys()) unconfirmed.delete(name);
  return unconfirmed;
}

/** The same of the topic of one feed. @throws ClusterError */
export async function isMirroredStill(
  source: Source,
  feed: { readonly topic: string; readonly sourceTopic: string; readonly sourceTopicId: string },
): Promise<boolean> {
  const { topic: name, sourceTopic, sourceTopicId } = feed;
  const mirror = { name, sourceTopic, sourceTopicId, partitions: [] };
  return (await unconfirmedSources(source, [mirror])).size === 0;
}

/**
 * Of mirrors of which a broker says that another topic has the name of their source: those whose
 * topic most brokers have as it was mirrored, by name, with what the one says that is furthest.
 */
export async function knownToMost(
  { cluster, record }: Source,
  mirrors: readonly MirroredSource[],
): Promise<ReadonlyMap<string, TopicInfo>> {
  const known = new Map<string, TopicInfo>();
  if (mirrors.length === 0) return known;
  const names = [...new Set(mirrors.map(({ sourceTopic }) => sourceTopic))];
  const { seen, isMost } = await askEveryBroker(cluster, names, lane);
  for (const mirror of mirrors) {
    const own = seen.flatMap(({ clusterId, topics }) => {
      const info = topics.get(mirror.sourceTopic);
      if (record !== undefined && record.sourceClusterId !== clusterId) return [];
      return info !== undefined && doubtOf(mirror, examine(mirror, info)) === null ? [info] : [];
    });
    const [first, ...rest] = own;
    if (first === undefined || !isMost(own.length)) continue;
    known.set(mirror.name, rest.reduce(further, first));
  }
  return known;
}

/** Partitions are only added, and leader epochs only rise. */
function further(one: TopicInfo, other: TopicInfo): TopicInfo {
  const epochs = ({ partitions }: TopicInfo): number =>
    partitions.reduce((sum, { leaderEpoch }) => sum + leaderEpoch, 0);
  const ahead = other.partitions.length - one.partitions.length || epochs(other) - epochs(one);
  return ahead > 0 ? other : one;
}

function doubtOf(
  { sourceTopic }: MirroredSource,
  finding: ReturnType<typeof examine>,
): Unconfirmed | null {
  switch (finding.kind) {
    case 'as-is':
    case 'grown':
      return null;
    case 'other':
      return other(finding.error.message);
    case 'missing':
      return { kind: 'missing', cause: `source topic '${sourceTopic}' is not there` };
    case 'shrunk':
      // Of a broker that was left behind, which may not know of a successor either.
      return { kind: 'unreadable', cause: finding.error.message };
    case 'unreadable':
      return { kind: 'unreadable', cause: `source topic '${sourceTopic}': ${finding.cause}` };
  }
}

function other(cause: string): Unconfirmed {
  return { kind: 'other', cause };
}

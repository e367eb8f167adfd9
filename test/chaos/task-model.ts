// What the sync tasks of a link may make of the destination, after anything that was done on both
// sides: the model of a random walk, and its judgement. Written from the rules, not from the tasks.
//
// Owns: what was done, by topic, group and ACL; the oracle that compares the record at a committed
// offset on both sides (R5, R6); what is nobody's but the destination's (R16). Knows nothing of
// processes. Invariant: `violations` reads the clusters anew each time, and an empty list means
// that nothing is left to be done and nothing was done that should not have been.

import { isControl, nextOffset, readBatchHeader } from '../../protocol/index.ts';
import { openRecords } from '../../protocol/records.ts';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { readTopicConfigs } from '../../src/cluster/config-requests.ts';
import type { Acl } from '../../src/state/records.ts';
import { aclKey } from '../../src/tasks/acl-diff.ts';
import { anyAcl } from '../../src/tasks/acl-filters.ts';
import { readAcls } from '../../src/tasks/acl-requests.ts';
import { committedOffsets } from '../helpers/group-offsets.ts';
import { offsets } from '../helpers/linked-stage.ts';
import { fetchAt } from '../helpers/raw-reads.ts';

export const retention = 'retention.ms';
const setOnTopic = 1;

export interface WalkTopic {
  readonly name: string;
  readonly partitions: number;
  /** What was written at each offset of each partition, as long as nothing has cut it off. */
  readonly written: Map<number, string>[];
  /** Below here the source has deleted records, by partition, and may have them again. */
  readonly deletedBelow: number[];
  /** At the source; null when it is not set there. */
  retention: string | null;
  /** Somebody has set it at the destination, to this. */
  editedTo: string | null;
  isPromoted: boolean;
  /** Where a promoted topic was when everything had come to rest, by group and as configs. */
  rest: Map<string, string> | null;
}

/**
 * led: only the source commits. rival: both sides do, and may delete. own: only the destination.
 */
export interface WalkGroup {
  readonly name: string;
  readonly kind: 'led' | 'rival' | 'own';
  readonly topic: WalkTopic;
  /** By partition; null: never committed there. */
  atSource: readonly number[] | null;
  /** Everything that the source has ever had, by partition. */
  readonly history: Set<number>[];
  /** What the destination made of it itself since the source moved last; -1: deleted. */
  own: readonly number[] | null;
  /** The source has it no more: the destination keeps what it has. */
  isDeletedAtSource: boolean;
  /** Restarted or deleted at the source since it was in step: a reset looks like a move. */
  isForgotten: boolean;
}

export interface Sides {
  readonly source: Cluster;
  readonly destination: Cluster;
  /** Through the proxy. */
  readonly proxy: Cluster;
}

interface Row {
  readonly group: string;
  readonly topic: string;
  readonly partition: number;
  readonly held: string | null;
}

export interface Told {
  readonly groups: readonly Row[];
  readonly mirrors: readonly {
    readonly name: string;
    readonly state: string;
    readonly partitions: readonly { readonly mirrorEnd: number | string }[];
  }[];
}

interface Found {
  readonly offset: bigint;
  readonly value: string | null;
}

/** The first record from `offset` on, markers included; null at the end or below the start. */
async function recordFrom(
  cluster: Cluster,
  topic: string,
  partition: number,
  offset: bigint,
): Promise<Found | null> {
  let at = offset;
  for (;;) {
    const { errorCode, first } = await fetchAt(cluster, topic, partition, at);
    if (errorCode !== 0 || first === null) return null;
    const header = readBatchHeader(first, 0);
    if (isControl(header)) return { offset: header.baseOffset, value: 'a marker' };
    const records = [...(await openRecords(first))];
    const found = records.find((record) => record.offset >= offset);
    if (found !== undefined) {
      return { offset: found.offset, value: found.value?.toString() ?? null };
    }
    at = nextOffset(header);
  }
}

export class TaskModel {
  readonly prefix: string;
  readonly topics: WalkTopic[] = [];
  readonly groups: WalkGroup[] = [];
  /** Of the walk's principals, at the source. */
  readonly sourceAcls = new Map<string, Acl>();
  /** Made by hand at the destination: never to be taken away. */
  readonly ownAcls = new Map<string, Acl>();
  /** Topics of the destination's own, with their only record. */
  readonly ownTopics = new Map<string, string>();
  readonly principal: string;
  comparisons = 0;

  constructor(prefix: string) {
    this.prefix = prefix;
    this.principal = `User:${prefix}`;
  }

  get mirrored(): readonly WalkTopic[] {
    return this.topics.filter(({ isPromoted }) => !isPromoted);
  }

  /** What must hold at every moment, whatever is under way (R5, R16). */
  async breaches(sides: Sides, told: () => Promise<Told>): Promise<string[]> {
    const found: string[] = [];
    const committed = new Map<WalkGroup, readonly number[]>();
    for (const group of this.groups) {
      const { name, topic } = group;
      committed.set(
        group,
        await committedOffsets(sides.destination, name, topic.name, topic.partitions),
      );
    }
    // The ends are read after the offsets: they only grow, but for a truncation.
    const { mirrors } = await told();
    for (const [group, seen] of committed) {
      const view = mirrors.find(({ name }) => name === group.topic.name);
      for (const [partition, offset] of seen.entries()) {
        const end = Number(view?.partitions[partition]?.mirrorEnd ?? -1);
        const isSynced = group.atSource !== null && !group.isDeletedAtSource;
        const isOver = isSynced && !group.topic.isPromoted && offset > end;
        if (isOver) found.push(`R5: ${group.name} is at ${offset}, the mirror ends at ${end}`);
      }
      found.push(...ownBreaches(group, seen));
    }
    found.push(...(await this.#takenAway(sides)));
    return found;
  }

  async #takenAway({ destination }: Sides): Promise<string[]> {
    const found: string[] = [];
    const acls = new Set((await readAcls(destination, anyAcl, 'destination')).map(aclKey));
    for (const key of this.ownAcls.keys()) {
      if (!acls.has(key)) found.push(`R16: the destination's own ACL is gone: ${key}`);
    }
    for (const [topic, value] of this.ownTopics) {
      const record = await recordFrom(destination, topic, 0, 0n);
      if (record?.value !== value) found.push(`R16: own topic ${topic} has ${record?.value}`);
    }
    for (const topic of this.topics.filter(({ rest }) => rest !== null)) {
      const now = await this.restOf(topic, destination);
      for (const [what, value] of topic.rest ?? []) {
        const is = now.get(what);
        if (is !== value) {
          found.push(`R16: ${what} of promoted ${topic.name}: ${value} became ${is}`);
        }
      }
    }
    return found;
  }

  /** What nobody but the destination may change once a topic is promoted. */
  async restOf(topic: WalkTopic, destination: Cluster): Promise<Map<string, string>> {
    const rest = new Map<string, string>();
    for (const { name, topic: own } of this.groups) {
      if (own !== topic) continue;
      const seen = await committedOffsets(destination, name, topic.name, topic.partitions);
      rest.set(`group ${name}`, seen.join());
    }
    rest.set(retention, String(await setRetention(destination, topic.name)));
    return rest;
  }

  /** What is not yet, or not any more, as it has to be when nothing is done any more. */
  async violations(sides: Sides, told: Told): Promise<string[]> {
    const found: string[] = [];
    for (const topic of this.topics) {
      const view = told.mirrors.find(({ name }) => name === topic.name);
      const wanted = topic.isPromoted ? 'STOPPED' : 'ACTIVE';
      if (view?.state !== wanted) found.push(`R15: mirror ${topic.name} is ${view?.state}`);
      else if (!topic.isPromoted) {
        const ends = view.partitions.map(({ mirrorEnd }) => BigInt(mirrorEnd));
        const there = await offsets(sides.source, topic.name, -1n);
        if (ends.join() === there.join()) {
          found.push(...(await this.#groupsOf({ topic, ends, told }, sides)));
        } else
          found.push(`R15: ${topic.name} ends at ${ends.join()}, its source at ${there.join()}`);
        found.push(...(await configsOf(topic, sides)));
      }
    }
    const extra = told.mirrors.filter(
      ({ name }) =>
        name.startsWith(this.prefix) && !this.topics.some((topic) => topic.name === name),
    );
    found.push(...extra.map(({ name }) => `R16: ${name} is mirrored`));
    found.push(...this.#dishonest(told), ...(await this.#aclDifference(sides)));
    return found;
  }

  /** A group that does not follow says why. */
  #dishonest(told: Told): string[] {
    return this.groups.flatMap(({ name, kind, topic, atSource, isDeletedAtSource }) => {
      if (kind !== 'led' || atSource === null || isDeletedAtSource || topic.isPromoted) return [];
      const rows = told.groups.filter((row) => row.group === name && row.topic === topic.name);
      return rows.length === topic.partitions ? [] : [`R15: ${name} has ${rows.length} rows`];
    });
  }

  async #groupsOf(
    at: { topic: WalkTopic; ends: readonly bigint[]; told: Told },
    sides: Sides,
  ): Promise<string[]> {
    const { topic, ends, told } = at;
    const found: string[] = [];
    for (const group of this.groups) {
      const { atSource, name } = group;
      if (group.topic !== topic || atSource === null || group.kind === 'own') continue;
      const seen = await committedOffsets(sides.destination, name, topic.name, topic.partitions);
      let isInStep = true;
      for (const [partition, offset] of seen.entries()) {
        const wanted = Math.min(atSource[partition] ?? 0, Number(ends[partition]));
        isInStep &&= offset === wanted;
        const isOwn = group.own?.[partition] === offset;
        const had = Math.max(-1, ...(group.history[partition] ?? []));
        const isKept = group.isDeletedAtSource && offset <= had;
        const isHeld = told.groups.some(
          (row) => row.group === name && row.partition === partition && row.held === 'moved',
        );
        const isTakenForMoved = group.isForgotten && isHeld && offset > wanted && offset <= had;
        if (offset !== wanted && !isOwn && !isKept && !isTakenForMoved) {
          found.push(`R6: ${name} is at ${offset} of ${topic.name}-${partition}, not ${wanted}`);
        } else if (offset === wanted) {
          const at = { topic, partition, offset };
          const difference = await this.#difference(at, sides);
          if (difference !== null) found.push(`R5: ${name}: ${difference}`);
        }
      }
      // While the source has it no more, nobody remembers what was in step.
      if (isInStep && !group.isDeletedAtSource) group.isForgotten = false;
    }
    return found;
  }

  /**
   * The record at a committed offset, on both sides. The source may have cleaned it away since it
   * was mirrored; then what is here is what was once written there.
   */
  async #difference(
    at: { topic: WalkTopic; partition: number; offset: number },
    sides: Sides,
  ): Promise<string | null> {
    const { topic, partition, offset } = at;
    const [there, here] = await Promise.all(
      [sides.source, sides.proxy].map((side) =>
        recordFrom(side, topic.name, partition, BigInt(offset)),
      ),
    );
    this.comparisons++;
    const place = `${topic.name}-${partition} from ${offset}`;
    const tell = (one: Found | null | undefined) => (one ? `${one.offset} ${one.value}` : 'none');
    const both = `${place}: source ${tell(there)}, here ${tell(here)}`;
    if (here && here.value !== 'a marker') {
      const written = topic.written[partition]?.get(Number(here.offset));
      if (written !== here.value) return `${both}, written was ${written}`;
    }
    if (!there) return null;
    // A broker that is killed may forget that it has deleted records; the mirror does not.
    if (!here) return offset < (topic.deletedBelow[partition] ?? 0) ? null : both;
    const isSame = here.offset === there.offset && here.value === there.value;
    return isSame || here.offset < there.offset ? null : both;
  }

  async #aclDifference({ destination }: Sides): Promise<string[]> {
    const all = await readAcls(destination, anyAcl, 'destination');
    const promoted = new Set(this.topics.filter((one) => one.isPromoted).map(({ name }) => name));
    // ACLs of a promoted topic are the destination's own.
    const isOurs = ({ principal, resourceName, patternType }: Acl): boolean =>
      principal === this.principal && !(patternType === 3 && promoted.has(resourceName));
    const here = new Set(all.filter(isOurs).map(aclKey));
    const known = [...this.sourceAcls.values(), ...this.ownAcls.values()];
    const wanted = new Set(known.filter(isOurs).map(aclKey));
    return [
      ...[...wanted].filter((key) => !here.has(key)).map((key) => `R16: not here: ${key}`),
      ...[...here].filter((key) => !wanted.has(key)).map((key) => `R16: left here: ${key}`),
    ];
  }
}

/** What the destination has committed itself, beyond all that the source ever had, stays. */
function ownBreaches(group: WalkGroup, seen: readonly number[]): string[] {
  if (group.own === null) return [];
  return group.own.flatMap((own, partition) => {
    const history = group.history[partition] ?? new Set<number>();
    const isAhead = own > Math.max(-1, ...history);
    if (!isAhead || seen[partition] === own) return [];
    return [`R16: ${group.name} was at ${own} by itself, and is at ${seen[partition]}`];
  });
}

async function setRetention(cluster: Cluster, topic: string): Promise<string | null> {
  const read = (await readTopicConfigs(cluster, [topic], [retention])).get(topic);
  if (read?.errorCode !== 0) throw new Error(`configs of ${topic}: error ${read?.errorCode}`);
  const found = read.configs.find(({ configSource }) => configSource === setOnTopic);
  return found?.value ?? null;
}

async function configsOf(topic: WalkTopic, { destination }: Sides): Promise<string[]> {
  const value = await setRetention(destination, topic.name);
  const wanted = topic.editedTo ?? topic.retention;
  return value === wanted ? [] : [`R16: ${retention} of ${topic.name} is ${value}, not ${wanted}`];
}

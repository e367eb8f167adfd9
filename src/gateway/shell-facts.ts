// What brokers have said of the shells of promoted partitions, for answers out of their copies: the
// high watermark and last stable offset that clients were last told, the leader epoch that was last
// confirmed, and where a shell starts, as far as that puts an end to its copy (merged-view.ts).
// Owns what is known since the start; refuses to know who asks, and who deletes copies. Invariants:
// all but starts only rise, and neither bound lies below S; of starts only one beyond n is kept,
// and each later word of a broker replaces it.
import { isCopyOutlived } from '../timeline/merged-view.ts';
import type { NativeOffset } from '../timeline/offsets.ts';
import type { NativeExtent } from '../timeline/timeline.ts';
import type { GatewayServices } from './handler.ts';
import { TopicFacts } from './topic-facts.ts';

export interface ShellPlace {
  /** Nothing is kept of a topic that is not known by its id. */
  readonly topicId: string | null;
  readonly partition: number;
  readonly native: NativeExtent;
}

/** Virtual, or -1. */
export interface ShellBounds {
  readonly highWatermark: bigint;
  readonly lastStableOffset: bigint;
}

interface Facts {
  /** Both virtual, or -1. */
  highWatermark: bigint;
  lastStableOffset: bigint;
  /** Virtual, or -1. */
  leaderEpoch: number;
  /** Null while the copy counts. */
  outlivedBy: NativeOffset | null;
}

const all = new WeakMap<GatewayServices, TopicFacts<Facts>>();
const nothing: Readonly<Facts> = {
  highWatermark: -1n,
  lastStableOffset: -1n,
  leaderEpoch: -1,
  outlivedBy: null,
};

function factsOf(services: GatewayServices, { topicId, partition }: ShellPlace): Readonly<Facts> {
  if (topicId === null) return nothing;
  return all.get(services)?.get({ topicId, partition }) ?? nothing;
}

function note(services: GatewayServices, place: ShellPlace, facts: Partial<Facts>): void {
  const { topicId, partition } = place;
  if (topicId === null) return;
  const known = all.get(services) ?? new TopicFacts<Facts>();
  all.set(services, known);
  const found = known.get({ topicId, partition });
  if (found !== undefined) Object.assign(found, facts);
  else known.set(services.directory, { topicId, partition }, { ...nothing, ...facts });
}

export function noteBounds(
  services: GatewayServices,
  place: ShellPlace,
  { highWatermark, lastStableOffset }: ShellBounds,
): void {
  const known = factsOf(services, place);
  if (highWatermark > known.highWatermark) note(services, place, { highWatermark });
  if (lastStableOffset > known.lastStableOffset) note(services, place, { lastStableOffset });
}

export function hasHighWatermark(services: GatewayServices, place: ShellPlace): boolean {
  return factsOf(services, place).highWatermark >= 0n;
}

/** Never below S (splice-facts, "Bytes"). */
export function knownBounds(services: GatewayServices, place: ShellPlace): ShellBounds {
  const { highWatermark, lastStableOffset } = factsOf(services, place);
  const { start } = place.native;
  return {
    highWatermark: notBelow(start, highWatermark),
    lastStableOffset: notBelow(start, lastStableOffset),
  };
}

function notBelow(start: bigint, bound: bigint): bigint {
  const isBehind = bound < start;
  return isBehind ? start : bound;
}

/** A leader epoch that the broker took as the partition's own. */
export function noteEpoch(services: GatewayServices, place: ShellPlace, leaderEpoch: number): void {
  if (leaderEpoch > factsOf(services, place).leaderEpoch) note(services, place, { leaderEpoch });
}

/** The highest of them, or -1: older ones are fenced. */
export function confirmedEpoch(services: GatewayServices, place: ShellPlace): number {
  return factsOf(services, place).leaderEpoch;
}

/** A start below 0 is none. */
export function noteShellStart(
  services: GatewayServices,
  place: ShellPlace,
  nativeStart: NativeOffset,
): void {
  if (nativeStart < 0n) return;
  const outlivedBy = isCopyOutlived(place.native, nativeStart) ? nativeStart : null;
  if (outlivedBy !== factsOf(services, place).outlivedBy) note(services, place, { outlivedBy });
}

/** Where the shell starts when the copy counts as deleted by that, else null. */
export function outlivedBy(services: GatewayServices, place: ShellPlace): NativeOffset | null {
  return factsOf(services, place).outlivedBy;
}

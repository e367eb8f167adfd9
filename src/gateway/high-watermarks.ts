// What brokers have said of the shells of promoted partitions, for answers out of their copies: the
// high watermark that clients were last told, and the leader epoch that was last confirmed. Owns
// what is known since the start; refuses to know who asks. Invariant: both only rise, and no high
// watermark lies below S.
import type { NativeExtent } from '../timeline/timeline.ts';
import type { GatewayServices } from './handler.ts';

export interface ShellPartition {
  readonly topicId: string | null;
  readonly partition: number;
}

interface Known {
  /** Virtual, or -1. */
  highWatermark: bigint;
  /** Virtual, or -1. */
  leaderEpoch: number;
}

const all = new WeakMap<GatewayServices, Map<string, Known>>();

function knownOf(
  services: GatewayServices,
  { topicId, partition }: ShellPartition,
): Known | undefined {
  return all.get(services)?.get(`${topicId}/${partition}`);
}

function knownFrom(services: GatewayServices, place: ShellPartition): Known {
  const known = all.get(services) ?? new Map<string, Known>();
  all.set(services, known);
  const key = `${place.topicId}/${place.partition}`;
  const found = known.get(key) ?? { highWatermark: -1n, leaderEpoch: -1 };
  known.set(key, found);
  return found;
}

export function noteHighWatermark(
  services: GatewayServices,
  place: ShellPartition,
  highWatermark: bigint,
): void {
  if (place.topicId === null || highWatermark < 0n) return;
  const known = knownFrom(services, place);
  if (highWatermark > known.highWatermark) known.highWatermark = highWatermark;
}

export function hasHighWatermark(services: GatewayServices, place: ShellPartition): boolean {
  return (knownOf(services, place)?.highWatermark ?? -1n) >= 0n;
}

/** Never below S (splice-facts, "Bytes"). */
export function knownHighWatermark(
  services: GatewayServices,
  place: ShellPartition,
  extent: NativeExtent,
): bigint {
  const known = knownOf(services, place)?.highWatermark ?? -1n;
  return known > extent.start ? known : extent.start;
}

/** A leader epoch that the broker took as the partition's own. */
export function noteEpoch(
  services: GatewayServices,
  place: ShellPartition,
  leaderEpoch: number,
): void {
  if (place.topicId === null) return;
  const known = knownFrom(services, place);
  if (leaderEpoch > known.leaderEpoch) known.leaderEpoch = leaderEpoch;
}

/** The highest of them, or -1: older ones are fenced. */
export function confirmedEpoch(services: GatewayServices, place: ShellPartition): number {
  return knownOf(services, place)?.leaderEpoch ?? -1;
}

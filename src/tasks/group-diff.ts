// What is to become of one committed offset of one group: the decision of the group task, from the
// source's commit, the mirror's end, what the destination has and what we wrote last. Pure. Refuses
// to know how offsets are read and written. Invariants (design §8): never above the mirror's
// durable end; never raised to a start; a group that moved at the destination by itself is not
// rewound; idle offsets are renewed before they expire; what somebody deleted at the destination is
// made again only when the source commits anew.

export interface Position {
  readonly offset: bigint;
  readonly metadata: string | null;
}

export interface Synced {
  readonly offset: bigint;
  /** Monotonic ms of our last commit. */
  readonly atMs: number;
  /** It was found deleted at the destination, and stays so until the source commits anew. */
  readonly isDeleted?: boolean;
}

export interface Comparison {
  readonly source: Position;
  /** The mirror's durable end, or S after the switch. */
  readonly mirrorEnd: bigint;
  /** What the destination has, read just now; null when nothing is committed there. */
  readonly actual: Position | null;
  /** What we wrote last; null when that is not known (a restart). */
  readonly synced: Synced | null;
  readonly nowMs: number;
  readonly renewalMs: number;
  /** What is not there may have expired in spite of renewals; otherwise somebody deleted it. */
  readonly mayHaveExpired: boolean;
}

export type Decision =
  | {
      readonly kind: 'commit';
      readonly position: Position;
      readonly why: 'new' | 'follow' | 'above-end' | 'renew';
    }
  | { readonly kind: 'in-step' }
  /** Somebody deleted at the destination what we wrote there; it has not expired. */
  | { readonly kind: 'deleted' }
  /** The group has been elsewhere at the destination since our last commit. */
  | { readonly kind: 'moved' };

/** min(source commit, mirror's end): evaluated again whenever the end moves. */
export function desiredOffset(source: Position, mirrorEnd: bigint): bigint {
  return source.offset < mirrorEnd ? source.offset : mirrorEnd;
}

export function isClamped(source: Position, mirrorEnd: bigint): boolean {
  return source.offset > mirrorEnd;
}

export function decide(comparison: Comparison): Decision {
  const { source, mirrorEnd, actual, synced, nowMs, renewalMs } = comparison;
  const offset = desiredOffset(source, mirrorEnd);
  const position: Position = { offset, metadata: source.metadata };
  if (actual === null) {
    const isOurs = synced !== null && synced.offset === offset;
    const isDeleted = isOurs && (synced.isDeleted === true || !comparison.mayHaveExpired);
    return isDeleted ? { kind: 'deleted' } : { kind: 'commit', position, why: 'new' };
  }
  // Nobody can have read beyond the end: it is what a truncation has left behind.
  if (actual.offset > mirrorEnd) return { kind: 'commit', position, why: 'above-end' };
  if (actual.offset === offset) {
    const isDue = synced === null || nowMs - synced.atMs >= renewalMs;
    const isOurs = synced !== null && synced.offset === offset;
    if (isOurs && actual.metadata !== source.metadata) {
      return { kind: 'commit', position, why: 'follow' };
    }
    // Renewed with what is there, so that a group's own metadata is not lost.
    return isDue ? { kind: 'commit', position: actual, why: 'renew' } : { kind: 'in-step' };
  }
  const isUnmoved = synced !== null && actual.offset === synced.offset;
  if (isUnmoved) return { kind: 'commit', position, why: 'follow' };
  const isAhead = offset > actual.offset;
  const wasSetBack = synced !== null && actual.offset < synced.offset;
  if (isAhead && !wasSetBack) return { kind: 'commit', position, why: 'follow' };
  return { kind: 'moved' };
}

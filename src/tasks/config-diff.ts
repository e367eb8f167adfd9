// What is to become of a mirror's topic configs: a three-way comparison of what the source says,
// what was taken over last, and what the destination has. Pure. Refuses to know brokers.
// Invariants: an edit at the destination survives, except of keys that always follow the source
// and of the pinned tombstones of a compacted mirror; a key that is not set at the source any more
// is unset.
import type { ConfigChange } from '../cluster/config-requests.ts';
import {
  alwaysSynced,
  isPinned,
  policiesOf,
  retentionOfTombstones,
} from '../link/mirror/topic-configs.ts';

export interface ActualConfig {
  readonly value: string | null;
  /** On the topic itself, not inherited from its brokers. */
  readonly isSet: boolean;
}

export interface ConfigComparison {
  /** From `syncedConfigs`: only keys that are included. */
  readonly desired: Readonly<Record<string, string>>;
  /** What was taken over last; null when that was never recorded. */
  readonly before: Readonly<Record<string, string>> | null;
  readonly actual: ReadonlyMap<string, ActualConfig>;
  readonly include: ReadonlySet<string>;
}

export interface LocalEdit {
  readonly name: string;
  readonly here: string | null;
  readonly source: string | null;
}

export interface ConfigDiff {
  /** The pin of tombstones comes first: a compacted mirror is never without it. */
  readonly changes: readonly ConfigChange[];
  readonly localEdits: readonly LocalEdit[];
  /** What has been taken over once `changes` are made. */
  readonly synced: Readonly<Record<string, string>>;
}

function isSame(name: string, left: string | null, right: string | null): boolean {
  if (left === null || right === null || name !== 'cleanup.policy') return left === right;
  return [...policiesOf(left)].sort().join() === [...policiesOf(right)].sort().join();
}

export function diffConfigs(comparison: ConfigComparison): ConfigDiff {
  const { desired, before, actual, include } = comparison;
  const pinnedBefore = before !== null && isPinned(before);
  const names = new Set([...include, ...Object.keys(desired)]);
  if (pinnedBefore) names.add(retentionOfTombstones);
  const changes: ConfigChange[] = [];
  const localEdits: LocalEdit[] = [];
  const synced: Record<string, string> = {};
  for (const name of names) {
    const wanted = desired[name] ?? null;
    const isForced =
      alwaysSynced.includes(name) || (name === retentionOfTombstones && isPinned(desired));
    // An old source that does not have the key says nothing about it.
    if (isForced && wanted === null) continue;
    const found = actual.get(name);
    const here = found !== undefined && (found.isSet || isForced) ? found.value : null;
    const last = before?.[name] ?? null;
    if (!isSame(name, here, wanted)) {
      if (!isForced && !isSame(name, here, last)) {
        localEdits.push({ name, here, source: wanted });
        if (last !== null) synced[name] = last;
        continue;
      }
      const change = { name, value: wanted };
      if (name === retentionOfTombstones && isForced) changes.unshift(change);
      else changes.push(change);
    }
    if (wanted !== null) synced[name] = wanted;
  }
  return { changes, localEdits, synced };
}

export function isSameRecord(
  left: Readonly<Record<string, string>> | undefined,
  right: Readonly<Record<string, string>>,
): boolean {
  if (left === undefined) return false;
  const names = Object.keys(right);
  return (
    Object.keys(left).length === names.length && names.every((name) => left[name] === right[name])
  );
}

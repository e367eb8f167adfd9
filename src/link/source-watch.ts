// What a source's metadata means for its mirrors: gone, recreated, shrunk, grown, or as it should
// be. Pure. Refuses to know how metadata is read and what follows. Invariant: a topic that is not
// provably the one that was mirrored is never followed.
import { ErrorCode, errorName, zeroUuid } from '../../protocol/index.ts';
import type { TopicInfo } from '../cluster/cluster.ts';
import type { MirrorError, TopicRecord } from '../state/records.ts';

export type Finding =
  | { readonly kind: 'as-is' }
  /** Not there just now; only lasting absence means that it was deleted. */
  | { readonly kind: 'missing' }
  /** Not readable just now, with Kafka's name of the reason. */
  | { readonly kind: 'unreadable'; readonly cause: string }
  /** Fewer partitions under the same id: stale metadata of one broker, unless it lasts. */
  | { readonly kind: 'shrunk'; readonly error: MirrorError }
  /** Another topic has the name, as the broker sees it that was asked: it may be left behind. */
  | { readonly kind: 'other'; readonly error: MirrorError }
  | { readonly kind: 'grown'; readonly partitionsCount: number };

export function examine(
  record: Pick<TopicRecord, 'sourceTopic' | 'sourceTopicId' | 'partitions'>,
  info: TopicInfo | undefined,
): Finding {
  if (info === undefined || info.errorCode === ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) {
    return { kind: 'missing' };
  }
  if (info.errorCode !== ErrorCode.NONE) {
    return { kind: 'unreadable', cause: errorName(info.errorCode) };
  }
  const hasIds = record.sourceTopicId !== zeroUuid;
  if (hasIds && info.topicId !== record.sourceTopicId) {
    return {
      kind: 'other',
      error: {
        code: 'SOURCE_TOPIC_ID_CHANGED',
        message:
          `Source topic '${record.sourceTopic}' was recreated: its id is ${info.topicId}, ` +
          `the mirror is of ${record.sourceTopicId}`,
      },
    };
  }
  const mirrored = record.partitions.length;
  const found = info.partitions.length;
  if (found < mirrored) {
    const error: MirrorError = {
      code: 'SOURCE_PARTITIONS_DECREASED',
      message:
        `Source topic '${record.sourceTopic}' has ${found} partitions, ` + `the mirror ${mirrored}`,
    };
    return { kind: hasIds ? 'shrunk' : 'other', error };
  }
  if (found > mirrored) return { kind: 'grown', partitionsCount: found };
  return { kind: 'as-is' };
}

export function isDenied(info: TopicInfo | undefined): boolean {
  return info?.errorCode === ErrorCode.TOPIC_AUTHORIZATION_FAILED;
}

/** Findings that only count when they last; remembers since when. */
export class Lasting {
  readonly #since = new Map<string, number>();

  /** True when `topic` has been noted without a break for `lastMs`. */
  note(topic: string, nowMs: number, lastMs: number): boolean {
    const since = this.#since.get(topic);
    if (since === undefined) {
      this.#since.set(topic, nowMs);
      return lastMs <= 0;
    }
    return nowMs - since >= lastMs;
  }

  clear(topic: string): void {
    this.#since.delete(topic);
  }

  /** Forgets the others: while nobody looked at one, nobody knows that it lasted. */
  keep(isWatched: (topic: string) => boolean): void {
    for (const topic of this.#since.keys()) if (!isWatched(topic)) this.#since.delete(topic);
  }
}

// Lost records by link and topic, for a counter. Owns what was counted before; refuses to know how
// it is shown. Invariant: a count never falls while its mirror or a receipt of it is there, since
// whoever reads a counter takes a fall for a new beginning and counts what is left once more.
import type { MirrorStatus } from '../link/service.ts';
import type { LostRange, ReceiptPartition, ReceiptRecord } from '../state/records.ts';

export interface LostOfTopic {
  readonly link: string;
  readonly topic: string;
  readonly records: bigint;
}

interface Counted extends LostOfTopic {
  /** What the state said last: less than `records` once something has left it. */
  readonly inState: bigint;
}

type Mirror = Pick<MirrorStatus, 'link' | 'name' | 'lostTotals' | 'lostRanges'>;

export class LostRecords {
  #counted: ReadonlyMap<string, Counted> = new Map();

  /** Of those that lost nothing, too: a count that is first seen above 0 shows no increase. */
  count(mirrors: readonly Mirror[], receipts: Iterable<ReceiptRecord>): readonly LostOfTopic[] {
    const found = new Map<string, LostOfTopic>();
    const ranges = new Map<string, readonly LostRange[]>();
    for (const { link, name: topic, lostTotals, lostRanges } of mirrors) {
      ranges.set(`${link}/${topic}`, lostRanges);
      add(found, { link, topic, records: sumOf(lostTotals.map(({ records }) => records)) });
    }
    for (const receipt of receipts) {
      for (const { link, topic, partitions } of receipt.topics) {
        const own = ranges.get(`${link}/${topic}`) ?? [];
        const records = sumOf(partitions.map((one) => leftBehind(one) - lostBehind(one, own)));
        add(found, { link, topic, records });
      }
    }
    const counted = new Map<string, Counted>();
    for (const [key, { link, topic, records: inState }] of found) {
      const before = this.#counted.get(key);
      const grown = before === undefined ? inState : inState - before.inState;
      const records = (before?.records ?? 0n) + (grown > 0n ? grown : 0n);
      counted.set(key, { link, topic, inState, records });
    }
    this.#counted = counted;
    return [...counted.values()];
  }
}

/**
 * What the source was seen to have and the copy had not, then or when the source was read later: a
 * source that has lost some of it since makes our loss no smaller.
 */
function leftBehind({ lostRecords, found }: ReceiptPartition): bigint {
  const later = found?.lostRecords ?? 0n;
  const isMore = later > lostRecords;
  const most = isMore ? later : lostRecords;
  return most > 0n ? most : 0n;
}

/** Of what was left behind: history that a mirror was FAILED for is counted with the mirror. */
function lostBehind(
  { partition, mirroredEnd, sourceEnd }: ReceiptPartition,
  ranges: readonly LostRange[],
): bigint {
  const behind = ranges.filter(
    (range) => range.partition === partition && range.from >= mirroredEnd && range.from < sourceEnd,
  );
  // The source may have begun above its last known end.
  return sumOf(behind.map(({ from, to }) => (to < sourceEnd ? to : sourceEnd) - from));
}

function add(found: Map<string, LostOfTopic>, { link, topic, records }: LostOfTopic): void {
  const key = `${link}/${topic}`;
  const before = found.get(key)?.records ?? 0n;
  found.set(key, { link, topic, records: before + records });
}

function sumOf(values: readonly bigint[]): bigint {
  return values.reduce((sum, value) => sum + value, 0n);
}

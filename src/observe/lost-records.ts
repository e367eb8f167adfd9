// Lost records by link and topic, for a counter. Owns what was counted before; refuses to know how
// it is shown. Invariant: a count never falls while its mirror or a receipt of it is there, since
// whoever reads a counter takes a fall for a new beginning and counts what is left once more.
import type { MirrorStatus } from '../link/service.ts';
import type { ReceiptPartition, ReceiptRecord } from '../state/records.ts';

export interface LostOfTopic {
  readonly link: string;
  readonly topic: string;
  readonly records: bigint;
}

interface Counted extends LostOfTopic {
  /** What the state said last: less than `records` once something has left it. */
  readonly inState: bigint;
}

type Mirror = Pick<MirrorStatus, 'link' | 'name' | 'lostTotals'>;

export class LostRecords {
  #counted: ReadonlyMap<string, Counted> = new Map();

  /** Of those that lost nothing, too: a count that is first seen above 0 shows no increase. */
  count(mirrors: readonly Mirror[], receipts: Iterable<ReceiptRecord>): readonly LostOfTopic[] {
    const found = new Map<string, LostOfTopic>();
    for (const { link, name: topic, lostTotals } of mirrors) {
      add(found, { link, topic, records: sumOf(lostTotals.map(({ records }) => records)) });
    }
    for (const receipt of receipts) {
      for (const { link, topic, partitions } of receipt.topics) {
        add(found, { link, topic, records: sumOf(partitions.map(leftBehind)) });
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

function add(found: Map<string, LostOfTopic>, { link, topic, records }: LostOfTopic): void {
  const key = `${link}/${topic}`;
  const before = found.get(key)?.records ?? 0n;
  found.set(key, { link, topic, records: before + records });
}

function sumOf(values: readonly bigint[]): bigint {
  return values.reduce((sum, value) => sum + value, 0n);
}

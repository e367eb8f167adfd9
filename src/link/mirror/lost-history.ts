// What a mirror's record says of offsets that were gone from the source before they were read.
// Owns what is listed and what is only counted; refuses to know how a loss is found and what
// follows from it. Invariants: no offset is counted twice, however often its loss is found; the
// totals stay right when the list is cut off; of each partition the latest range is listed.
import type { Events } from '../../observe/events.ts';
import type { LostRange, LostTotal, TopicRecord } from '../../state/records.ts';
import type { Loss } from '../fetch/source-link.ts';

/** Ranges that a record lists at most; the latest one of each partition whatever their number. */
const listedMax = 100;

type Losses = Pick<TopicRecord, 'lost' | 'lostBefore'>;

/** What of the range is not on record yet; null: nothing. */
export function unrecordedLoss({ lost = [] }: Losses, loss: Loss): Loss | null {
  const end = latestOf(lost, loss.partition)?.to ?? 0n;
  const isBehind = loss.from >= end;
  const from = isBehind ? loss.from : end;
  return from < loss.to ? { partition: loss.partition, from, to: loss.to } : null;
}

/** The record with these ranges too. The same record when all of them are on record. */
export function withLosses<Kept extends Losses>(
  record: Kept,
  losses: readonly Loss[],
  timeMs: number,
): Kept {
  let lost = record.lost ?? [];
  let isNew = false;
  for (const loss of losses) {
    const added = unrecordedLoss({ lost }, loss);
    if (added === null) continue;
    isNew = true;
    const latest = latestOf(lost, loss.partition);
    // It went on being lost while it was dealt with: one range.
    const isLonger = latest?.to === added.from;
    const from = isLonger ? latest.from : added.from;
    lost = lost.filter((range) => !(isLonger && range === latest));
    lost = [...lost, { ...added, from, timeMs }];
  }
  return isNew ? { ...record, ...cutOff(lost, record.lostBefore ?? []) } : record;
}

/** All that was lost of each partition that lost anything. */
export function lostTotals({ lost = [], lostBefore = [] }: Losses): readonly LostTotal[] {
  const totals = new Map(lostBefore.map((total) => [total.partition, total] as const));
  for (const range of lost) count(totals, range);
  return sorted(totals);
}

function latestOf(lost: readonly LostRange[], partition: number): LostRange | undefined {
  return lost.findLast((range) => range.partition === partition);
}

function cutOff(lost: readonly LostRange[], before: readonly LostTotal[]): Losses {
  const latest = new Map(lost.map((range) => [range.partition, range] as const));
  let surplus = lost.length - Math.max(listedMax, latest.size);
  if (surplus <= 0) return { lost };
  const totals = new Map(before.map((total) => [total.partition, total] as const));
  const listed = lost.filter((range) => {
    if (surplus <= 0 || latest.get(range.partition) === range) return true;
    surplus--;
    count(totals, range);
    return false;
  });
  return { lost: listed, lostBefore: sorted(totals) };
}

function count(totals: Map<number, LostTotal>, { partition, from, to }: LostRange): void {
  const { ranges = 0, records = 0n } = totals.get(partition) ?? {};
  totals.set(partition, { partition, ranges: ranges + 1, records: records + to - from });
}

function sorted(totals: ReadonlyMap<number, LostTotal>): readonly LostTotal[] {
  return [...totals.values()].sort((one, other) => one.partition - other.partition);
}

export const lossRemedy =
  'the copy stays as it is: fail it over, or delete the mirror and create it again; ' +
  "with 'mirror.lost.history.policy' set to 'continue' on the link mirrors go on behind such a gap";

interface LossPlace {
  readonly topic: string;
  readonly link: string;
}

export function tellLoss(events: Events, loss: Loss, place: LossPlace): void {
  const message = lossMessage(place.topic, loss);
  events.error('mirror_history_lost', message, lossFields(loss, place));
}

/** Of a mirror that was made just now, which begins behind it instead. */
export function tellStartMoved(events: Events, loss: Loss, place: LossPlace): void {
  const { partition, from, to } = loss;
  const range = `${place.topic}-${partition}: offsets [${from}, ${to})`;
  const message = `${range} were gone before mirroring began`;
  events.warn('mirror_start_moved', message, lossFields(loss, place));
}

function lossFields({ partition, from, to }: Loss, place: LossPlace) {
  return { ...place, partition, from: `${from}`, to: `${to}` };
}

export function lossMessage(topic: string, { partition, from, to }: Loss): string {
  return (
    `${topic}-${partition}: offsets [${from}, ${to}) were gone from the source before they ` +
    'were read'
  );
}

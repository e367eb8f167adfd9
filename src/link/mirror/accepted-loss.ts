// What becomes of the copy of a promoted partition when an operator accepts that a part of it is
// lost. Owns what is put in the place of the lost end; refuses to know how the loss was found.
// Invariants: the copy ends where its extent ends, so that readers go on with what was written
// after the promotion; no transaction in what is left stays open; nothing of what is left is
// changed.
import { buildControlBatch, buildGapBatch } from '../../../protocol/index.ts';
import type { MirrorLog } from '../../../storage/mirror-log.ts';
import type { Timeline } from '../../timeline/timeline.ts';

/** Kept well below what one batch and one segment can count. */
const gapOffsetsMax = 1n << 30n;
const noTimestamp = -1n;

/** Where the mirror extent of a promoted partition ends; null while it is mirrored. */
export function closedMirrorEnd(timeline: Timeline | undefined): bigint | null {
  return timeline?.extents.findLast(({ where }) => where === 'mirror')?.end ?? null;
}

/**
 * The lost range becomes a gap as log cleaning leaves it; of a log without any batch the start
 * moves.
 */
export async function closeAfterLoss(log: MirrorLog, end: bigint): Promise<void> {
  if (log.end === log.logStart) {
    await log.deleteHead(end);
    return;
  }
  const partitionLeaderEpoch = Math.max(0, log.lastEpoch);
  for (const transaction of log.openTransactions()) {
    // Its marker was in the lost range, so there is room for one.
    const { producerId, producerEpoch } = transaction;
    await log.append(
      buildControlBatch({
        baseOffset: log.end,
        producerId,
        producerEpoch,
        partitionLeaderEpoch,
        timestamp: noTimestamp,
        type: 'ABORT',
        coordinatorEpoch: 0,
      }),
    );
  }
  while (log.end < end) {
    const baseOffset = log.end;
    const lastOffset = end - baseOffset > gapOffsetsMax ? baseOffset + gapOffsetsMax : end - 1n;
    await log.append(buildGapBatch({ baseOffset, lastOffset, partitionLeaderEpoch }));
  }
  await log.flush();
}

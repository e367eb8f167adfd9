// A segment read again from its file: what is known of it, made anew.
//
// Owns: the walk over a segment whose beginning is known (open transactions). It decides nothing.
// Invariant: what it returns is what a log would know that had just appended these batches.

import { lastOffset } from '../../protocol/record-batch.ts';
import { StorageError } from '../errors.ts';
import type { FileTable } from './file-table.ts';
import { Segment } from './segment.ts';
import { scanSegment } from './segment-scan.ts';
import { TransactionTracker } from './transactions.ts';

export interface RereadSegment {
  /** With its index in memory. */
  readonly segment: Segment;
  /** What is open at its end, and what was aborted in it. */
  readonly tracker: TransactionTracker;
}

/** Batches that reach to `until` or above are left out. */
export async function rereadSegment(
  old: Segment,
  options: { readonly files: FileTable; readonly until: bigint | null },
): Promise<RereadSegment> {
  const { files, until } = options;
  const segment = new Segment(old.directory, old.baseOffset, old.interval);
  segment.openAtStart = old.openAtStart;
  const tracker = new TransactionTracker();
  tracker.replaceOpen(old.openAtStart);
  const { problem } = await files.use(old.path, (file) =>
    scanSegment(file, {
      start: 0,
      end: old.size,
      tail: { end: old.baseOffset, lastEpoch: -1 },
      checkFrom: null,
      visit: (header, _position, control) => {
        if (until !== null && lastOffset(header) >= until) return false;
        segment.add(header);
        tracker.apply(header, control);
        return true;
      },
    }),
  );
  if (problem !== null) throw new StorageError('CORRUPT', `${old.path}: ${problem}`);
  return { segment, tracker };
}

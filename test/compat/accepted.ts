// The differences between a suite directly and through the proxy that are known, each with its
// cause. No entry that a user would call a fault has a place here.

import type { AcceptedDifference } from './comparison.ts';

/** D is the offset at which every topic begins in this variant. */
function expectsZero(suite: string, test: string, cause: string): AcceptedDifference {
  return { suite, variants: ['offset-shift'], test, cause };
}

export const acceptedDifferences: readonly AcceptedDifference[] = [
  expectsZero(
    'franz-go',
    'TestAddRemovePartitions',
    'it reads from offset 1 and expects the second record there; the log begins at D',
  ),
  expectsZero(
    'franz-go',
    'TestConsumeMaxDecompressBatchBytes',
    'it expects the offsets 0 to 3 in an error; they are D to D + 3',
  ),
  expectsZero(
    'franz-go',
    'TestGroupETL',
    'it expects the first record of a partition at offset 0; all of its groups pass',
  ),
  expectsZero(
    'franz-go',
    'TestShareGroupOffsetsAdmin',
    'it sets a share group to offset 8, below the log start; the group begins at D',
  ),
];

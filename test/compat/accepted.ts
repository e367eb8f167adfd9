// The differences between a suite directly and through the proxy that are known, each with its
// cause. No entry that a user would call a fault has a place here.

import type { AcceptedDifference } from './comparison.ts';

export const acceptedDifferences: readonly AcceptedDifference[] = [
  {
    suite: 'franz-go',
    variants: ['offset-shift'],
    test: 'TestAddRemovePartitions',
    cause: 'it reads from offset 1 and expects the second record there; the log begins at D',
  },
];

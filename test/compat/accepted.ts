// The differences between a suite directly and through the proxy that are known, each with its
// cause. No entry that a user would call a fault has a place here.

import type { AcceptedDifference } from './comparison.ts';

export const acceptedDifferences: readonly AcceptedDifference[] = [];

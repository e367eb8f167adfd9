// What two runs of one suite say when they are held side by side. Pure.
// Invariants: a difference is shown unless it is on the committed list, with its cause; a test
// during which the proxy saw nothing is never counted as one that passed through it.

import type { Variant } from './proxy-parts.ts';
import type { Verdict } from './suites/suite.ts';

export interface Outcome {
  readonly test: string;
  readonly direct: Verdict;
  readonly proxied: Verdict;
  /** Bytes that clients sent to the proxy meanwhile. */
  readonly seenBytes: number;
  /** All that the test printed when it ran through the proxy. */
  readonly said: string;
}

export interface AcceptedDifference {
  readonly suite: string;
  readonly variants: readonly Variant[];
  /** Whatever it does differently; without it any test. An entry has this or `says`, or both. */
  readonly test?: string;
  /** What is printed by a test that passes directly and for this cause fails through the proxy. */
  readonly says?: RegExp;
  readonly cause: string;
}

export interface Comparison {
  /** Same verdict on both sides, and through the proxy. */
  readonly same: readonly Outcome[];
  readonly notCovered: readonly Outcome[];
  readonly accepted: readonly { readonly outcome: Outcome; readonly cause: string }[];
  readonly differences: readonly Outcome[];
}

function explains({ test, says }: AcceptedDifference, outcome: Outcome): boolean {
  if (test !== undefined && test !== outcome.test) return false;
  if (says === undefined) return test !== undefined;
  // What is refused by a proxy that stays away altogether has no known cause.
  const isWorse = outcome.direct === 'pass' && outcome.proxied === 'fail' && outcome.seenBytes > 0;
  return isWorse && says.test(outcome.said);
}

export function compare(
  outcomes: readonly Outcome[],
  run: { suite: string; variant: Variant; accepted: readonly AcceptedDifference[] },
): Comparison {
  const same: Outcome[] = [];
  const notCovered: Outcome[] = [];
  const accepted: { outcome: Outcome; cause: string }[] = [];
  const differences: Outcome[] = [];
  for (const outcome of outcomes) {
    if (outcome.direct === outcome.proxied) {
      // Skipped tests need not talk to anybody; what does not talk has no place in the count.
      if (outcome.seenBytes > 0) same.push(outcome);
      else notCovered.push(outcome);
      continue;
    }
    const entry = run.accepted.find(
      (known) =>
        known.suite === run.suite &&
        known.variants.includes(run.variant) &&
        explains(known, outcome),
    );
    if (entry === undefined) differences.push(outcome);
    else accepted.push({ outcome, cause: entry.cause });
  }
  return { same, notCovered, accepted, differences };
}

export function report(comparison: Comparison, title: string): string {
  const { same, notCovered, accepted, differences } = comparison;
  const passed = same.filter(({ direct }) => direct === 'pass').length;
  const lines = [
    `${title}: ${passed} pass both ways, ${same.length - passed} end alike otherwise, ` +
      `${differences.length} differ, ${accepted.length} differ for a known cause, ` +
      `${notCovered.length} never reached the proxy`,
  ];
  for (const { test, direct, proxied } of differences) {
    lines.push(`  DIFFERENT ${test}: ${direct} directly, ${proxied} through the proxy`);
  }
  for (const { outcome, cause } of accepted) lines.push(`  known ${outcome.test}: ${cause}`);
  return `${lines.join('\n')}\n`;
}

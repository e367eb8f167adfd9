// Judges a history: are R4, R6, R7, R8 and R12 kept? Pure, so that planted violations can prove
// that it finds them.
//
// Owns: the rules in terms of what clients saw. Knows nothing of clusters, faults or the product.
// Invariant: what it returns are sentences that name the rule and the place; none means that the
// history is one that the rules allow.

import type { Act, History, Session, Write } from './history.ts';
import type { LogRecord } from './log-records.ts';

type Violations = string[];

function place(partition: number, offset: number): string {
  return `${partition}/${offset}`;
}

function byPlace(log: readonly LogRecord[]): Map<string, string | null> {
  return new Map(log.map(({ partition, offset, value }) => [place(partition, offset), value]));
}

function mayBeLost({ mirroredTo, verb }: History, write: Write): boolean {
  // A failover keeps what had come over: each partition's prefix.
  const isBeyond = (write.offset ?? 0) >= (mirroredTo[write.partition] ?? 0);
  return write.side === 'source' && verb === 'failover' && isBeyond;
}

/** Acknowledged and, if in a transaction, committed: it must be there, at its offset. */
function lostWrites(history: History): Violations {
  const found: Violations = [];
  const all = byPlace(history.log.read_uncommitted);
  const committed = byPlace(history.log.read_committed);
  for (const write of history.writes) {
    const { outcome, offset, partition, value, writer, side, transaction } = write;
    if (outcome !== 'acknowledged' || offset === null || mayBeLost(history, write)) continue;
    const where = place(partition, offset);
    if (all.get(where) !== value) {
      found.push(`R4: ${value} of ${writer}, acknowledged at ${where}, is not there`);
      continue;
    }
    const end = history.switchedAt[partition] ?? 0;
    if (side === 'destination' && offset < end) {
      found.push(`R4: ${value} of ${writer} is at ${where}, below S = ${end}`);
    }
    if (side === 'source' && offset >= end) {
      found.push(`R4: ${value} of ${writer}, of the source, is at ${where}, not below S = ${end}`);
    }
    const isCommitted =
      transaction === null || history.transactions.get(transaction) === 'committed';
    // At a failover a transaction whose marker has not come over is aborted in the copy.
    const isCut = side === 'source' && history.verb === 'failover' && transaction !== null;
    if (isCommitted && !isCut && committed.get(where) !== value) {
      found.push(`R7: ${value} of ${writer} at ${where} was committed and is not visible`);
    }
  }
  return found;
}

/** Nothing is there that nobody wrote or that was refused, and nothing twice but by plain ones. */
function strangeRecords(history: History): Violations {
  const found: Violations = [];
  const writes = new Map(history.writes.map((write) => [write.value, write]));
  const seen = new Map<string, string>();
  for (const { partition, offset, value } of history.log.read_uncommitted) {
    const where = place(partition, offset);
    const write = value === null ? undefined : writes.get(value);
    if (value === null || write === undefined) {
      found.push(`R4: ${value} at ${where} was written by nobody`);
      continue;
    }
    if (write.outcome === 'refused') {
      found.push(`R3: ${value} at ${where} was refused to ${write.writer}`);
    }
    const before = seen.get(value);
    if (before !== undefined && write.kind !== 'plain') {
      found.push(
        `R4: ${value} of ${write.writer} (${write.kind}) is there twice: ` +
          `at ${before} and ${where}`,
      );
    }
    seen.set(value, where);
  }
  return found;
}

/** What read_committed shows of each transaction: all of it or nothing, as it ended. */
function transactionBoundaries(history: History): Violations {
  const found: Violations = [];
  const visible = new Set(history.log.read_committed.map(({ value }) => value));
  const shown = new Map<string, boolean>();
  for (const write of history.writes) {
    const { transaction, value, outcome, writer } = write;
    if (transaction === null) continue;
    const isVisible = visible.has(value);
    if (isVisible && history.transactions.get(transaction) === 'aborted') {
      found.push(`R7: ${value} of ${writer} is visible, its transaction was aborted`);
    }
    // Only what was acknowledged was certainly part of it; the source's may be cut by a failover.
    if (outcome !== 'acknowledged' || (write.side === 'source' && history.verb === 'failover')) {
      continue;
    }
    const before = shown.get(transaction);
    if (before !== undefined && before !== isVisible) {
      found.push(`R7: transaction ${transaction} of ${writer} is visible in parts`);
    }
    shown.set(transaction, isVisible);
  }
  return found;
}

function checkSession(history: History, session: Session): Violations {
  const found: Violations = [];
  const { reader, partition, isolation, reads } = session;
  const log = history.log[isolation].filter((record) => record.partition === partition);
  const values = byPlace(log);
  const every = byPlace(history.log.read_uncommitted);
  const rule = isolation === 'read_committed' ? 'R7' : 'R6';
  const who = `${reader} (${isolation})`;
  const missed = (from: number, below: number): LogRecord | undefined =>
    log.find(({ offset }) => offset >= from && offset < below);
  let next = session.furthest;
  for (const [index, { offset, value }] of reads.entries()) {
    const where = place(partition, offset);
    if (index === 0 && offset < session.committed) {
      found.push(`R6: ${who} began at ${where}, below its commit ${session.committed}`);
    }
    if (index > 0 && offset < next) {
      found.push(`R6: ${who} went back to ${where} after ${next - 1}`);
    }
    const skipped = missed(next, offset);
    if (skipped) found.push(`R6: ${who} skipped ${place(partition, skipped.offset)}`);
    if (!values.has(where) && every.has(where)) {
      found.push(`${rule}: ${who} was given ${value} at ${where}, which is not committed`);
    } else if (values.get(where) !== value) {
      found.push(`R4: ${who} was given ${value} at ${where}, where ${values.get(where)} is`);
    }
    next = offset + 1;
  }
  const unread = session.isLast ? missed(next, Number.POSITIVE_INFINITY) : undefined;
  if (unread) found.push(`${rule}: ${who} never got ${place(partition, unread.offset)}`);
  return found;
}

function wentBack({ told }: History): Violations {
  const highest = new Map<string, number>();
  const found: Violations = [];
  for (const { what, partition, value } of told) {
    const key = `${what} of partition ${partition}`;
    const before = highest.get(key) ?? Number.NEGATIVE_INFINITY;
    if (value < before) found.push(`R8: the ${key} went back from ${before} to ${value}`);
    else highest.set(key, value);
  }
  return found;
}

/** One instance acts at a time: the one that acquired the lease last, until it is lost. */
function staleActs(acts: readonly Act[]): Violations {
  const found: Violations = [];
  let owner: string | null = null;
  for (const { instance, kind, what } of acts.toSorted((a, b) => a.timeMs - b.timeMs)) {
    if (kind === 'acquired') owner = instance;
    else if (kind === 'lost') owner = owner === instance ? null : owner;
    else if (owner !== instance) {
      found.push(`R12: ${instance} acted (${what}) while ${owner ?? 'nobody'} was the owner`);
    }
  }
  return found;
}

function staleCommits({ stateEpochs }: History): Violations {
  return stateEpochs.flatMap((epoch, index) => {
    const before = stateEpochs[index - 1] ?? epoch;
    return epoch < before ? [`R12: the state was written with epoch ${epoch} after ${before}`] : [];
  });
}

/** Every violation of a rule in this history, as sentences. */
export function violationsOf(history: History): readonly string[] {
  return [
    ...lostWrites(history),
    ...strangeRecords(history),
    ...transactionBoundaries(history),
    ...history.sessions.flatMap((session) => checkSession(history, session)),
    ...wentBack(history),
    ...staleActs(history.acts),
    ...staleCommits(history),
  ];
}

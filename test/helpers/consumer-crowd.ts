// Checks for a crowd of consumers, one of each library, on one topic.
//
// Owns: comparing what each was given with the log itself, a subtest for each kind, and why a kind
// is left out. Knows nothing of clusters, or of what happened to them meanwhile.
// Invariant: a kind whose toolchain is missing is named as skipped, never passed over.

import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { type ConsumerKind, type ForeignConsumer, skipReason } from './foreign-clients.ts';
import type { LogRecord } from './log-records.ts';
import { assertEachOnceInOrder } from './record-checks.ts';

/** By kind: false, or why it cannot run here. */
export type Skips = ReadonlyMap<ConsumerKind, string | false>;

export async function findSkips(kinds: readonly ConsumerKind[]): Promise<Skips> {
  const skips = new Map<ConsumerKind, string | false>();
  for (const kind of kinds) skips.set(kind, await skipReason(kind));
  return skips;
}

export function inPartitionOrder(list: readonly LogRecord[]): LogRecord[] {
  return list
    .map(({ partition, offset, value }) => ({ partition, offset, value }))
    .sort((a, b) => a.partition - b.partition || a.offset - b.offset);
}

/** Given exactly the log from `starts` (by partition) on: each record once, in order. */
export async function assertHasRead(
  consumer: ForeignConsumer,
  log: readonly LogRecord[],
  starts: readonly number[],
): Promise<void> {
  const wanted = log.filter(({ partition, offset }) => offset >= (starts[partition] ?? 0));
  await consumer.waitForCount(wanted.length);
  assertEachOnceInOrder(consumer.records);
  assert.deepEqual(inPartitionOrder(consumer.records), inPartitionOrder(wanted));
  // kafkajs logs every answer that makes it join its group anew as an error; the others pass over
  // them.
  if (consumer.kind !== 'kafkajs') assert.deepEqual(consumer.errors, []);
}

/** One subtest for each kind; those without a toolchain say so. */
export async function forEachKind<Kind extends ConsumerKind>(
  t: TestContext,
  options: { kinds: readonly Kind[]; skips: Skips },
  body: (kind: Kind) => Promise<void>,
): Promise<void> {
  for (const kind of options.kinds) {
    await t.test(kind, { skip: options.skips.get(kind) ?? false }, () => body(kind));
  }
}

export function found<Kind, Client>(clients: ReadonlyMap<Kind, Client>, kind: Kind): Client {
  const client = clients.get(kind);
  assert.ok(client !== undefined, `no ${kind} client was started`);
  return client;
}

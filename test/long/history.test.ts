// Histories at length: random clients, random faults, promote and failover in turn, until the time
// given with `--minutes` is used up.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Fault, faults, HistoryStory, type RoundPlan } from '../chaos/history-story.ts';
import { findSkips } from '../helpers/consumer-crowd.ts';
import { type ConsumerKind, consumerKinds, type ProducerKind } from '../helpers/foreign-clients.ts';
import { startStage } from '../helpers/linked-stage.ts';
import { SeededRandom } from '../helpers/seeded-random.ts';

/** kafkajs hands out aborted records, also when it reads from a broker, and has no idempotence. */
const transactionalKinds: readonly ProducerKind[] = ['java', 'librdkafka', 'franz-go'];
const atSwitch: readonly (Fault | null)[] = [
  null,
  'kill the proxy',
  'stop the proxy for a while',
  'restart the destination',
];

function someFaults(random: SeededRandom, among: readonly Fault[]): Fault[] {
  return Array.from({ length: 1 + random.below(2) }, () => random.pick(among));
}

function randomPlan(random: SeededRandom, present: readonly ConsumerKind[]): RoundPlan {
  const transactional = transactionalKinds.filter((kind) => present.includes(kind));
  const readers = present.filter((kind) => kind !== 'kafkajs');
  return {
    verb: random.pick(['promote', 'failover'] as const),
    writers: [
      [random.pick(transactional), 'transactional'],
      [random.pick(transactional), 'idempotent'],
      ['kafkajs', 'plain'],
    ],
    readers: [
      [random.pick(readers), 'read_committed'],
      [random.pick(readers), 'read_committed'],
      [random.pick(present), 'read_uncommitted'],
    ],
    whileMirroring: someFaults(random, faults),
    whileSwitching: random.pick(atSwitch),
    afterwards: someFaults(
      random,
      faults.filter((fault) => !/source|link/.test(fault)),
    ),
  };
}

test('R4, R6, R7, R8, R12: histories of random clients under random faults keep the rules', {
  timeout: 3_600_000,
}, async (context) => {
  const random = new SeededRandom();
  context.diagnostic(random.describe());
  const skips = await findSkips(consumerKinds);
  const present = consumerKinds.filter((kind) => skips.get(kind) === false);
  const endMs = performance.now() + Number(process.env.CAUSEWAY_TEST_MINUTES ?? 1) * 60_000;
  const linkConfigs = { 'promote.quiet.ms': '0', 'consumer.offset.sync.enable': 'true' };
  const stage = await startStage({ linkConfigs });
  const story = await HistoryStory.begin(stage, random);
  try {
    let rounds = 0;
    do {
      const plan = randomPlan(random, present);
      context.diagnostic(`round ${++rounds}: ${JSON.stringify(plan)}`);
      const { writes, reads } = await story.round(plan);
      context.diagnostic(`${writes} writes, ${reads} reads`);
      assert.ok(reads > 0);
    } while (performance.now() < endMs);
    const count = story.fencedByNobodyCount;
    context.diagnostic(`${rounds} rounds; ${count} times fenced by nobody and started again`);
  } finally {
    await story.end();
    await stage.stop();
  }
});

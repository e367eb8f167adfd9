// The mirror log against a naive one, under random operations, with the disk's power cut at random
// and at every step. What must hold after a crash: everything up to the durable end is identical,
// nothing is there that was not appended, and the log opens. A failure prints fast-check's seed.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { BatchPlan } from '../unit/storage/naive-log.ts';
import { appends, type Step, startRun, step } from './log-run.ts';
import { compareEachStep, cutPowerAnywhere, cutPowerAtEachStep } from './power-cuts.ts';

test('R1: the log answers as a naive one does, whatever is done to it', async () => {
  await compareEachStep({ step, start: (seed) => startRun(seed, 3n), runs: 150 });
  // How many is chance; that there are none is not.
  assert.ok(appends.now > 0, `${appends.now} appends were made at once`);
});

test('R1, R11, R19: a power cut at any moment costs nothing that was durable', async () => {
  await cutPowerAnywhere({ step, start: (seed) => startRun(seed, 0n), runs: 400 });
});

const script: readonly Step[] = [
  ...[0, 1, 2].map(
    (index): Step => ({
      op: 'append',
      batches: [
        plan({ kind: 'data', valueBytes: 1200 }),
        plan({ kind: 'transaction', producerId: index + 1 }),
        plan({ kind: 'data', valueBytes: 1200, epochStep: 1 }),
      ],
    }),
  ),
  { op: 'flush' },
  { op: 'append', batches: [plan({ valueBytes: 900 }), plan({ gap: 3 })] },
  { op: 'truncate', at: 60 },
  { op: 'append', batches: [plan({ valueBytes: 2500 }), plan({ valueBytes: 2500 })] },
  { op: 'tick' },
  { op: 'deleteHead', at: 50 },
  { op: 'hold', at: 95 },
  { op: 'append', batches: [plan({ kind: 'ABORT', producerId: 1, epochStep: 1 })] },
  { op: 'flush' },
  { op: 'truncate', at: 99 },
  { op: 'lift' },
  { op: 'append', batches: [plan({})] },
  { op: 'flush' },
  { op: 'jump', at: 2 },
  { op: 'append', batches: [plan({ valueBytes: 3000 }), plan({})] },
  { op: 'flush' },
  { op: 'append', batches: [plan({ valueBytes: 900 }), plan({ valueBytes: 900 })] },
  { op: 'append', batches: [plan({ valueBytes: 900 }), plan({ valueBytes: 900 })] },
  { op: 'flush' },
  { op: 'truncate', at: 40 },
  { op: 'append', batches: [plan({ valueBytes: 900, time: 3 }), plan({ valueBytes: 900 })] },
  { op: 'append', batches: [plan({ valueBytes: 900 }), plan({ valueBytes: 900 })] },
  { op: 'flush' },
];

function plan(options: Partial<BatchPlan>): BatchPlan {
  return {
    gap: 0,
    records: 2,
    epochStep: 0,
    kind: 'data',
    producerId: 1,
    time: 10,
    valueBytes: 50,
    ...options,
  };
}

test('R1, R11, R19: a power cut at every single step of a script', async () => {
  await cutPowerAtEachStep((seed) => startRun(seed, 0n), script);
});

const jump: readonly Step[] = [
  { op: 'append', batches: [plan({})] },
  { op: 'truncate', at: 0 },
  { op: 'append', batches: [plan({ epochStep: 1 })] },
  { op: 'jump', at: 1 },
  { op: 'append', batches: [plan({})] },
  { op: 'flush' },
];

test('R8: a jump whose flush ended a cut leaves it ended, wherever the power goes', async () => {
  await cutPowerAtEachStep((seed) => startRun(seed, 0n), jump);
});

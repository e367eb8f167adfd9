// The three ways in which a log on a simulated disk is held against a model of it: random steps,
// random steps with the power cut within, and a script with the power cut at every single step.
// Refuses to know what a step is and what must hold after it. A failure prints its seed.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { SeededRandom } from '../helpers/seeded-random.ts';
import type { TestLog } from '../unit/storage/fixtures.ts';

/** A log beside its model, and whatever else its steps act upon. */
export interface ModelRun<Step> {
  readonly opened: TestLog;
  step(each: Step): Promise<void>;
  compare(): Promise<void>;
  /** Opens the log after a power cut (cutting power again after so many steps) and compares. */
  recover(againAfter: readonly number[]): Promise<void>;
}

export interface ModelOptions<Step> {
  readonly step: fc.Arbitrary<Step>;
  readonly start: (seed: number) => Promise<ModelRun<Step>>;
  readonly runs: number;
}

/** How many times the usual number of runs: for long soaks. */
const scale = Number(process.env.CAUSEWAY_PROPERTY_SCALE ?? 1);

export async function compareEachStep<Step>(options: ModelOptions<Step>): Promise<void> {
  const steps = fc.array(options.step, { maxLength: 40 });
  await fc.assert(
    fc.asyncProperty(steps, fc.integer(), async (chosen, seed) => {
      const run = await options.start(seed);
      for (const each of chosen) {
        await run.step(each);
        await run.compare();
      }
    }),
    { numRuns: options.runs * scale, includeErrorInReport: true },
  );
}

export async function cutPowerAnywhere<Step>(options: ModelOptions<Step>): Promise<void> {
  const cuts = fc.record({
    crashAfter: fc.integer({ min: 0, max: 120 }),
    againAfter: fc.array(fc.integer({ min: 0, max: 12 }), { maxLength: 2 }),
  });
  const steps = fc.array(options.step, { minLength: 1, maxLength: 30 });
  await fc.assert(
    fc.asyncProperty(steps, cuts, fc.integer(), async (chosen, at, seed) => {
      const run = await options.start(seed);
      await crashWithin(run, chosen, at);
      for (const each of chosen) await run.step(each);
      await run.compare();
    }),
    { numRuns: options.runs * scale, includeErrorInReport: true },
  );
}

/** What a cut costs of what was not flushed is chance: other seeds with each call. */
export async function cutPowerAtEachStep<Step>(
  start: ModelOptions<Step>['start'],
  script: readonly Step[],
): Promise<void> {
  const first = new SeededRandom().seed % 2 ** 30;
  for (let seed = first; seed < first + scale; seed++) {
    for (let crashAfter = 0; ; crashAfter++) {
      const run = await start(seed);
      try {
        if (!(await crashWithin(run, script, { crashAfter, againAfter: [] }))) break;
      } catch (error) {
        console.error(`CAUSEWAY_TEST_SEED=${seed}, power cut after step ${crashAfter}`);
        throw error;
      }
    }
  }
}

async function crashWithin<Step>(
  run: ModelRun<Step>,
  steps: readonly Step[],
  at: { readonly crashAfter: number; readonly againAfter: readonly number[] },
): Promise<boolean> {
  run.opened.disk.crashAfter(at.crashAfter);
  let hasCrashed = false;
  for (const each of steps) {
    try {
      await run.step(each);
    } catch (error) {
      assert.match(String(error), /crash/i, String(error instanceof Error ? error.stack : error));
      hasCrashed = true;
      break;
    }
  }
  // Of a crash while a segment is sealed nobody hears: sealing can wait.
  hasCrashed ||= run.opened.disk.hasCrashed;
  await run.recover(at.againAfter);
  return hasCrashed;
}

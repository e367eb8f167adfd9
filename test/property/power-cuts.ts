// The three ways in which a log on a simulated disk is held against a model of it: random steps,
// random steps with the process killed or the power cut within, and a script with either at every
// single step. Refuses to know what a step is and what must hold after it. A failure prints its
// seed.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { SeededRandom } from '../helpers/seeded-random.ts';
import type { TestLog } from '../unit/storage/fixtures.ts';
import type { SimulatedDisk } from '../unit/storage/simulated-disk.ts';

/** A log beside its model, and whatever else its steps act upon. */
export interface ModelRun<Step> {
  readonly opened: TestLog;
  step(each: Step): Promise<void>;
  compare(): Promise<void>;
  /** Opens the log after the first stop, and after each of the others meanwhile; compares. */
  recover(stops: Stops): Promise<void>;
}

/** What ends a process, and after how many steps of it. */
export interface Stop {
  readonly kind: 'power' | 'kill';
  readonly afterSteps: number;
}

export type Stops = readonly [Stop, ...Stop[]];

/** What the next process finds. */
export function diskAfter(disk: SimulatedDisk, { kind }: Stop): SimulatedDisk {
  return kind === 'power' ? disk.powerCut() : disk.processKill();
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
  const stop = (afterStepsMax: number): fc.Arbitrary<Stop> =>
    fc.record({
      kind: fc.constantFrom<Stop['kind'][]>('power', 'power', 'kill'),
      afterSteps: fc.integer({ min: 0, max: afterStepsMax }),
    });
  const others = fc.array(stop(12), { maxLength: 2 });
  const steps = fc.array(options.step, { minLength: 1, maxLength: 30 });
  await fc.assert(
    fc.asyncProperty(steps, stop(120), others, fc.integer(), async (chosen, first, rest, seed) => {
      const run = await options.start(seed);
      await stopWithin(run, chosen, [first, ...rest]);
      for (const each of chosen) await run.step(each);
      await run.compare();
    }),
    { numRuns: options.runs * scale, includeErrorInReport: true },
  );
}

const atRest = Number.POSITIVE_INFINITY;

/** What a cut costs of what was not flushed is chance: other seeds with each call. */
export async function cutPowerAtEachStep<Step>(
  start: ModelOptions<Step>['start'],
  script: readonly Step[],
): Promise<void> {
  const first = new SeededRandom().seed % 2 ** 30;
  for (let seed = first; seed < first + scale; seed++) {
    for (let afterSteps = 0; ; afterSteps++) {
      const power: Stops = [{ kind: 'power', afterSteps }];
      // What a killed process has left must be as safe, once it counts, as what was written since.
      const both: Stops = [
        { kind: 'kill', afterSteps },
        { kind: 'power', afterSteps: atRest },
      ];
      let hasStopped = false;
      for (const stops of (seed + afterSteps) % 2 === 0 ? [power, both] : [power]) {
        try {
          hasStopped = await stopWithin(await start(seed), script, stops);
        } catch (error) {
          console.error(`CAUSEWAY_TEST_SEED=${seed}, stops ${JSON.stringify(stops)}`);
          throw error;
        }
      }
      if (!hasStopped) break;
    }
  }
}

async function stopWithin<Step>(
  run: ModelRun<Step>,
  steps: readonly Step[],
  stops: Stops,
): Promise<boolean> {
  run.opened.disk.crashAfter(stops[0].afterSteps);
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
  await run.recover(stops);
  return hasCrashed;
}

// The mirror log against a naive one while the disk refuses single operations. What must hold: a
// refused step leaves the log as it was, or as the step would have, or failed; what readers see
// does not change by it; and whatever ends the process then, the next one finds all that was
// durable. A failure prints fast-check's seed.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Fault } from '../unit/storage/simulated-disk.ts';
import { type Run, type Step, startRun, step } from './log-run.ts';
import type { Stop } from './power-cuts.ts';

const scale = Number(process.env.CAUSEWAY_PROPERTY_SCALE ?? 1);

const fault: fc.Arbitrary<Fault> = fc.record({
  operation: fc.constantFrom<Fault['operation'][]>(
    'open',
    'read',
    'write',
    'truncate',
    'sync',
    'remove',
    'rename',
    'syncDirectory',
  ),
  pathIncludes: fc.constantFrom('.log', 'checkpoint', 'sealed', 'index', '/logs/'),
  code: fc.constantFrom<Fault['code'][]>('IO', 'FULL', 'NO_HANDLE'),
  times: fc.integer({ min: 1, max: 2 }),
  writtenBytes: fc.constantFrom(0, 40),
});

function isFailed({ opened }: Pick<Run, 'opened'>): boolean {
  return opened.reports.some(({ kind }) => kind === 'log-failed');
}

/** The model follows what a refused step has done; nothing that readers see has changed by it. */
async function adoptRefused(run: Run): Promise<void> {
  const { log, model, inFlight } = run;
  const { startMovedTo } = inFlight;
  if (startMovedTo !== null && log.logStart === startMovedTo) model.deleteHead(startMovedTo);
  assert.equal(log.end, model.end, 'the end after a refused step');
  if (log.durableEnd !== model.durableEnd) model.flush();
  if (inFlight.batches.length > 0) inFlight.refused.push(inFlight.batches);
  Object.assign(inFlight, { batches: [], truncatedTo: null, startMovedTo: null });
  await run.compare();
}

/** False when the log takes no more steps. */
async function stepRefused(run: Run, each: Step, refused: Fault): Promise<boolean> {
  const { faults } = run.opened.disk;
  const { opened } = run;
  if (refused.code !== 'NO_HANDLE' || ['open', 'syncDirectory'].includes(refused.operation)) {
    faults.push({ ...refused });
  }
  try {
    await run.step(each);
    opened.disk.faults.length = 0;
    // What the end of the process before would have saved.
    const isLost = run.opened !== opened && isFailed({ opened });
    if (isLost && run.inFlight.holdIsNew) run.model.setHold(run.log.heldFrom);
  } catch (error) {
    opened.disk.faults.length = 0;
    assert.match(String(error), /injected|failed earlier/, String(error));
    if (isFailed(run) || each.op === 'restart') return false;
    await adoptRefused(run);
  }
  return !isFailed(run);
}

test('R11, R19: a disk that refuses any step costs nothing that was durable', async () => {
  const refusable = fc.tuple(step, fc.option(fault, { freq: 3 }));
  const steps = fc.array(refusable, { minLength: 1, maxLength: 25 });
  const kind = fc.constantFrom<Stop['kind'][]>('power', 'kill');
  await fc.assert(
    fc.asyncProperty(steps, kind, fc.integer(), async (chosen, stop, seed) => {
      const run = await startRun(seed, 0n);
      for (const [each, refused] of chosen) {
        if (refused === null) await run.step(each);
        else if (!(await stepRefused(run, each, refused))) break;
      }
      await run.recover([{ kind: stop, afterSteps: 0 }]);
    }),
    { numRuns: 300 * scale, includeErrorInReport: true },
  );
});

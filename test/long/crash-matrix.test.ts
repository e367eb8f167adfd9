// R11 at every named step: the proxy is killed -9 there, and after its restart there is one of the
// legal outcomes. A part of it runs with every change: test/chaos/history.test.ts.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { CrashMatrix } from '../chaos/crash-matrix.ts';
import { FaultPoints, faultPoints } from '../helpers/fault-points.ts';
import { type LinkedStage, startStage } from '../helpers/linked-stage.ts';

let faults: FaultPoints;
let stage: LinkedStage;

before(async () => {
  faults = await FaultPoints.prepare();
  const linkConfigs = { 'promote.quiet.ms': '0' };
  stage = await startStage({ linkConfigs, causeway: { env: faults.env } });
});

after(async () => {
  await stage?.stop();
  await faults?.remove();
});

test('R11, R3, R4: killed at each named step, one of the legal outcomes, nothing lost or twice', async (t) => {
  const matrix = new CrashMatrix(stage, faults);
  assert.ok(faultPoints.length > 20);
  for (const point of faultPoints) {
    await t.test(point, () => matrix.life(point.replace('.', '-'), [point]));
  }
});

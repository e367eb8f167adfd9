// The soak at length: fifty kills of the proxy, then on until the time given with `--minutes` is
// used up, with every batch compared to what the source has.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SoakStory, soakSource } from '../chaos/soak-story.ts';
import { startStage } from '../helpers/linked-stage.ts';
import { SeededRandom } from '../helpers/seeded-random.ts';

const killsPerRound = 5;

test('R1, R7, R11: a copy of mixed topics under kills and moving leaders is the source’s, batch by batch', {
  timeout: 3_600_000,
}, async (context) => {
  const random = new SeededRandom();
  context.diagnostic(random.describe());
  const minutes = Number(process.env.CAUSEWAY_TEST_MINUTES ?? 1);
  const endMs = performance.now() + minutes * 60_000;
  const stage = await startStage({ source: soakSource });
  const story = new SoakStory(stage, random);
  try {
    await story.begin();
    let rounds = 0;
    // A quick look has less time than fifty kills need.
    const killsMin = Math.min(50, Math.floor(minutes * 10));
    do {
      await story.round({ kills: killsPerRound, restartsBroker: rounds++ % 2 === 0 });
      context.diagnostic(`round ${rounds}: ${JSON.stringify(story.count)}`);
    } while (performance.now() < endMs || story.count.kills < killsMin);
    assert.ok(story.count.batches > 0);
  } finally {
    await story.end();
    await stage.stop();
  }
});

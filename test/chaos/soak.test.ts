// The soak, short: one round of mixed topics at full speed, with kills of the proxy and a broker
// that is restarted, and the same comparison batch by batch. test/long/soak.test.ts goes on for as
// long as it is told.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startStage } from '../helpers/linked-stage.ts';
import { SeededRandom } from '../helpers/seeded-random.ts';
import { SoakStory, soakSource } from './soak-story.ts';

test('R1, R7, R11: a copy of mixed topics is the source’s, batch by batch, after kills of the proxy and of a broker', async (context) => {
  const random = new SeededRandom();
  context.diagnostic(random.describe());
  const stage = await startStage({ source: soakSource });
  const story = new SoakStory(stage, random);
  try {
    await story.begin();
    await story.round({ kills: 3, restartsBroker: true });
    context.diagnostic(JSON.stringify(story.count));
    assert.ok(story.count.batches > 0);
    assert.equal(story.count.kills, 3);
  } finally {
    await story.end();
    await stage.stop();
  }
});

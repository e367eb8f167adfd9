// R11 at length: at least 20 kills of the proxy, then on until the time given with `--minutes` is
// used up.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KillStory, type Moment } from '../chaos/kill-story.ts';
import { startStage } from '../helpers/linked-stage.ts';
import { SeededRandom } from '../helpers/seeded-random.ts';

const killsMin = 20;
const moments: readonly Moment[] = ['creating', 'mirroring', 'switching', 'aborting', 'writing'];

test('R11, R1, R4: kill -9 of the proxy, twenty times and more, loses nothing and switches a timeline once', {
  timeout: 3_600_000,
}, async (context) => {
  const random = new SeededRandom();
  context.diagnostic(random.describe());
  const minutes = Number(process.env.CAUSEWAY_TEST_MINUTES ?? 1);
  const endMs = performance.now() + minutes * 60_000;
  const stage = await startStage();
  try {
    const story = new KillStory(stage, random);
    while (story.killsCount < killsMin || performance.now() < endMs) {
      await story.round(random.pick(['promote', 'failover'] as const), moments);
    }
    context.diagnostic(`${story.killsCount} kills, ${story.undoneCount} failovers undone`);
    assert.ok(story.killsCount >= killsMin);
  } finally {
    await stage.stop();
  }
});

// R11 in its short form, run with every change: a handful of kills, at least one in a promotion,
// one in a failover and one under each kind of load. test/long/kill-moments.test.ts has many.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startStage } from '../helpers/linked-stage.ts';
import { SeededRandom } from '../helpers/seeded-random.ts';
import { KillStory } from './kill-story.ts';

test('R11, R1, R4: kill -9 of the proxy at random moments loses nothing and switches a timeline once', {
  timeout: 240_000,
}, async (context) => {
  const random = new SeededRandom();
  context.diagnostic(random.describe());
  const stage = await startStage();
  try {
    const story = new KillStory(stage, random);
    await story.round('failover', ['mirroring', 'aborting']);
    await story.round('promote', ['creating', 'switching', 'writing']);
    context.diagnostic(`${story.undoneCount} failovers undone`);
    assert.equal(story.killsCount, 5);
  } finally {
    await stage.stop();
  }
});

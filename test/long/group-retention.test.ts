// A group that is idle at the source outlives the retention of the destination, which brokers count
// in minutes. (The rule itself, by a clock that is turned: test/unit/tasks/group-writer.test.ts.)
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { commitOffsets, committedOffsets } from '../helpers/group-offsets.ts';
import { startStage } from '../helpers/linked-stage.ts';
import { values } from '../helpers/raw-writes.ts';
import { until } from '../helpers/wait.ts';

const topic = 'idle-topic';

test('an idle group whose source holds its offset outlives offsets.retention.minutes=1', async () => {
  const stage = await startStage({
    destination: {
      settings: {
        'offsets.retention.minutes': '1',
        'offsets.retention.check.interval.ms': '2000',
      },
    },
    linkConfigs: { 'consumer.offset.sync.enable': 'true' },
  });
  try {
    const { atSource, atDestination } = stage;
    await stage.mirrorNewTopic(topic, values('idle', 5));
    const seen = async (group: string) =>
      (await committedOffsets(atDestination, group, topic, 1))[0];
    await commitOffsets(atSource, 'idle', topic, [2]);
    await until('synced', async () => (await seen('idle')) === 2);
    // The witness expires, twice: that is the proof that enough time has passed.
    for (const witness of ['unrenewed', 'unrenewed again']) {
      await commitOffsets(atDestination, witness, topic, [1]);
      await until(`${witness} has expired`, async () => (await seen(witness)) === -1, {
        deadlineMs: 150_000,
        intervalMs: 500,
      });
      assert.equal(await seen('idle'), 2);
    }
  } finally {
    await stage.stop();
  }
});

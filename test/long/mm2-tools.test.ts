// MirrorMaker 2's own client library and formatters on what we write in its formats.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { commitOffsets, committedOffsets } from '../helpers/group-offsets.ts';
import { type LinkedStage, linkName, startStage } from '../helpers/linked-stage.ts';
import { askMirrorClient } from '../helpers/mirror-client.ts';
import { values, write } from '../helpers/raw-writes.ts';
import { createTopic } from '../helpers/topic-admin.ts';
import { until } from '../helpers/wait.ts';

const topic = 'checked';
const group = 'checked-group';
let stage: LinkedStage;

before(async () => {
  stage = await startStage({
    linkConfigs: {
      'consumer.offset.sync.enable': 'true',
      'emit.checkpoints.enabled': 'true',
      'emit.checkpoints.interval.seconds': '1',
      'emit.heartbeats.enabled': 'true',
    },
  });
});

after(() => stage?.stop());

test("R5: MirrorMaker 2's client library translates offsets with our checkpoints", async () => {
  const { atSource, atDestination, causeway, destination } = stage;
  await createTopic(atSource, topic, { partitions: 2 });
  for (const partition of [0, 1]) await write(atSource, topic, partition, values('c', 9));
  await stage.mirror(topic);
  await stage.caughtUp(topic);
  await commitOffsets(atSource, group, topic, [4, 9]);
  await until('synced', async () => {
    const found = await committedOffsets(atDestination, group, topic, 2);
    return found.join() === '4,9';
  });
  await until('a heartbeat that came through', async () => {
    const metrics = await (await fetch(`${causeway.adminUrl}/metrics`)).text();
    return /causeway_link_heartbeat_age_seconds\{link="dr"\} [\d.]+/.test(metrics);
  });
  await until('checkpoints', async () => {
    const { topics } = await atDestination.metadata([`${linkName}.checkpoints.internal`]);
    return [...topics.values()].every(({ partitions }) => partitions.length === 1);
  });
  const question = { bootstrap: causeway.bootstrap, alias: linkName, group };
  let lines: readonly string[] = [];
  await until(
    'the translated offsets',
    async () => {
      lines = await askMirrorClient(question);
      return lines[0] === `offsets {${topic}-0=4, ${topic}-1=9}`;
    },
    { deadlineMs: 120_000, describe: () => lines.join('\n') },
  );
  assert.deepEqual(lines.slice(1, 3), [`upstream [${linkName}]`, 'hops 1']);
  assert.match(lines[3] ?? '', new RegExp(`^Heartbeat.*${destination.clusterId}.*${linkName}`));
  assert.match(lines[4] ?? '', /^Checkpoint.*upstreamOffset=\d+, downstreamOffset=\d+/);
});

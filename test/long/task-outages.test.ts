// The sync tasks come back by themselves, whatever was away for a while: Causeway and its
// destination twenty times over (D24), one broker of three at the source with the coordinators of
// its groups (D15).
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CoordinatorMap } from '../../src/tasks/group-offsets.ts';
import { commitOffsets, committedOffsets } from '../helpers/group-offsets.ts';
import { type LinkedStage, startStage } from '../helpers/linked-stage.ts';
import { waitForState } from '../helpers/mirror-commands.ts';
import { values, write } from '../helpers/raw-writes.ts';
import { SeededRandom } from '../helpers/seeded-random.ts';
import { createTopic } from '../helpers/topic-admin.ts';
import { until } from '../helpers/wait.ts';

const outages = 20;
const slow = { deadlineMs: 120_000 };

async function interrupt(stage: LinkedStage, random: SeededRandom): Promise<string> {
  const { causeway, destination } = stage;
  const what = random.pick(['proxy killed', 'proxy stopped', 'broker killed', 'broker stopped']);
  switch (what) {
    case 'proxy killed':
      await causeway.kill9();
      await causeway.start();
      break;
    case 'proxy stopped':
      await causeway.stopProcess();
      await causeway.start();
      break;
    case 'broker killed':
      await destination.kill9();
      await destination.restartBroker();
      break;
    default:
      await destination.stopBroker();
      await destination.restartBroker();
  }
  return what;
}

test('D24: new topics are mirrored after each of twenty restarts, of ours and of the destination', {
  timeout: 3_600_000,
}, async (context) => {
  const random = new SeededRandom();
  context.diagnostic(random.describe());
  const topicFilters = [{ name: 'auto', patternType: 'PREFIXED', filterType: 'INCLUDE' }];
  const stage = await startStage({
    linkConfigs: {
      'auto.create.mirror.topics.enable': 'true',
      'auto.create.mirror.topics.filters': JSON.stringify({ topicFilters }),
    },
  });
  try {
    for (let round = 0; round < outages; round++) {
      const topic = `auto-${round}`;
      const make = async (): Promise<void> => {
        await createTopic(stage.atSource, topic);
        await write(stage.atSource, topic, 0, values('auto', 3));
      };
      // Just before, so that it is on its way; while nobody looks; or when all is well again.
      const moment = random.pick(['before', 'meanwhile', 'after']);
      if (moment === 'before') await make();
      const interrupted = interrupt(stage, random);
      if (moment === 'meanwhile') await make();
      const what = await interrupted;
      if (moment === 'after') await make();
      await waitForState(stage.causeway, topic, 'ACTIVE', slow);
      await stage.mirrored(topic);
      context.diagnostic(`${what}, topic made ${moment}`);
    }
    const metrics = await (await fetch(`${stage.causeway.adminUrl}/metrics`)).text();
    const last = /causeway_task_last_success_timestamp_seconds\{.*AutoCreateMirror.*\} (\S+)/;
    assert.ok(Number(last.exec(metrics)?.[1]) > 0, 'when topics were last looked at');
  } finally {
    await stage.stop();
  }
});

test('D15: groups follow while one of three source brokers is away, and when it is back', {
  timeout: 1_200_000,
}, async (context) => {
  const stage = await startStage({
    source: { brokers: 3 },
    linkConfigs: { 'consumer.offset.sync.enable': 'true' },
  });
  try {
    const { atSource, atDestination, source } = stage;
    const topic = 'grouped';
    await createTopic(atSource, topic, { replication: 3 });
    await write(atSource, topic, 0, values('grouped', 20));
    await stage.mirror(topic);
    await stage.mirrored(topic);
    const groups = Array.from({ length: 12 }, (_, index) => `group-${index}`);
    const follow = async (offset: number): Promise<void> => {
      for (const group of groups) {
        await until(
          `a commit of ${group}`,
          async () => {
            await commitOffsets(atSource, group, topic, [offset]);
            return true;
          },
          slow,
        );
      }
      for (const group of groups) {
        await until(
          `${group} at ${offset}`,
          async () => (await committedOffsets(atDestination, group, topic, 1))[0] === offset,
          slow,
        );
      }
    };
    await follow(1);
    const located = await new CoordinatorMap(atSource).locate(groups);
    // Broker 1 is the only controller.
    const [away] = [2, 3].filter((id) => located.has(id));
    assert.ok(away, 'some groups have their coordinator at another broker than the first');
    context.diagnostic(`broker ${away} with ${located.get(away)?.length} groups is away`);
    await source.kill9(away);
    await follow(2);
    await write(atSource, topic, 0, values('meanwhile', 3));
    await source.restartBroker(away);
    await follow(21);
    const links = await fetch(`${stage.causeway.adminUrl}/health/links`);
    assert.equal(links.status, 200, await links.text());
  } finally {
    await stage.stop();
  }
});

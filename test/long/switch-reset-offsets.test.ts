// `kafka-consumer-groups --reset-offsets` in all its forms on a promoted topic: what Kafka's own
// tool computes and commits is right on both sides of S.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { javaTool } from '../helpers/java-tools.ts';
import { type LinkedStage, startStage } from '../helpers/linked-stage.ts';
import { stopMirroring } from '../helpers/mirror-commands.ts';
import { write } from '../helpers/raw-writes.ts';

const topic = 'orders';
let stage: LinkedStage;

before(async () => {
  stage = await startStage({ linkConfigs: { 'promote.quiet.ms': '0' } });
  const fill = async (): Promise<void> => {
    for (const second of [1n, 2n, 3n]) {
      await write(stage.atSource, topic, 0, ['x', 'y'], { timestamp: second * 1_000n });
    }
  };
  // The records are of 1970: retention would take them.
  await stage.mirrorNewTopic(topic, fill, { configs: { 'retention.ms': '-1' } });
  const [switched] = await stopMirroring(stage.causeway, 'promote', topic);
  assert.equal(switched?.virtualEnd, 6);
  for (const second of [4n, 5n]) {
    await write(stage.atProxy, topic, 0, ['x', 'y'], { timestamp: second * 1_000n });
  }
  await write(stage.atProxy, topic, 0, ['of today']);
});

after(async () => {
  await stage?.stop();
});

/** Kafka's day begins at 1970; offsets 0-1 are of second 1, 2-3 of second 2 and so on. */
const second = (number: number): string => `1970-01-01T00:00:0${number}.000Z`;

const forms: readonly (readonly [args: readonly string[], offset: number])[] = [
  [['--to-earliest'], 0],
  [['--to-latest'], 11],
  [['--to-offset', '3'], 3],
  [['--to-offset', '8'], 8],
  [['--shift-by', '-3'], 5],
  [['--shift-by', '2'], 7],
  [['--shift-by', '100'], 11],
  [['--to-current'], 11],
  [['--to-datetime', second(2)], 2],
  [['--to-datetime', second(4)], 6],
  [['--to-datetime', second(5)], 8],
  [['--by-duration', 'PT1H'], 10],
  [['--by-duration', 'PT0S'], 11],
];

test('every form of --reset-offsets lands where it should, across S', async () => {
  for (const [args, offset] of forms) {
    const { stdout } = await javaTool(stage.causeway, 'kafka-consumer-groups', [
      ...['--group', 'app', '--topic', topic, '--reset-offsets', '--execute'],
      ...args,
    ]);
    assert.match(stdout, new RegExp(`app +${topic} +0 +${offset}\\b`), args.join(' '));
  }
  const described = ['--describe', '--group', 'app'];
  const { stdout } = await javaTool(stage.causeway, 'kafka-consumer-groups', described);
  assert.match(stdout, /app +orders +0 +11 +11 +0/, 'the log end is the virtual one');
});

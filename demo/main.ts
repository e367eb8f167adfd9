// `npm run demo [-- --once]`: the whole path on two real Kafka clusters. Without `--once` it stays
// up until Ctrl-C; with it, it plays a disaster from end to end and exits 0 only if every check
// held.
import { readCommandLine } from '../test/helpers/command-line.ts';
import { playAround } from './playground.ts';
import { setScene } from './scene.ts';
import { playOnce } from './story.ts';
import { checkTools } from './tools.ts';

const { values } = readCommandLine(
  { options: { once: { type: 'boolean', default: false } } },
  'npm run demo [-- --once]',
);

const withoutLibrdkafka = await checkTools();
const scene = await setScene();
let hasStopped = false;
const stop = async (): Promise<void> => {
  if (hasStopped) return;
  hasStopped = true;
  await scene.stop();
};
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    process.stdout.write('\nStopping what this demo started ...\n');
    stop().then(
      () => process.exit(0),
      (error: unknown) => {
        process.stderr.write(`${error}\n`);
        process.exit(1);
      },
    );
  });
}
try {
  if (values.once) process.exitCode = (await playOnce(scene, withoutLibrdkafka)) ? 0 : 1;
  else await playAround(scene);
} finally {
  if (values.once) await stop();
}

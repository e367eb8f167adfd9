// `npm run demo`: keeps the scene alive with a live producer and a consumer group on the source,
// and says what to try. Ends only with Ctrl-C; a live client that fails says so and ends the demo.
import { startConsumer, startProducer } from '../test/helpers/foreign-clients.ts';
import { javaToolLine } from '../test/helpers/java-tools.ts';
import { LiveLoad } from './live-load.ts';
import { link, partitionsCount, type Scene, topic } from './scene.ts';

const group = 'billing';

async function nextSteps(scene: Scene): Promise<string> {
  const { source, destination, causeway, bootstrapName } = scene;
  const cli = `CAUSEWAY_URL=${causeway.adminUrl} node bin/causeway.js`;
  const groupArgs = ['--topic', topic, '--group', group, '--max-messages', '10'];
  const readOn = await javaToolLine(causeway, 'kafka-console-consumer', [
    ...groupArgs,
    ...['--command-property', 'auto.offset.reset=none'],
    ...['print.partition=true', 'print.offset=true'].flatMap((one) => [
      '--formatter-property',
      one,
    ]),
  ]);
  return `
Running until Ctrl-C:
  source cluster             ${source.bootstrap}  (broker pid ${source.pid()})
  destination cluster        ${destination.bootstrap}  (clients never go there)
  proxy, for all clients     ${causeway.bootstrap}
  admin HTTP                 ${causeway.adminUrl}
  bootstrap name of clients  ${bootstrapName.address}  (leads to the source)
  log of the proxy           ${causeway.logFile}
  topic '${topic}'             ${partitionsCount} partitions
On the source a keyed producer writes and the group '${group}' reads and commits.

Three things to try, in another terminal in this folder:

1. The mirror is read-only, and as far as the source:
     ${cli} status
     ${cli} mirror describe ${topic}
   Lag 0 or a few records; offsets are the source's own.

2. The source dies, the data stays:
     kill -9 ${source.pid()}
     ${cli} mirror failover ${topic} --dry-run
     ${cli} mirror failover ${topic} --yes
   The receipt says what may be missing, per partition. Consumers of the proxy did not notice.

3. The group goes on where it was, at the proxy, and nothing tells it where to begin:
     ${readOn}
   Partitions and offsets follow GOES ON AT of the receipt: what the group had committed at the
   source, record for record. Before the failover this shows them:
     ${cli} group list --link ${link}
`;
}

export async function playAround(scene: Scene): Promise<void> {
  const bootstrap = scene.bootstrapName.address;
  const producer = scene.own(await startProducer('java', { bootstrap, topic, isIdempotent: true }));
  const load = new LiveLoad(producer, 'live');
  const reading = { group, reset: 'earliest', autoCommitMs: 1000 } as const;
  scene.own(await startConsumer('java', { bootstrap, topic, ...reading }));
  load.start();
  process.stdout.write(await nextSteps(scene));
  // Holds the process until a signal ends it.
  await new Promise<never>(() => setInterval(() => undefined, 60_000));
}

// `npm run demo`: keeps the scene alive with a live producer and a consumer group on the source,
// and says what to try. Ends only with Ctrl-C; a live client that fails says so and ends the demo.
import { startConsumer, startProducer } from '../test/helpers/foreign-clients.ts';
import { LiveLoad } from './live-load.ts';
import { partitionsCount, type Scene, topic } from './scene.ts';

function nextSteps(scene: Scene): string {
  const { source, destination, causeway, bootstrapName } = scene;
  const cli = `CAUSEWAY_URL=${causeway.adminUrl} node bin/causeway.js`;
  return `
Running until Ctrl-C:
  source cluster             ${source.bootstrap}  (broker pid ${source.pid()})
  destination cluster        ${destination.bootstrap}  (clients never go there)
  proxy, for all clients     ${causeway.bootstrap}
  admin HTTP                 ${causeway.adminUrl}
  bootstrap name of clients  ${bootstrapName.address}  (leads to the source)
  log of the proxy           ${causeway.logFile}
  topic '${topic}'             ${partitionsCount} partitions
On the source a keyed producer writes and the group 'billing' reads and commits.

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

3. The group goes on where it was:
     ${cli} group list --link dr
   The offsets are those that the group committed at the source, record for record.
`;
}

export async function playAround(scene: Scene): Promise<void> {
  const bootstrap = scene.bootstrapName.address;
  const producer = scene.own(await startProducer('java', { bootstrap, topic, isIdempotent: true }));
  const load = new LiveLoad(producer, 'live');
  const group = { group: 'billing', reset: 'earliest', autoCommitMs: 1000 } as const;
  scene.own(await startConsumer('java', { bootstrap, topic, ...group }));
  load.start();
  process.stdout.write(nextSteps(scene));
  // Holds the process until a signal ends it.
  await new Promise<never>(() => setInterval(() => undefined, 60_000));
}

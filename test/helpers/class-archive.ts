// An archive of the classes that a broker loads (class data sharing): JVMs over the same jars start
// in about half the CPU time with it.
//
// Owns: making it, once for each folder of jars. `jvmFlags` has the flags of JVMs that use it.
// Invariant: without the archive, or with one that another Java has made, everything runs as well,
// only slower; whoever runs over a class path that begins otherwise gets no use of it.
import { existsSync } from 'node:fs';
import { rename } from 'node:fs/promises';
import { withFileLock } from './file-lock.ts';
import { startKafkaCluster } from './kafka-cluster.ts';
import { classArchive, kafkaJars } from './kafka-jars.ts';

/** The JVM writes the archive when it ends. */
const dumpMsMax = 60_000;

/** The archive is one of the default version, and made of a broker's whole life. */
export async function makeClassArchive(): Promise<void> {
  const file = classArchive(await kafkaJars());
  if (existsSync(file)) return;
  await withFileLock(`${file}.lock`, async () => {
    if (existsSync(file)) return;
    const aside = `${file}.making-${process.pid}`;
    const brokerFlags = [`-XX:ArchiveClassesAtExit=${aside}`];
    const cluster = await startKafkaCluster({ name: 'archive', brokerFlags });
    try {
      await cluster.stopBroker(1, dumpMsMax);
    } finally {
      await cluster.stop();
    }
    if (existsSync(aside)) await rename(aside, file);
    else process.stderr.write(`# this Java makes no class archive: brokers start slower\n`);
  });
}

// What the demo needs on the machine, and what it fetches by itself. Owns: the list of missing
// tools with how to install them, said before anything is started. Refuses to install system
// packages.
import { missingToolchain } from '../test/helpers/toolchains.ts';

/**
 * Exits with a list when Java or Maven is missing; returns why librdkafka can't be shown, or null.
 */
export async function checkTools(): Promise<string | null> {
  const java = await missingToolchain('java');
  if (java !== undefined) {
    process.stderr.write(
      `The demo runs real Kafka brokers and needs a JDK 17 and Maven: ${java}\n`,
    );
    process.exit(1);
  }
  return (await missingToolchain('python')) ?? null;
}

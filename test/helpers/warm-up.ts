// Everything that tests with brokers would otherwise fetch or compile in the middle of a test.
//
// Owns: doing it beforehand, once, and saying which toolchains are missing. The test runner calls
// it, so that no test's time contains a download.
// Invariant: a missing toolchain is named and is no error; the tests that need it skip. Without
// Java there are no brokers at all, and that is one.

import { makeClassArchive } from './class-archive.ts';
import { kafkaJars, kafkaVersions } from './kafka-jars.ts';
import { goProgram, javaPrograms, missingToolchain, pythonInterpreter } from './toolchains.ts';

export async function warmUp(): Promise<void> {
  const withoutJava = await missingToolchain('java');
  if (withoutJava !== undefined)
    throw new Error(`tests with real brokers need Java: ${withoutJava}`);
  for (const version of kafkaVersions) await kafkaJars(version);
  await javaPrograms();
  await makeClassArchive();
  const prepare = { python: pythonInterpreter, go: goProgram } as const;
  for (const toolchain of ['python', 'go'] as const) {
    const missing = await missingToolchain(toolchain);
    if (missing === undefined) await prepare[toolchain]();
    else process.stderr.write(`# ${missing}; tests that need it will skip\n`);
  }
}

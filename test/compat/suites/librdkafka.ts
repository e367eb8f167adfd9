// librdkafka's own tests: the oldest and strictest suite. Its sources lie in an npm package of a
// binding; they are built here without what the tests do not need. One test per process.

import { existsSync, readdirSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { withFileLock } from '../../helpers/file-lock.ts';
import { cacheDirectory } from '../../helpers/repository.ts';
import { variants } from '../proxy-parts.ts';
import { mustRun, runCommand, type Suite, type Target, type TestRun } from './suite.ts';

const npmPackage = '@confluentinc/kafka-javascript@1.10.1';
/** In that package. */
const version = '2.15.1';
const kafkaVersion = '4.4.0';
const testTimeoutMs = 300_000;
/** They call Kafka's shell scripts, which are in no package. */
const needScripts = new Set(['0052', '0077', '0109', '0115', '0119']);
/** From here on tests are meant for somebody who watches. */
const manualFrom = '8000';
const root = path.join(cacheDirectory, 'compat', 'librdkafka-1.10.1');
const sources = path.join(root, 'package/deps/librdkafka');
const testDirectory = path.join(sources, 'tests');
/** Where the libraries are that the tests are linked with. */
const libraries = ['src', 'src-cpp'].map((name) => path.join(sources, name)).join(':');
const complete = path.join(root, 'complete');
const configureFlags = [
  '--disable-gssapi',
  '--disable-curl',
  '--disable-lz4-ext',
  '--disable-optimization',
];

async function build(): Promise<void> {
  await mkdir(path.dirname(root), { recursive: true });
  await withFileLock(`${root}.lock`, async () => {
    if (existsSync(complete)) return;
    process.stderr.write('# fetching and building librdkafka with its tests, some minutes, once\n');
    await rm(root, { recursive: true, force: true });
    await mkdir(root);
    await mustRun('npm', ['pack', '--silent', npmPackage], { cwd: root });
    const archive = readdirSync(root).find((name) => name.endsWith('.tgz'));
    if (archive === undefined) throw new Error(`npm has packed no archive of ${npmPackage}`);
    await mustRun('tar', ['xzf', archive], { cwd: root });
    await mustRun('bash', ['./configure', ...configureFlags], { cwd: sources });
    await mustRun('make', ['-j2', 'libs'], { cwd: sources, timeoutMs: 1_800_000 });
    const runner = ['-C', 'tests', 'test-runner'];
    await mustRun('make', runner, { cwd: sources, timeoutMs: 1_800_000 });
    await writeFile(complete, '');
  });
}

function settingsOf({ bootstrap, security }: Target): string {
  const login =
    security === undefined
      ? []
      : [
          'security.protocol=sasl_ssl',
          `sasl.mechanisms=${security.mechanism}`,
          `sasl.username=${security.username}`,
          `sasl.password=${security.password}`,
          `ssl.ca.location=${security.caFile}`,
        ];
  const lines = [`bootstrap.servers=${bootstrap}`, 'test.timeout.multiplier=3', ...login];
  return `${lines.join('\n')}\n`;
}

async function run(test: string, target: Target): Promise<TestRun> {
  const settings = path.join(root, `test-${process.pid}.conf`);
  await writeFile(settings, settingsOf(target));
  // Tests that need no broker are left out (-L); of the others the quick parts run (-Q).
  const { code, output } = await runCommand('./test-runner', ['-p1', '-E', '-L', '-Q'], {
    cwd: testDirectory,
    env: {
      LD_LIBRARY_PATH: libraries,
      TESTS: test,
      TEST_KAFKA_VERSION: kafkaVersion,
      RDKAFKA_TEST_CONF: settings,
    },
    timeoutMs: testTimeoutMs,
  });
  if (code !== 0) return { verdict: 'fail', output };
  const isPassed = new RegExp(`${test}_\\S+\\s*\\|\\s*PASSED`).test(output);
  return { verdict: isPassed ? 'pass' : 'skip', output };
}

export function librdkafka(): Suite {
  return {
    name: 'librdkafka',
    version: `librdkafka ${version}`,
    shape: {
      settings: {
        'auto.create.topics.enable': 'true',
        'num.partitions': '4',
        // Tests write records of 1970; retention takes such, now and then before they are read.
        'log.retention.ms': '-1',
        'group.coordinator.rebalance.protocols': 'classic,consumer,share',
        'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
        'allow.everyone.if.no.acl.found': 'true',
        'super.users': 'User:ANONYMOUS;User:causeway;User:admin',
      },
      brokers: 3,
    },
    variants,
    prepare: build,
    tests: async () => {
      const names = readdirSync(testDirectory).flatMap((name) => {
        const number = /^(\d{4})-.*\.(?:c|cpp)$/.exec(name)?.[1];
        if (number === undefined || number >= manualFrom) return [];
        return needScripts.has(number) ? [] : [number];
      });
      return [...new Set(names)].sort();
    },
    run,
  };
}

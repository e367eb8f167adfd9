// The whole test suite of franz-go's client, `pkg/kgo`: newest API versions, groups of all three
// kinds, transactions under continual rebalancing that check every record once.

import { variants } from '../proxy-parts.ts';
import { compileGoTests, type GoTests, listGoTests, runGoTest } from './go-suite.ts';
import type { Suite, Target } from './suite.ts';

const version = '1.22.3';
/**
 * Its clients know TLS from the environment, and log in only where a test is about that. Here they
 * log in wherever there is a user.
 */
const change = {
  file: 'helpers_test.go',
  from: '\tif testCert != nil {\n\t\topts = append(opts, DialTLSConfig(testCert))\n',
  to:
    '\tif saslScram != nil {\n\t\topts = append(opts, SASL(saslScram))\n\t}\n' +
    '\tif testCert != nil {\n\t\topts = append(opts, DialTLSConfig(testCert))\n',
};
const module = { module: `github.com/twmb/franz-go@v${version}`, package: 'pkg/kgo', change };

function environment({ bootstrap, security }: Target): Record<string, string> {
  const plain = {
    KGO_SEEDS: bootstrap,
    KGO_TEST_RF: '1',
    KGO_TEST_RECORDS: process.env.KGO_TEST_RECORDS ?? '10000',
  };
  if (security === undefined) return plain;
  const { caFile, username, password } = security;
  return {
    ...plain,
    KGO_TEST_TLS: `ca:${caFile}`,
    KGO_TEST_SCRAM: `${username}:${password}`,
    KGO_TEST_SCRAM_SEEDS: bootstrap,
  };
}

export function franzGo(): Suite {
  let tests: Promise<GoTests> | undefined;
  const compiled = (): Promise<GoTests> => {
    tests ??= compileGoTests(module);
    return tests;
  };
  return {
    name: 'franz-go',
    version: `franz-go ${version}`,
    shape: {
      settings: {
        'auto.create.topics.enable': 'true',
        'num.partitions': '4',
        'group.coordinator.rebalance.protocols': 'classic,consumer,share',
      },
    },
    variants,
    prepare: async () => void (await compiled()),
    tests: async () => listGoTests(await compiled()),
    run: async (test, target) => runGoTest(await compiled(), test, environment(target)),
  };
}

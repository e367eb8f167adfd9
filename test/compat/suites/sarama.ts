// sarama's functional tests: fixed old protocol versions, transactions, and connections that are
// cut or slow, for which the suite asks Toxiproxy; our relays stand in for it.

import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { variants } from '../proxy-parts.ts';
import { compileGoTests, type GoTests, runGoTest } from './go-suite.ts';
import type { Suite, Target } from './suite.ts';

const version = '1.61.1';
/** Its clients know no login; here they log in wherever there is a user. */
const logIn = `//go:build functional

package sarama

import (
	"crypto/tls"
	"crypto/x509"
	"os"
)

func logIn(config *Config) {
	user := os.Getenv("COMPAT_USER")
	if user == "" {
		return
	}
	authority, err := os.ReadFile(os.Getenv("COMPAT_CA"))
	if err != nil {
		panic(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	config.Net.TLS.Enable = true
	config.Net.TLS.Config = &tls.Config{RootCAs: roots}
	config.Net.SASL.Enable = true
	config.Net.SASL.User = user
	config.Net.SASL.Password = os.Getenv("COMPAT_PASSWORD")
}
`;
const module = {
  module: `github.com/IBM/sarama@v${version}`,
  package: '.',
  tags: 'functional',
  change: {
    file: 'functional_test.go',
    from: '\tconfig.ApiVersionsRequest = true\n',
    to: '\tconfig.ApiVersionsRequest = true\n\tlogIn(config)\n',
    added: { file: 'compat_log_in_test.go', text: logIn },
  },
};
/** They stop brokers, or run Java's tools, in containers of their own making. */
const needContainers = new Set([
  'TestConsumerFetchFollowerFailover',
  'TestFuncAdminListConsumerGroupOffsets',
  'TestFuncIdempotentBufferedSequence',
  'TestFuncJavaInteropCooperativeRebalance',
  'TestFuncProducingIdempotentWithBrokerFailure',
  'TestFuncTxnProduceWithBrokerFailure',
  'TestJavaConsumerCompressionRoundTrip',
  'TestJavaMurmur2PartitionerInterop',
  'TestJavaProducerCompressionRoundTrip',
]);
/** The newest that the suite has tests for. */
const kafkaVersion = '4.1.0';

function environment({ toxics, security }: Target): Record<string, string> {
  if (toxics === undefined) throw new Error('the suite needs relays with toxics');
  const cluster = { TOXIPROXY_ADDR: toxics, KAFKA_VERSION: kafkaVersion };
  if (security === undefined) return cluster;
  const { caFile, username, password } = security;
  return { ...cluster, COMPAT_CA: caFile, COMPAT_USER: username, COMPAT_PASSWORD: password };
}

/** The binary would want its cluster even to list them, and has all unit tests too. */
async function functionalTests(directory: string): Promise<string[]> {
  const files = (await readdir(directory)).filter((name) => /^functional_.*_test\.go$/.test(name));
  const names: string[] = [];
  for (const file of files.sort()) {
    const text = await readFile(path.join(directory, file), 'utf8');
    for (const [, name = ''] of text.matchAll(/^func (Test\w+)\(t \*testing\.T\)/gm)) {
      if (!needContainers.has(name)) names.push(name);
    }
  }
  return names;
}

export function sarama(): Suite {
  let tests: Promise<GoTests> | undefined;
  const compiled = (): Promise<GoTests> => {
    tests ??= compileGoTests(module);
    return tests;
  };
  return {
    name: 'sarama',
    version: `sarama ${version}`,
    shape: {
      brokerPorts: [29091, 29092, 29093, 29094, 29095],
      settings: {
        'replica.selector.class': 'org.apache.kafka.common.replica.RackAwareReplicaSelector',
        // Tests write records of 2023; retention takes such, now and then before they are read.
        'log.retention.ms': '-1',
        'min.insync.replicas': '2',
        'default.replication.factor': '3',
        'offsets.topic.replication.factor': '3',
      },
    },
    // Not `restarts`: each test's set-up ends the process at the first EOF, and its clients give up
    // after 750 ms, so what differs is only where a restart falls.
    variants: variants.filter((variant) => variant !== 'restarts'),
    prepare: async () => void (await compiled()),
    tests: async () => {
      const { directory } = await compiled();
      return functionalTests(directory);
    },
    run: async (test, target) => runGoTest(await compiled(), test, environment(target)),
  };
}

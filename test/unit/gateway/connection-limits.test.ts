// What brokers allow against what we may need: each limit that is too low is one sentence with the
// broker and the setting, overrides for our own address count, and what cannot be read is said.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createDescribeConfigsResourceResult,
  createDescribeConfigsResponse,
  createDescribeConfigsResult,
} from '../../../protocol/generated/describe-configs-response.ts';
import type { Api, Cluster } from '../../../src/cluster/cluster.ts';
import { connectionLimitWarnings } from '../../../src/gateway/connection-limits.ts';

const ours = '10.0.0.7';
const addresses = { has: (host: string): boolean => host === ours };
const unlimited = String(2 ** 31 - 1);

interface Answers {
  readonly configs?: Readonly<Record<string, string>>;
  readonly quotas?: Readonly<Record<string, number>>;
  readonly errorCode?: number;
}

function brokerWith({ configs = {}, quotas = {}, errorCode = 0 }: Answers): Cluster {
  const all = {
    'max.connections': unlimited,
    'max.connections.per.ip': unlimited,
    'max.connections.per.ip.overrides': '',
    'max.connection.creation.rate': unlimited,
    ...configs,
  };
  const described = createDescribeConfigsResponse({
    results: [
      createDescribeConfigsResult({
        errorCode,
        configs: Object.entries(all).map(([name, value]) =>
          createDescribeConfigsResourceResult({ name, value }),
        ),
      }),
    ],
  });
  const entries = Object.entries(quotas).map(([name, value]) => ({
    entity: [{ entityType: 'ip', entityName: name === 'default' ? null : name }],
    values: [{ key: 'connection_creation_rate', value }],
  }));
  const send = (_: unknown, api: Api<unknown, unknown>) =>
    Promise.resolve(api.key === 32 ? described : { errorCode, entries });
  const brokers = [{ nodeId: 3, host: 'b3', port: 9092, rack: null }];
  return { send, metadata: () => Promise.resolve({ brokers }) } as unknown as Cluster;
}

const cases: readonly [string, Answers, readonly RegExp[]][] = [
  ['nothing where brokers have no limits', {}, []],
  [
    'connections from one address',
    { configs: { 'max.connections.per.ip': '500' } },
    [/^broker 3: max\.connections\.per\.ip is 500, and all our clients come from one address/],
  ],
  [
    'nothing with an override for our address',
    {
      configs: {
        'max.connections.per.ip': '500',
        'max.connections.per.ip.overrides': `1.1.1.1:5, ${ours}:20000`,
      },
    },
    [],
  ],
  [
    'an override for our address that is too low',
    { configs: { 'max.connections.per.ip.overrides': `${ours}:20` } },
    [/max\.connections\.per\.ip\.overrides has 20 for us/],
  ],
  [
    'nothing for an override of somebody else',
    { configs: { 'max.connections.per.ip.overrides': '1.1.1.1:0' } },
    [],
  ],
  [
    'connections in all, of the broker and of a listener',
    { configs: { 'max.connections': '100', 'listener.name.client.max.connections': '50' } },
    [/: max\.connections is 100, below the 10000/, /: listener\.name\.client\.max.* is 50/],
  ],
  [
    'new connections per second',
    { configs: { 'max.connection.creation.rate': '20' } },
    [/creation\.rate is 20 per second, below 167: after a restart clients wait longer than 60 s/],
  ],
  ['the quota of our own address before that of all', { quotas: { default: 1, [ours]: 1000 } }, []],
  [
    'the quota of all addresses',
    { quotas: { default: 5, '1.1.1.1': 1000 } },
    [/^the quota connection_creation_rate of our address is 5 per second/],
  ],
  [
    'what cannot be read',
    { errorCode: 31 },
    [/^limits of broker 3 cannot be read: our login/, /^quotas by address cannot be read: our/],
  ],
];

for (const [what, answers, expected] of cases) {
  test(`limits of brokers: ${what}`, async () => {
    const warnings = await connectionLimitWarnings(brokerWith(answers), addresses);
    assert.equal(warnings.length, expected.length, warnings.join('\n'));
    for (const [index, pattern] of expected.entries()) assert.match(warnings[index] ?? '', pattern);
  });
}

// What a configuration file may say, and how it is told what it may not.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConfigError, loadConfig, parseConfig } from '../../../src/config/load.ts';

// References to environment variables look like template literals; they are meant for the loader.
const variable = (name: string): string => `\${${name}}`;

const minimal = `
destination:
  bootstrap.servers: "kafka-1:9092, kafka-2:9093"
gateway:
  advertise: kafka.example.com
storage:
  directory: /var/lib/causeway
`;

function problemsOf(text: string, environment: Record<string, string> = {}): readonly string[] {
  try {
    parseConfig(text, environment);
  } catch (error) {
    assert.ok(error instanceof ConfigError, String(error));
    return error.problems;
  }
  throw new assert.AssertionError({ message: 'the configuration was accepted' });
}

test('a minimal file gets the defaults of the design', () => {
  assert.deepEqual(parseConfig(minimal, {}), {
    name: 'causeway',
    destination: {
      bootstrapServers: ['kafka-1:9092', 'kafka-2:9093'],
      addressMap: {},
      client: { 'bootstrap.servers': 'kafka-1:9092, kafka-2:9093' },
    },
    gateway: {
      bind: '0.0.0.0',
      advertise: 'kafka.example.com',
      bootstrapPort: 9092,
      brokerPorts: { first: 9093, last: 9192 },
      linkNodeId: 1_000_000,
    },
    storage: {
      type: 'disk',
      directory: '/var/lib/causeway',
      minFreeBytes: { kind: 'percent', value: 5 },
    },
    admin: { bind: '127.0.0.1', port: 8082, partitionMetrics: true },
    log: { level: 'info' },
  });
});

test('a full file is taken as it is', () => {
  const config = parseConfig(
    `
name: dr-1
destination:
  bootstrap.servers: kafka-1:9092
  client.id: causeway
  request.timeout.ms: 15000
  security.protocol: PLAINTEXT
  addressMap:
    "kafka-1.internal:9092": "10.0.3.7:19092"
gateway:
  bind: 127.0.0.1
  advertise: 127.0.0.1
  bootstrapPort: 19092
  brokerPorts: 19093-19100
  linkNodeId: 77
  upstreamAddresses: [10.0.0.0/24, 'fd00::7']
storage: {type: disk, directory: /data, minFreeBytes: 2GiB}
admin: {bind: 0.0.0.0, port: 0}
log: {level: debug}
`,
    {},
  );
  assert.equal(config.name, 'dr-1');
  assert.deepEqual(config.destination.addressMap, { 'kafka-1.internal:9092': '10.0.3.7:19092' });
  assert.equal(config.destination.client['request.timeout.ms'], '15000');
  assert.equal(config.gateway.linkNodeId, 77);
  assert.deepEqual(config.gateway.upstreamAddresses, ['10.0.0.0/24', 'fd00::7']);
  assert.deepEqual(config.gateway.brokerPorts, { first: 19093, last: 19100 });
  assert.deepEqual(config.storage.minFreeBytes, { kind: 'bytes', value: 2 * 1024 ** 3 });
  assert.deepEqual(config.admin, { bind: '0.0.0.0', port: 0, partitionMetrics: true });
});

test('environment variables stand for values, numbers too, and never for structure', () => {
  const text = minimal
    .replace(
      'kafka.example.com',
      `${variable('PUBLIC_HOST')}\n  bootstrapPort: ${variable('PORT')}`,
    )
    .replace('/var/lib', `${variable('ROOT')}/lib`);
  const config = parseConfig(text, { PUBLIC_HOST: 'h1', PORT: '19092', ROOT: '/r' });
  assert.equal(config.gateway.advertise, 'h1');
  assert.equal(config.gateway.bootstrapPort, 19092);
  assert.equal(config.storage.directory, '/r/lib/causeway');
  assert.deepEqual(problemsOf(text, { PORT: '1\nfoo: 2', ROOT: '/r', PUBLIC_HOST: 'h' }), [
    'gateway.bootstrapPort: must be integer',
  ]);
});

test('a missing environment variable is named with its path', () => {
  const text = minimal.replace('/var/lib/causeway', variable('CAUSEWAY_DIR'));
  assert.deepEqual(problemsOf(text), [
    'storage.directory: the environment variable CAUSEWAY_DIR is not set',
    'storage.directory: must be an absolute path',
  ]);
});

test('unknown names are answered with the nearest known one', () => {
  const text = `${minimal}
admn: {port: 1}
log: {levle: info}
`.replace('advertise:', 'brokerPort: 9093-9192\n  advertise:');
  const problems = problemsOf(text);
  assert.deepEqual([...problems].sort(), [
    'admn: unknown name; did you mean "admin"?',
    'gateway.brokerPort: unknown name; did you mean "brokerPorts"?',
    'log.levle: unknown name; did you mean "level"?',
  ]);
});

const wrongFiles: readonly [string, string, string][] = [
  ['storage.directory', 'directory: data', 'storage.directory: must be an absolute path'],
  ['port ranges', 'brokerPorts: 9093', 'gateway.brokerPorts: must be string'],
  [
    'the order of a range',
    'brokerPorts: 9100-9093',
    'gateway.brokerPorts: needs at least two ports: one for each broker and one for the link node',
  ],
  [
    'the form of a range',
    'brokerPorts: "9093..9192"',
    'gateway.brokerPorts: must be of the form FIRST-LAST, such as 9093-9192',
  ],
  [
    'upstream addresses',
    'upstreamAddresses: [10.0.0.300]',
    'gateway.upstreamAddresses[0]: "10.0.0.300" is neither an address nor a network ' +
      'like 10.0.0.0/24',
  ],
  [
    'clashing ports',
    'bootstrapPort: 9100',
    'gateway.bootstrapPort: 9100 lies inside gateway.brokerPorts',
  ],
  ['too large ports', 'bootstrapPort: 70000', 'gateway.bootstrapPort: must be <= 65535'],
  [
    'an advertised host with a port',
    'advertise: kafka:9092',
    'gateway.advertise: must be a host name or an address, without a port',
  ],
  ['TLS without a key', 'tls: {certificate: a}', 'gateway.tls.key: is missing'],
  ['Kafka storage', 'type: kafka', 'storage.type: kafka is not in this version; only disk is'],
  [
    'sizes',
    'minFreeBytes: 5GB',
    'storage.minFreeBytes: must be a number of bytes, a size such as 10GiB, or a share such as 5%',
  ],
  ['shares', 'minFreeBytes: 100%', 'storage.minFreeBytes: must be below 100%'],
  [
    'servers',
    'bootstrap.servers: kafka-1',
    'destination.bootstrap.servers: "kafka-1" is not of the form host:port',
  ],
  [
    'the security protocol',
    'security.protocol: TLS',
    'destination.security.protocol: must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL',
  ],
  [
    'SASL without a login',
    'security.protocol: SASL_SSL\n  sasl.mechanism: SCRAM-SHA-512',
    'destination.sasl.jaas.config: is missing',
  ],
  [
    'TLS settings without TLS',
    'ssl.truststore.location: /x',
    'destination.ssl.truststore.location: has no effect with security.protocol=PLAINTEXT',
  ],
  [
    'TLS settings of later versions',
    'ssl.cipher.suites: x',
    'destination.ssl.cipher.suites: this Kafka client setting is not in this version',
  ],
  [
    'paths of certificates',
    'tls: {certificate: c.pem, key: /k}',
    'gateway.tls.certificate: must be an absolute path',
  ],
  [
    'client certificates without a CA',
    'tls: {certificate: /c, key: /k, clientAuth: required}',
    'gateway.tls.clientCa: is needed with clientAuth: required',
  ],
  [
    'a CA for no client certificates',
    'tls: {certificate: /c, key: /k, clientCa: /a}',
    'gateway.tls.clientCa: has no effect with clientAuth: none',
  ],
  [
    'principals without certificates',
    'tls: {certificate: /c, key: /k, clientPrincipal: certificate}',
    'gateway.tls.clientPrincipal: certificate needs clientAuth: requested or required',
  ],
  [
    'principals for a destination without SASL',
    'tls: {certificate: /c, key: /k, clientCa: /a, clientAuth: required, ' +
      'clientPrincipal: certificate}',
    'gateway.tls.clientPrincipal: certificate needs destination.security.protocol SASL_SSL or ' +
      'SASL_PLAINTEXT: clients log in by delegation tokens',
  ],
  [
    'rules for no principals',
    'tls: {certificate: /c, key: /k, ssl.principal.mapping.rules: DEFAULT}',
    'gateway.tls.ssl.principal.mapping.rules: has no effect with clientPrincipal: sasl',
  ],
  [
    'mistyped client settings',
    'client.ids: x',
    'destination.client.ids: unknown setting; did you mean "client.id"?',
  ],
  [
    'client settings of later versions',
    'metadata.max.age.ms: 1',
    'destination.metadata.max.age.ms: this Kafka client setting is not in this version',
  ],
];

function withSetting(setting: string): string {
  const key = setting.slice(0, setting.indexOf(': '));
  const isStorage = ['directory', 'type', 'minFreeBytes'].includes(key);
  const isDestination = /^(bootstrap\.servers|security|ssl|sasl|client|metadata)/.test(key);
  const section = isStorage ? 'storage' : isDestination ? 'destination' : 'gateway';
  const without = minimal
    .split('\n')
    .filter((line) => !line.startsWith(`  ${key}:`))
    .join('\n');
  return without.replace(`${section}:`, `${section}:\n  ${setting}`);
}

for (const [what, setting, expected] of wrongFiles) {
  test(`R18: wrong configuration of ${what} is refused with its path`, () => {
    assert.deepEqual(problemsOf(withSetting(setting)), [expected]);
  });
}

test('TLS and SASL are taken for the destination, TLS for listeners', () => {
  const jaas =
    'org.apache.kafka.common.security.scram.ScramLoginModule required ' +
    `username="causeway" password="${variable('KAFKA_PASSWORD')}";`;
  const text = minimal
    .replace('gateway:', `  security.protocol: SASL_SSL\n  sasl.mechanism: SCRAM-SHA-256\ngateway:`)
    .replace(
      'gateway:',
      `  sasl.jaas.config: '${jaas}'\n  ssl.truststore.location: /ca.pem\ngateway:`,
    )
    .replace('gateway:', 'gateway:\n  tls: {certificate: /tls.crt, key: /tls.key}');
  const { destination, gateway } = parseConfig(text, { KAFKA_PASSWORD: 'pass' });
  assert.match(destination.client['sasl.jaas.config'] ?? '', /password="pass";$/);
  assert.equal(destination.client['ssl.truststore.location'], '/ca.pem');
  assert.deepEqual(gateway.tls, { certificate: '/tls.crt', key: '/tls.key', clientAuth: 'none' });
});

test('R17: a password that cannot be used is named but not repeated', () => {
  const text = withSetting('sasl.jaas.config: "x required password=\\"hunter2\\";"');
  const problems = problemsOf(text);
  assert.equal(problems.length, 1);
  assert.ok(!problems.join().includes('hunter2'));
});

test('all faults are reported at once', () => {
  const problems = problemsOf('storage: {directory: x}\nlog: {level: loud}\n');
  assert.deepEqual([...problems].sort(), [
    'destination: is missing',
    'gateway: is missing',
    'log.level: must be one of trace, debug, info, warn, error',
  ]);
});

test('state encryption is refused as not in this version', () => {
  const problems = problemsOf(`${minimal}state: {encryption: {keyFile: /k}}\n`);
  assert.deepEqual(problems, ['state: encryption of inline secrets is not in this version']);
});

test('broken YAML and files that are no mapping are refused', () => {
  assert.match(problemsOf('a: [1')[0] ?? '', /^not valid YAML: /);
  assert.deepEqual(problemsOf('- 1'), ['the file must hold a mapping of names']);
  assert.deepEqual(problemsOf(''), ['the file must hold a mapping of names']);
});

test('a missing file is named', async () => {
  await assert.rejects(loadConfig('/nonexistent/causeway.yaml', {}), /cannot read \/nonexistent/);
});

test('R18: aliases that lead nowhere, to themselves or to too much are told of', () => {
  assert.deepEqual(problemsOf('a: &x\n  b: *x\n'), [
    'not valid YAML: an alias stands inside of what it stands for',
  ]);
  assert.match(problemsOf('a: *nowhere\n').join(), /^not valid YAML: Unresolved alias .*nowhere$/);
  const levels = Array.from({ length: 8 }, (_, level) => {
    const items = Array.from({ length: 10 }, () => (level === 0 ? 'x' : `*l${level - 1}`));
    return `a${level}: &l${level} [${items.join(', ')}]\n`;
  });
  assert.match(problemsOf(levels.join('')).join(), /^not valid YAML: Excessive alias count/);
});

test('an alias that means something is replaced', () => {
  const text = minimal.replace('/var/lib/causeway', '&d /var/lib/causeway');
  assert.equal(parseConfig(text, {}).storage.directory, '/var/lib/causeway');
  const named = `name: &n kafka.example.com\n${minimal.replace('kafka.example.com', '*n')}`;
  assert.equal(parseConfig(named, {}).gateway.advertise, 'kafka.example.com');
});

test("a name that makes one of Kafka's own topics ours is refused", () => {
  for (const [name, topic] of [
    ['transaction', '__transaction_state'],
    ['consumer', '__consumer_offsets'],
    ['share', '__share_group_state'],
    ['share_group', '__share_group_state'],
    ['remote_log', '__remote_log_metadata'],
  ]) {
    assert.deepEqual(problemsOf(`name: ${name}\n${minimal}`), [
      `name: "${name}" would make Kafka's own topic ${topic} ours`,
    ]);
  }
  assert.equal(parseConfig(`name: consumers\n${minimal}`, {}).name, 'consumers');
});

test('a switch may come from the environment', () => {
  const text = `${minimal}admin:\n  partitionMetrics: ${variable('PARTITIONS')}\n`;
  assert.equal(parseConfig(text, { PARTITIONS: 'false' }).admin.partitionMetrics, false);
  assert.deepEqual(problemsOf(text, { PARTITIONS: 'no' }), [
    'admin.partitionMetrics: must be boolean',
  ]);
});

test('R17: a password that looks like a reference is not repeated', () => {
  const [open, rest] = ['${', 'hunter-2}'];
  const text = minimal.replace('gateway:', `  ssl.key.password: "${open}${rest}"\ngateway:`);
  const problems = problemsOf(text).join();
  assert.match(problems, /^destination\.ssl\.key\.password: what follows/);
  assert.doesNotMatch(problems, /hunter/);
});

// TLS and SASL from end to end on real brokers: our own clients of source and destination, and a
// Java client through a TLS listener, whose login passes through to the destination.
// R17: afterwards no secret is in any log, answer, export or file of the proxy.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { createServer as createTlsServer } from 'node:tls';
import { ClusterError } from '../../src/cluster/cluster.ts';
import { connectCluster } from '../../src/cluster/cluster-client.ts';
import { type CausewayProcess, startCauseway } from '../helpers/causeway-process.ts';
import {
  type Certificate,
  type CertificateAuthority,
  certificateAuthority,
  withoutOpenssl,
} from '../helpers/certificates.ts';
import { startConsumer, startProducer } from '../helpers/foreign-clients.ts';
import type { KafkaCluster } from '../helpers/kafka-cluster.ts';
import { createTopic, produceBatch } from '../helpers/kafka-setup.ts';
import { waitForMirrorEnds } from '../helpers/mirror-commands.ts';
import { Relay } from '../helpers/relay.ts';
import {
  addScramUser,
  jaasLine,
  securedAddress,
  startSecuredCluster,
} from '../helpers/secured-clusters.ts';
import { uniqueName, until } from '../helpers/wait.ts';

const secrets = {
  source: 'source-between-brokers-Zq1',
  mirror: 'mirror-reads-source-Zq2',
  destination: 'causeway-at-destination-Zq3',
  bob: 'bob-through-gateway-Zq4',
  wrong: 'not-the-password-Zq5',
  key: 'opens-the-key-Zq6',
};
/** Short, so that everybody has to log in again during the test. */
const sessionMs = 3_000;
const skip = await withoutOpenssl();
const reference = (inner: string): string => `\${${inner}}`;

describe('TLS and SASL', { skip }, () => {
  let ca: CertificateAuthority;
  let certificate: Certificate;
  let mirrorCertificate: Certificate;
  let source: KafkaCluster;
  let destination: KafkaCluster;
  let causeway: CausewayProcess;
  let secretsDirectory = '';
  /** Everything that the command line said. */
  const said: string[] = [];

  async function cli(...args: string[]): Promise<{ code: number; text: string }> {
    const { code, stdout, stderr } = await causeway.cliResult(...args);
    said.push(stdout, stderr);
    return { code, text: stdout + stderr };
  }

  /** Settings of a link whose password is one of the secrets file. */
  function linkSettings(password: string): string[] {
    const file = path.join(secretsDirectory, 'kafka.properties');
    const secret = (key: string): string => reference(`file:${file}:${key}`);
    const settings = {
      'security.protocol': 'SASL_SSL',
      'sasl.mechanism': 'SCRAM-SHA-512',
      'sasl.jaas.config': jaasLine('SCRAM-SHA-512', 'mirror', secret(password)),
      'ssl.truststore.location': ca.certificateFile,
      'ssl.keystore.certificate.chain': mirrorCertificate.certificate,
      'ssl.keystore.key': secret('key'),
      'ssl.key.password': reference('env:KEY_PASSWORD'),
    };
    return Object.entries(settings).flatMap(([name, value]) => ['--config', `${name}=${value}`]);
  }

  function javaProperties(password: string): Record<string, string> {
    return {
      'security.protocol': 'SASL_SSL',
      'sasl.mechanism': 'SCRAM-SHA-256',
      'sasl.jaas.config': jaasLine('SCRAM-SHA-256', 'bob', password),
      'ssl.truststore.type': 'PEM',
      'ssl.truststore.location': ca.certificateFile,
    };
  }

  /** Over how many connections a client of ours asks for two sessions long. */
  async function renewsItsSession(): Promise<number> {
    let connections = 0;
    const port = destination.brokers[0]?.internalPort ?? 0;
    const relay = createServer((client) => {
      connections++;
      const broker = connect(port, '127.0.0.1');
      for (const socket of [client, broker]) socket.on('error', () => socket.destroy());
      client.pipe(broker).pipe(client);
    });
    await new Promise<void>((resolve) => relay.listen(0, '127.0.0.1', resolve));
    const bound = relay.address();
    const relayed = `127.0.0.1:${typeof bound === 'object' ? bound?.port : 0}`;
    const cluster = connectCluster({
      bootstrapServers: [relayed],
      addressMap: { [securedAddress(destination)]: relayed },
      client: {
        'security.protocol': 'SASL_SSL',
        'sasl.mechanism': 'SCRAM-SHA-256',
        'sasl.jaas.config': jaasLine('SCRAM-SHA-256', 'bob', secrets.bob),
        'ssl.truststore.location': ca.certificateFile,
      },
    });
    const startedAt = performance.now();
    await until('two sessions', async () => {
      await cluster.metadata([]);
      return performance.now() - startedAt > 2 * sessionMs;
    });
    await cluster.close();
    relay.close();
    return connections;
  }

  before(async () => {
    ca = await certificateAuthority();
    certificate = await ca.sign('broker', 'IP:127.0.0.1');
    mirrorCertificate = await ca.sign('mirror', 'DNS:causeway');
    secretsDirectory = await mkdtemp(path.join(os.tmpdir(), 'causeway-secrets-'));
    const key = await ca.encryptKey(mirrorCertificate, secrets.key);
    const properties = {
      'source.password': secrets.mirror,
      'wrong.password': secrets.wrong,
      key: key.replaceAll('\n', '\\n'),
    };
    await writeFile(
      path.join(secretsDirectory, 'kafka.properties'),
      Object.entries(properties)
        .map(([name, value]) => `${name} = ${value}\n`)
        .join(''),
    );
    [source, destination] = await Promise.all([
      startSecuredCluster({
        name: 'source',
        ca,
        certificate,
        password: secrets.source,
        wantsCertificates: true,
        sessionMs,
      }),
      startSecuredCluster({
        name: 'destination',
        ca,
        certificate,
        password: secrets.destination,
        sessionMs,
      }),
    ]);
    await addScramUser(source, 'SCRAM-SHA-512', { name: 'mirror', password: secrets.mirror });
    await addScramUser(destination, 'SCRAM-SHA-256', { name: 'bob', password: secrets.bob });
    causeway = await startCauseway({
      destination,
      env: { DESTINATION_PASSWORD: secrets.destination, KEY_PASSWORD: secrets.key },
      config: {
        destination: {
          'bootstrap.servers': securedAddress(destination),
          'security.protocol': 'SASL_SSL',
          'sasl.mechanism': 'PLAIN',
          'sasl.jaas.config': jaasLine('PLAIN', 'causeway', `\${DESTINATION_PASSWORD}`),
          'ssl.truststore.location': ca.certificateFile,
        },
        gateway: { tls: { certificate: certificate.certificateFile, key: certificate.keyFile } },
        log: { level: 'trace' },
      },
    });
  });

  after(async () => {
    await causeway?.stop();
    await Promise.all([source?.stop(), destination?.stop()]);
    await ca?.remove();
    if (secretsDirectory !== '') await rm(secretsDirectory, { recursive: true, force: true });
  });

  test('a link with a wrong password is refused in the words of the broker', async () => {
    const args = ['--source', securedAddress(source), ...linkSettings('wrong.password')];
    const { code, text } = await cli('link', 'create', 'wrong', ...args);
    assert.equal(code, 1, text);
    assert.match(text, /authentication as mirror was refused: .*invalid credentials/i);
  });

  test('a broker is not taken for another host', async () => {
    const cluster = connectCluster({
      bootstrapServers: [securedAddress(destination).replace('127.0.0.1', 'localhost')],
      client: {
        'security.protocol': 'SASL_SSL',
        'sasl.mechanism': 'PLAIN',
        'sasl.jaas.config': jaasLine('PLAIN', 'causeway', secrets.destination),
        'ssl.truststore.certificates': ca.certificate,
      },
    });
    await assert.rejects(cluster.metadata([]), (error: unknown) => {
      assert.ok(error instanceof ClusterError);
      assert.equal(error.code, 'AUTHENTICATION');
      assert.match(error.message, /certificate is not accepted: .*Host: localhost\. is not/);
      return true;
    });
    await cluster.close();
  });

  test('a mirror is made over SCRAM and TLS and read through a TLS listener', async () => {
    const topic = uniqueName('secured');
    const values = Array.from({ length: 50 }, (_, index) => `v${index}`);
    await createTopic(source, { topic });
    await produceBatch(
      source,
      { topic },
      values.map((value) => ({ value })),
    );
    const args = ['--source', securedAddress(source), ...linkSettings('source.password')];
    const created = await cli('link', 'create', 'dr', ...args);
    assert.equal(created.code, 0, created.text);
    await causeway.cli('mirror', 'create', topic, '--link', 'dr');
    await waitForMirrorEnds(causeway, topic, [values.length]);
    const { bootstrap } = causeway;
    const properties = javaProperties(secrets.bob);
    const ordinary = uniqueName('ordinary');
    await createTopic(destination, { topic: ordinary });
    const [consumer, producer] = await Promise.all([
      startConsumer('java', { bootstrap, topic, properties }),
      startProducer('java', { bootstrap, topic: ordinary, properties }),
    ]);
    try {
      await consumer.waitForCount(values.length);
      const renewing = renewsItsSession();
      // Longer than a session at either cluster lasts: everybody logs in again under way.
      const startedAt = performance.now();
      let count = values.length;
      await until('records over two sessions', async () => {
        await producer.send({ value: `v${count}` });
        await produceBatch(source, { topic }, [{ value: `v${count}` }]);
        values.push(`v${count}`);
        count++;
        return performance.now() - startedAt > 2 * sessionMs + 1_000;
      });
      await consumer.waitForCount(count);
      assert.deepEqual(
        consumer.records.map(({ value }) => value),
        values,
      );
      assert.equal(await renewing, 1, 'connections in two sessions');
      const lost = causeway.log().filter(({ event }) => event === 'link_unavailable');
      assert.deepEqual(lost, []);
    } finally {
      await Promise.all([consumer.stop(), producer.stop()]);
    }
  });

  test('a link at work changes who it is, and keeps a good login when the new one is bad', async () => {
    const topic = uniqueName('relogin');
    await createTopic(source, { topic });
    await causeway.cli('mirror', 'create', topic, '--link', 'dr');
    const goesOn = async (count: number): Promise<void> => {
      await produceBatch(source, { topic }, [{ value: `v${count}` }]);
      await waitForMirrorEnds(causeway, topic, [count]);
    };
    await goesOn(1);
    const login = (user: string, key: string): string => {
      const file = path.join(secretsDirectory, 'kafka.properties');
      return jaasLine('SCRAM-SHA-512', user, reference(`file:${file}:${key}`));
    };
    const set = (user: string, key: string) =>
      cli('link', 'config', 'set', 'dr', `sasl.jaas.config=${login(user, key)}`);
    const refused = await set('second', 'source.password');
    assert.equal(refused.code, 1, refused.text);
    assert.match(refused.text, /authentication as second was refused/i);
    await goesOn(2);
    await addScramUser(source, 'SCRAM-SHA-512', { name: 'second', password: secrets.mirror });
    const accepted = await set('second', 'source.password');
    assert.equal(accepted.code, 0, accepted.text);
    await goesOn(3);
  });

  test('D14: a link at work names a wrong password and faults of TLS, and recovers', async () => {
    const [broker] = source.brokers;
    assert.ok(broker);
    const otherCa = await certificateAuthority('other-ca');
    const foreign = await otherCa.sign('other', 'IP:127.0.0.1');
    const stranger = createTlsServer({ cert: foreign.certificate, key: foreign.key }, (socket) =>
      socket.on('error', () => socket.destroy()),
    );
    await new Promise<void>((resolve) => stranger.listen(0, '127.0.0.1', resolve));
    const own = { host: '127.0.0.1', port: broker.internalPort };
    const relay = await Relay.start({ target: own });
    const scram = (password: string) =>
      addScramUser(source, 'SCRAM-SHA-512', { name: 'mirror', password });
    const address = `/kafka/v3/clusters/${destination.clusterId}/links/watched`;
    const verdict = async (state: string, error: string, message: RegExp): Promise<void> => {
      let seen = '';
      await until(
        `${state} ${error}`,
        async () => {
          const link = await causeway.get<Record<string, string | null>>(address);
          seen = `${link.link_state} ${link.link_error}: ${link.link_error_message}`;
          const isNamed = message.test(link.link_error_message ?? '');
          return link.link_state === state && link.link_error === error && isNamed;
        },
        { deadlineMs: state === 'ACTIVE' ? 60_000 : 15_000, describe: () => seen },
      );
      const health = await fetch(`${causeway.adminUrl}/health/links`);
      assert.equal(health.status, state === 'ACTIVE' ? 200 : 503);
      const metrics = await (await fetch(`${causeway.adminUrl}/metrics`)).text();
      const up = state === 'ACTIVE' ? 1 : 0;
      assert.match(metrics, new RegExp(`causeway_link_up\\{link="watched"\\} ${up}`));
    };
    try {
      const map = ['--config', `address.map=${securedAddress(source)}=${relay.address}`];
      const settings = [...linkSettings('source.password'), ...map];
      const created = await cli(
        'link',
        'create',
        'watched',
        '--source',
        relay.address,
        ...settings,
      );
      assert.equal(created.code, 0, created.text);
      await verdict('ACTIVE', 'NO_ERROR', /^/);
      // Its session ends within seconds, and it has to log in again.
      await scram(secrets.wrong);
      await verdict('UNAVAILABLE', 'AUTHENTICATION_ERROR', /as mirror was refused: .*credentials/);
      await scram(secrets.mirror);
      await verdict('ACTIVE', 'NO_ERROR', /^/);
      // A listener without TLS ends such a connection without a word.
      relay.switchTo({ host: '127.0.0.1', port: broker.port });
      const unreachable = 'BOOTSTRAP_TCP_CONNECTION_FAILED_ERROR';
      await verdict('UNAVAILABLE', unreachable, /its listener may not want TLS/);
      relay.switchTo(own);
      await verdict('ACTIVE', 'NO_ERROR', /^/);
      relay.switchTo({ host: '127.0.0.1', port: (stranger.address() as AddressInfo).port });
      await verdict('UNAVAILABLE', 'AUTHENTICATION_ERROR', /certificate is not accepted: /);
      relay.switchTo(own);
      await verdict('ACTIVE', 'NO_ERROR', /^/);
      assert.equal((await cli('link', 'delete', 'watched')).code, 0);
    } finally {
      await relay.stop();
      await new Promise((resolve) => stranger.close(resolve));
      await otherCa.remove();
    }
  });

  test('a client with a wrong password hears it from the destination', async () => {
    const consumer = await startConsumer('java', {
      bootstrap: causeway.bootstrap,
      topic: 'any',
      properties: javaProperties(secrets.wrong),
    });
    try {
      await consumer.waitForEnd();
      const text = `${consumer.errors.join()} ${consumer.stderr}`;
      assert.match(text, /invalid credentials with SASL mechanism SCRAM-SHA-256/);
    } finally {
      await consumer.kill();
    }
  });

  test('a client without TLS is told apart in one line of the log', async () => {
    const [host, port] = causeway.bootstrap.split(':');
    const socket = connect(Number(port), host);
    socket.on('error', () => socket.destroy());
    socket.write(Buffer.from('0000002f001200040000000100046a617661', 'hex'));
    await until('the end of the connection', () => socket.destroyed || socket.readableEnded);
    socket.destroy();
    const lines = () => causeway.log().filter(({ reason }) => /plain bytes/.test(String(reason)));
    await until('the line', () => lines().length > 0);
    assert.equal(lines().length, 1);
  });

  test('the end of the certificate is a metric', async () => {
    const text = await (await fetch(`${causeway.adminUrl}/metrics`)).text();
    const name = 'causeway_tls_certificate_expiry_timestamp_seconds{listener="gateway"}';
    const line = text.split('\n').find((one) => one.startsWith(name));
    const seconds = Number(line?.split(' ')[1]);
    assert.ok(seconds > Date.now() / 1000 && seconds < Date.now() / 1000 + 3 * 86_400, line);
  });

  test('R17: no secret is in a log, an answer, the export, a file or an argument', async () => {
    await Promise.all([
      cli('link', 'describe', 'dr'),
      cli('link', 'config', 'list', 'dr', '-o', 'json'),
      cli('serve', '--check', '--config', causeway.configFile),
    ]);
    const v3 = `/kafka/v3/clusters/${destination.clusterId}/links`;
    const resources = ['/links', '/links/dr', '/events?since=0', '/status', '/state'].map(
      (resource) => `/causeway/v1${resource}`,
    );
    for (const resource of [...resources, v3, `${v3}/dr`, `${v3}/dr/configs`, '/metrics']) {
      const answer = await fetch(`${causeway.adminUrl}${resource}`);
      assert.equal(answer.status, 200, resource);
      said.push(await answer.text());
    }
    const files = readdirSync(causeway.directory, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => readFileSync(path.join(entry.parentPath, entry.name), 'latin1'));
    assert.ok(files.length > 3, 'configuration, log, snapshot and mirror logs');
    const argumentsOfProcess = readFileSync(`/proc/${causeway.pid}/cmdline`, 'utf8');
    const everything = [...said, ...files, argumentsOfProcess].join('\n');
    assert.ok(everything.includes('sasl.jaas.config'), 'the settings are in there');
    const keyLine = (key: string): string => key.split('\n')[1] ?? '';
    const never = [
      ...Object.values(secrets),
      keyLine(certificate.key),
      keyLine(mirrorCertificate.key),
    ];
    for (const secret of never) {
      const at = everything.indexOf(secret);
      assert.equal(at, -1, everything.slice(Math.max(0, at - 200), at));
    }
  });
});

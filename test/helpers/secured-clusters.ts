// Real brokers whose second listener wants TLS and SASL, for tests of security.
//
// Owns: the broker settings for that, SCRAM users, and the JAAS lines of clients. The harness's
// plain client listener stays as it is, for set-up; the secured one is the broker's internal
// listener, which tells its own real address, 127.0.0.1.
// Invariant: passwords here are found nowhere else, so that a search for them means something.

import { pbkdf2Sync, randomBytes } from 'node:crypto';
import {
  alterUserScramCredentialsRequestCodec,
  createAlterUserScramCredentialsRequest,
  createScramCredentialUpsertion,
} from '../../protocol/generated/alter-user-scram-credentials-request.ts';
import { alterUserScramCredentialsResponseCodec } from '../../protocol/generated/alter-user-scram-credentials-response.ts';
import type { Certificate, CertificateAuthority } from './certificates.ts';
import { type KafkaCluster, startKafkaCluster } from './kafka-cluster.ts';
import { openCluster } from './raw-batches.ts';

const package_ = 'org.apache.kafka.common.security';

export type Mechanism = 'PLAIN' | 'SCRAM-SHA-256' | 'SCRAM-SHA-512';

export function jaasLine(mechanism: Mechanism, username: string, password: string): string {
  const module = mechanism === 'PLAIN' ? 'plain.PlainLoginModule' : 'scram.ScramLoginModule';
  return `${package_}.${module} required username="${username}" password="${password}";`;
}

export interface SecuredOptions {
  readonly name: string;
  readonly ca: CertificateAuthority;
  readonly certificate: Certificate;
  /** Of the users admin (between brokers) and causeway, by PLAIN. */
  readonly password: string;
  /** Clients have to show a certificate of the CA as well. */
  readonly wantsCertificates?: boolean;
  readonly sessionMs?: number;
  /** Further broker settings. */
  readonly settings?: Readonly<Record<string, string>>;
  readonly heapMb?: number;
}

export function startSecuredCluster(options: SecuredOptions): Promise<KafkaCluster> {
  const { ca, certificate, password } = options;
  const login = `${package_}.plain.PlainLoginModule required username="admin"`;
  const users = `password="${password}" user_admin="${password}" user_causeway="${password}"`;
  const scram = `${package_}.scram.ScramLoginModule required;`;
  return startKafkaCluster({
    name: options.name,
    advertise: 'reachable',
    ...(options.heapMb === undefined ? {} : { heapMb: options.heapMb }),
    settings: {
      ...options.settings,
      'listener.security.protocol.map': 'CLIENT:PLAINTEXT,INTERNAL:SASL_SSL,CONTROLLER:PLAINTEXT',
      'sasl.enabled.mechanisms': 'PLAIN,SCRAM-SHA-256,SCRAM-SHA-512',
      'sasl.mechanism.inter.broker.protocol': 'PLAIN',
      'listener.name.internal.plain.sasl.jaas.config': `${login} ${users};`,
      'listener.name.internal.scram-sha-256.sasl.jaas.config': scram,
      'listener.name.internal.scram-sha-512.sasl.jaas.config': scram,
      'listener.name.internal.ssl.client.auth': options.wantsCertificates ? 'required' : 'none',
      'ssl.keystore.type': 'PEM',
      'ssl.keystore.location': certificate.keystoreFile,
      'ssl.truststore.type': 'PEM',
      'ssl.truststore.location': ca.certificateFile,
      'connections.max.reauth.ms': String(options.sessionMs ?? 0),
    },
  });
}

/**
 * Settings of brokers whose client listener is the secured one, with logins by PLAIN (name to
 * password); they talk to each other without.
 */
export function clientListenerSettings(options: {
  ca: CertificateAuthority;
  certificate: Certificate;
  users: Readonly<Record<string, string>>;
}): Record<string, string> {
  const { ca, certificate, users } = options;
  const logins = Object.entries(users).map(([name, password]) => `user_${name}="${password}"`);
  const module = `${package_}.plain.PlainLoginModule required`;
  return {
    'listener.security.protocol.map': 'CLIENT:SASL_SSL,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT',
    'sasl.enabled.mechanisms': 'PLAIN',
    'listener.name.client.plain.sasl.jaas.config': `${module} ${logins.join(' ')};`,
    'ssl.keystore.type': 'PEM',
    'ssl.keystore.location': certificate.keystoreFile,
    'ssl.truststore.type': 'PEM',
    'ssl.truststore.location': ca.certificateFile,
  };
}

/** Where the secured listener is. */
export function securedAddress(cluster: KafkaCluster): string {
  return `127.0.0.1:${cluster.brokers[0]?.internalPort}`;
}

export async function addScramUser(
  cluster: KafkaCluster,
  mechanism: Exclude<Mechanism, 'PLAIN'>,
  login: { name: string; password: string },
): Promise<void> {
  const iterations = 4096;
  const salt = randomBytes(24);
  const [code, bytes, hash] =
    mechanism === 'SCRAM-SHA-256' ? ([1, 32, 'sha256'] as const) : ([2, 64, 'sha512'] as const);
  const saltedPassword = pbkdf2Sync(login.password, salt, iterations, bytes, hash);
  const credential = { name: login.name, mechanism: code, iterations, salt, saltedPassword };
  const api = {
    key: 51,
    name: 'AlterUserScramCredentials',
    versionMin: 0,
    versionMax: 0,
    encode: alterUserScramCredentialsRequestCodec.encode,
    decode: alterUserScramCredentialsResponseCodec.decode,
  };
  const client = openCluster(cluster);
  try {
    const { results } = await client.send(
      { kind: 'controller' },
      api,
      createAlterUserScramCredentialsRequest({
        upsertions: [createScramCredentialUpsertion(credential)],
      }),
    );
    const fault = results.find(({ errorCode }) => errorCode !== 0);
    if (fault) throw new Error(`user ${login.name}: error ${fault.errorCode}`);
  } finally {
    await client.close();
  }
}

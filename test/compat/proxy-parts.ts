// What all sides of a comparison have in common, whatever their brokers are: the variants, the
// environment and the config of one, secured brokers, the count of what clients sent, and restarts
// under way. Refuses to know where brokers are.
// Invariant: the password of brokers is in no config file; the proxy has it by its environment.

import type { CausewayProcess } from '../helpers/causeway-process.ts';
import {
  type Certificate,
  type CertificateAuthority,
  certificateAuthority,
} from '../helpers/certificates.ts';
import type { KafkaCluster } from '../helpers/kafka-cluster.ts';
import { jaasLine } from '../helpers/secured-clusters.ts';
import type { ClientSecurity } from './suites/suite.ts';

export const variants = ['plain', 'offset-shift', 'sasl-tls', 'restarts', 'chopped'] as const;
export type Variant = (typeof variants)[number];

export type Settings = Readonly<Record<string, string>>;
export type Closer = () => Promise<void> | void;

/** As whom clients log in. */
export const user = { username: 'compat', password: 'compat-through-gateway' };
/** Of the users admin (between brokers) and causeway. */
export const brokerPassword = 'compat-between-brokers';

const restartEveryMs = 20_000;
/** Offsets and epochs that no test has by chance. */
const offsetShift = '1000003:7';

export async function closeAll(closers: readonly Closer[]): Promise<void> {
  for (const close of [...closers].reverse()) await close();
}

export function shiftOf(variant: Variant): Record<string, string> {
  return variant === 'offset-shift' ? { CAUSEWAY_TEST_OFFSET_SHIFT: offsetShift } : {};
}

/** Brokers at which everybody logs in, with TLS. */
export interface Secured {
  readonly cluster: KafkaCluster;
  /** Of the suite's clients. */
  readonly security: ClientSecurity;
  /** Of the brokers, and of the proxy's listeners. */
  readonly certificate: Certificate;
}

/** Starts secured brokers of either kind; they differ in where they are and how clients log in. */
export async function openSecured(
  mechanism: ClientSecurity['mechanism'],
  start: (parts: { ca: CertificateAuthority; certificate: Certificate }) => Promise<KafkaCluster>,
  closers: Closer[],
): Promise<Secured> {
  const ca = await certificateAuthority();
  closers.push(() => ca.remove());
  const certificate = await ca.sign('broker', 'IP:127.0.0.1');
  const cluster = await start({ ca, certificate });
  return { cluster, security: { caFile: ca.certificateFile, mechanism, ...user }, certificate };
}

/** How the user of the proxy logs in at secured brokers. */
export function causewayLogin({ security }: Secured, password: string): Settings {
  return {
    'security.protocol': 'SASL_SSL',
    'sasl.mechanism': 'PLAIN',
    'sasl.jaas.config': jaasLine('PLAIN', 'causeway', password),
    'ssl.truststore.location': security.caFile,
  };
}

/** Of a proxy in front of secured brokers; `destination` has further settings of it. */
export function securedConfig(secured: Secured, destination: Settings) {
  const { certificateFile, keyFile } = secured.certificate;
  return {
    env: { DESTINATION_PASSWORD: brokerPassword },
    config: {
      destination: { ...causewayLogin(secured, `\${DESTINATION_PASSWORD}`), ...destination },
      gateway: { tls: { certificate: certificateFile, key: keyFile } },
    },
  };
}

export async function seenBytes(causeway: CausewayProcess): Promise<number> {
  // A connection that is kept may be one to the life before a restart.
  const options = { headers: { connection: 'close' } };
  const text = await (await fetch(`${causeway.adminUrl}/metrics`, options)).text();
  const value = /^causeway_gateway_bytes_total\{direction="in"\} (\S+)$/m.exec(text)?.[1];
  if (value === undefined) throw new Error('the proxy does not count what clients send');
  return Number(value);
}

/** Restarts the proxy again and again; the counter goes on over all its lives. */
export function keepRestarting(causeway: CausewayProcess): {
  close: () => Promise<void>;
  seenBytes: () => Promise<number>;
} {
  let before = 0;
  let restart: Promise<void> = Promise.resolve();
  const once = async (): Promise<void> => {
    before += await seenBytes(causeway);
    await causeway.stopProcess();
    await causeway.start();
  };
  const timer = setInterval(() => {
    restart = restart.then(once);
    // Awaited below: a proxy that does not come back ends the run.
    restart.catch(() => clearInterval(timer));
  }, restartEveryMs);
  return {
    close: async () => {
      clearInterval(timer);
      await restart;
    },
    seenBytes: async () => {
      await restart;
      return before + (await seenBytes(causeway));
    },
  };
}

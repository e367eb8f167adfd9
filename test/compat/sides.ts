// The two sides of a comparison: a broker by itself, and a broker behind the proxy, in one of the
// variants. Owns starting and ending them; refuses to know suites.
// Invariants: the broker behind the proxy tells addresses that nobody can reach, so that a client
// that passes the proxy by fails; `seenBytes` counts what clients sent to the proxy.

import { readFile } from 'node:fs/promises';
import { parse } from 'yaml';
import {
  type CausewayOptions,
  type CausewayProcess,
  startCauseway,
} from '../helpers/causeway-process.ts';
import { startKafkaCluster } from '../helpers/kafka-cluster.ts';
import { Relay } from '../helpers/relay.ts';
import { addScramUser, securedAddress, startSecuredCluster } from '../helpers/secured-clusters.ts';
import type { SeededRandom } from '../helpers/seeded-random.ts';
import { chopped } from './chopped-passage.ts';
import { openDirectAtPorts, openProxiedAtPorts } from './port-sides.ts';
import {
  brokerPassword,
  type Closer,
  closeAll,
  keepRestarting,
  openSecured,
  type Secured,
  type Settings,
  securedConfig,
  seenBytes,
  shiftOf,
  user,
  type Variant,
} from './proxy-parts.ts';
import type { Target } from './suites/suite.ts';

export interface Side {
  readonly target: Target;
  /** Bytes that clients have sent through the proxy so far; null without one. */
  seenBytes(): Promise<number | null>;
  close(): Promise<void>;
}

/** What a suite expects of its cluster. */
export interface ClusterShape {
  readonly settings: Settings;
  /** One when not said; and with logins, which are made for one. */
  readonly brokers?: number;
  /** Ports that it has built in, one for each broker; then relays with toxics are there. */
  readonly brokerPorts?: readonly number[];
}

const heapMb = 1024;
/** Where clients find the relays; the proxy itself is at 127.0.0.1, at the same ports. */
const choppedHost = '127.0.0.2';

/** Closes what was opened when a later step fails. */
async function opening(open: (closers: Closer[]) => Promise<Omit<Side, 'close'>>): Promise<Side> {
  const closers: Closer[] = [];
  try {
    const side = await open(closers);
    return { ...side, close: () => closeAll(closers) };
  } catch (error) {
    await closeAll(closers);
    throw error;
  }
}

/** One broker whose secured listener is beside the plain one; clients log in by SCRAM. */
function openSecuredBroker(settings: Settings, closers: Closer[]): Promise<Secured> {
  const mechanism = 'SCRAM-SHA-256';
  return openSecured(
    mechanism,
    async (parts) => {
      const password = brokerPassword;
      const options = { name: 'compat', ...parts, password, settings, heapMb };
      const cluster = await startSecuredCluster(options);
      closers.push(() => cluster.stop());
      await addScramUser(cluster, mechanism, { name: user.username, password: user.password });
      return cluster;
    },
    closers,
  );
}

/** Brokers by themselves. */
export function openDirect(shape: ClusterShape, options: { isSecured: boolean }): Promise<Side> {
  return opening(async (closers) => {
    const seenBytes = async (): Promise<null> => null;
    const { settings, brokers = 1, brokerPorts } = shape;
    if (brokerPorts !== undefined) {
      const plan = { ports: brokerPorts, settings, isSecured: options.isSecured };
      return { target: await openDirectAtPorts(plan, closers), seenBytes };
    }
    if (options.isSecured) {
      const { cluster, security } = await openSecuredBroker(settings, closers);
      return { target: { bootstrap: securedAddress(cluster), security }, seenBytes };
    }
    const cluster = await startKafkaCluster({
      name: 'compat-direct',
      advertise: 'reachable',
      brokers,
      settings,
      heapMb,
    });
    closers.push(() => cluster.stop());
    return { target: { bootstrap: cluster.bootstrap }, seenBytes };
  });
}

async function openProxy(
  variant: Exclude<Variant, 'sasl-tls'>,
  { settings, brokers = 1 }: ClusterShape,
  closers: Closer[],
): Promise<CausewayProcess> {
  const destination = await startKafkaCluster({ name: 'compat', brokers, settings, heapMb });
  closers.push(() => destination.stop());
  const options: CausewayOptions = { destination, env: shiftOf(variant) };
  if (variant === 'chopped') options.config = { gateway: { advertise: choppedHost } };
  const causeway = await startCauseway(options);
  closers.push(() => causeway.stop());
  return causeway;
}

async function openSecuredProxy(settings: Settings, closers: Closer[]) {
  const secured = await openSecuredBroker(settings, closers);
  const { cluster, security } = secured;
  const causeway = await startCauseway({
    destination: cluster,
    ...securedConfig(secured, { 'bootstrap.servers': securedAddress(cluster) }),
  });
  closers.push(() => causeway.stop());
  return { causeway, security };
}

interface GatewayConfig {
  readonly gateway: { readonly bootstrapPort: number; readonly brokerPorts: string };
}

/** One relay before each port that clients may be told. */
async function openRelays(
  causeway: CausewayProcess,
  random: SeededRandom,
  closers: Closer[],
): Promise<string> {
  const config = parse(await readFile(causeway.configFile, 'utf8')) as GatewayConfig;
  const { bootstrapPort, brokerPorts } = config.gateway;
  const [first = 0, last = 0] = brokerPorts.split('-').map(Number);
  const ports = Array.from({ length: last - first + 1 }, (_, index) => first + index);
  for (const port of [bootstrapPort, ...ports]) {
    const listen = { host: choppedHost, port };
    const target = { host: '127.0.0.1', port };
    const relay = await Relay.start({ listen, target, pass: chopped(random) });
    closers.push(() => relay.stop());
  }
  return `${choppedHost}:${bootstrapPort}`;
}

/** A broker behind the proxy. */
export function openProxied(
  variant: Variant,
  shape: ClusterShape,
  random: SeededRandom,
): Promise<Side> {
  return opening(async (closers) => {
    const { settings, brokerPorts } = shape;
    if (brokerPorts !== undefined) {
      return openProxiedAtPorts(variant, { ports: brokerPorts, settings, random }, closers);
    }
    if (variant === 'sasl-tls') {
      const { causeway, security } = await openSecuredProxy(settings, closers);
      const target = { bootstrap: causeway.bootstrap, security };
      return { target, seenBytes: () => seenBytes(causeway) };
    }
    const causeway = await openProxy(variant, shape, closers);
    if (variant === 'restarts') {
      const restarts = keepRestarting(causeway);
      closers.push(restarts.close);
      return { target: { bootstrap: causeway.bootstrap }, seenBytes: restarts.seenBytes };
    }
    const bootstrap =
      variant === 'chopped' ? await openRelays(causeway, random, closers) : causeway.bootstrap;
    return { target: { bootstrap }, seenBytes: () => seenBytes(causeway) };
  });
}

// The sides of a comparison for a suite with ports built in: relays with toxics are at those ports
// of 127.0.0.1, and lead to the brokers or to the proxy, which is at the same ports of another
// loopback address. Owns starting them in each variant; refuses to know suites.
// Invariant: clients are told the relays' addresses only, so that a toxic meets all they send.

import { connectCluster } from '../../src/cluster/cluster-client.ts';
import { startCauseway } from '../helpers/causeway-process.ts';
import { type KafkaCluster, startKafkaCluster } from '../helpers/kafka-cluster.ts';
import { Relay } from '../helpers/relay.ts';
import { clientListenerSettings } from '../helpers/secured-clusters.ts';
import type { SeededRandom } from '../helpers/seeded-random.ts';
import { chopped } from './chopped-passage.ts';
import {
  brokerPassword,
  type Closer,
  causewayLogin,
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
import { type RelayPlan, ToxicRelays } from './toxic-relays.ts';

/** Where the proxy is. */
const hiddenHost = '127.0.0.2';
/** Where relays are that cut what passes, between those with toxics and the proxy. */
const choppedHost = '127.0.0.3';
/** For the link node, and for brokers that a topology may gain. */
const sparePorts = 3;

interface PortPlan {
  readonly ports: readonly number[];
  readonly settings: Settings;
}

/** Brokers of which clients know `told`, or names that nobody can reach when it is not given. */
async function openBrokers(
  { ports, settings }: PortPlan,
  closers: Closer[],
  options: { told: readonly number[] | undefined; securesClients: boolean },
): Promise<KafkaCluster> {
  const { told, securesClients } = options;
  const cluster = await startKafkaCluster({
    name: 'compat',
    brokers: ports.length,
    settings,
    securesClients,
    ...(told === undefined ? {} : { advertisedPorts: told }),
  });
  closers.push(() => cluster.stop());
  return cluster;
}

/** As above; clients have to log in, with TLS and by PLAIN: sarama brings no SCRAM. */
function openSecuredBrokers(
  { ports, settings }: PortPlan,
  closers: Closer[],
  told?: readonly number[],
): Promise<Secured> {
  return openSecured(
    'PLAIN',
    ({ ca, certificate }) => {
      const users = { causeway: brokerPassword, [user.username]: user.password };
      const secured = clientListenerSettings({ ca, certificate, users });
      const securedPlan = { ports, settings: { ...settings, ...secured } };
      return openBrokers(securedPlan, closers, { told, securesClients: true });
    },
    closers,
  );
}

async function openToxics(plans: readonly RelayPlan[], closers: Closer[]): Promise<string> {
  const relays = await ToxicRelays.start(plans);
  closers.push(() => relays.close());
  return relays.url;
}

/** Relays at the ports that the suite knows lead to the brokers. */
export async function openDirectAtPorts(
  plan: PortPlan & { readonly isSecured: boolean },
  closers: Closer[],
): Promise<Target> {
  const { ports } = plan;
  const secured = plan.isSecured ? await openSecuredBrokers(plan, closers, ports) : undefined;
  const cluster =
    secured?.cluster ?? (await openBrokers(plan, closers, { told: ports, securesClients: false }));
  const toxics = await openToxics(
    cluster.brokers.map(({ id, host, port }, index) => ({
      name: `kafka${id}`,
      listen: { host: '127.0.0.1', port: ports[index] ?? 0 },
      to: { host, port },
    })),
    closers,
  );
  const target = { bootstrap: `127.0.0.1:${ports[0]}`, toxics };
  return secured === undefined ? target : { ...target, security: secured.security };
}

/** One relay before each of the proxy's ports. */
async function openChopping(
  ports: readonly number[],
  random: SeededRandom,
  closers: Closer[],
): Promise<void> {
  for (const port of ports) {
    const listen = { host: choppedHost, port };
    const target = { host: hiddenHost, port };
    const relay = await Relay.start({ listen, target, pass: chopped(random) });
    closers.push(() => relay.stop());
  }
}

// The names that these brokers tell are nobody's, so no certificate can have them.
const namesUnchecked: Settings = { 'ssl.endpoint.identification.algorithm': '' };

/** At which of the proxy's ports each broker is. */
async function brokersAtPorts(first: number, client: Settings): Promise<Map<number, number>> {
  const cluster = connectCluster({ bootstrapServers: [`${hiddenHost}:${first}`], client });
  try {
    const { brokers } = await cluster.metadata([]);
    return new Map(brokers.map(({ port, nodeId }) => [port, nodeId]));
  } finally {
    await cluster.close();
  }
}

/** The proxy at the same ports of another loopback address, and relays before it. */
export async function openProxiedAtPorts(
  variant: Variant,
  plan: PortPlan & { readonly random: SeededRandom },
  closers: Closer[],
): Promise<{ target: Target; seenBytes: () => Promise<number> }> {
  const [first = 0] = plan.ports;
  const all = Array.from({ length: plan.ports.length + sparePorts }, (_, index) => first + index);
  const secured = variant === 'sasl-tls' ? await openSecuredBrokers(plan, closers) : undefined;
  const settings = secured === undefined ? undefined : securedConfig(secured, namesUnchecked);
  const causeway = await startCauseway({
    destination:
      secured?.cluster ??
      (await openBrokers(plan, closers, { told: undefined, securesClients: false })),
    env: { ...shiftOf(variant), ...settings?.env },
    config: {
      ...settings?.config,
      gateway: {
        bind: hiddenHost,
        advertise: '127.0.0.1',
        brokerPorts: `${first}-${all.at(-1)}`,
        ...settings?.config.gateway,
      },
    },
  });
  closers.push(() => causeway.stop());
  if (variant === 'chopped') await openChopping(all, plan.random, closers);
  const host = variant === 'chopped' ? choppedHost : hiddenHost;
  const login =
    secured === undefined ? {} : { ...causewayLogin(secured, brokerPassword), ...namesUnchecked };
  const ids = await brokersAtPorts(first, login);
  const toxics = await openToxics(
    all.map((port) => {
      const id = ids.get(port);
      const listen = { host: '127.0.0.1', port };
      return { name: id === undefined ? null : `kafka${id}`, listen, to: { host, port } };
    }),
    closers,
  );
  const target: Target = {
    bootstrap: `127.0.0.1:${first}`,
    toxics,
    ...(secured === undefined ? {} : { security: secured.security }),
  };
  if (variant !== 'restarts') return { target, seenBytes: () => seenBytes(causeway) };
  const restarts = keepRestarting(causeway);
  closers.push(restarts.close);
  return { target, seenBytes: restarts.seenBytes };
}

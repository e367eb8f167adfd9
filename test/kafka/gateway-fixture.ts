// A gateway in this process, in front of a real cluster, for tests of what passes through it.
//
// Owns: ports, the cluster client and the gateway. The directory of mirrors is a value that tests
// may replace. Invariant: `close` ends everything that was started here.

import type { Cluster } from '../../src/cluster/cluster.ts';
import { connectCluster } from '../../src/cluster/cluster-client.ts';
import { ClusterSecurity } from '../../src/cluster/security.ts';
import type { TlsListenerConfig } from '../../src/config/config.ts';
import { type Gateway, startGateway } from '../../src/gateway/gateway.ts';
import type { TopicDirectory } from '../../src/gateway/topic-directory.ts';
import type { NodePorts } from '../../src/gateway/virtual-brokers.ts';
import { Events } from '../../src/observe/events.ts';
import type { KafkaCluster } from '../helpers/kafka-cluster.ts';
import { releasePorts, reservePorts } from '../helpers/ports.ts';

export const linkNodeId = 1_000_000;

export class MemoryPorts implements NodePorts {
  ports: Readonly<Record<string, number>> = {};
  saves = 0;

  load(): Readonly<Record<string, number>> {
    return this.ports;
  }

  save(ports: Readonly<Record<string, number>>): Promise<void> {
    this.ports = ports;
    this.saves++;
    return Promise.resolve();
  }
}

export const nothingMirrored: TopicDirectory = {
  byName: () => undefined,
  byId: () => undefined,
  hasMirrors: false,
  hasPromoted: false,
  isSettled: true,
  onChangeOf: () => () => undefined,
};

export interface GatewayUnderTest {
  readonly gateway: Gateway;
  readonly bootstrap: string;
  readonly events: Events;
  readonly ports: MemoryPorts;
  close(): Promise<void>;
}

export async function gatewayFor(
  kafka: KafkaCluster,
  options: {
    directory?: TopicDirectory;
    /** Changes what the gateway knows of the destination. */
    destination?: (cluster: Cluster) => Cluster;
    /** Where and as whom we connect; default: the plain listener. */
    login?: { bootstrap: string; client: Record<string, string> };
    tls?: TlsListenerConfig;
    /** Monotonic milliseconds, for tests that do not wait. */
    now?: () => number;
  } = {},
): Promise<GatewayUnderTest> {
  const reserved = await reservePorts(8, { isConsecutive: true });
  const [bootstrapPort = 0, first = 0] = reserved;
  const last = reserved.at(-1) ?? 0;
  const events = new Events();
  const ports = new MemoryPorts();
  const { login, tls } = options;
  const cluster = connectCluster({
    bootstrapServers: (login?.bootstrap ?? kafka.bootstrap).split(','),
    addressMap: kafka.addressMap,
    client: login?.client ?? {},
  });
  const gateway = await startGateway({
    config: {
      bind: '127.0.0.1',
      advertise: '127.0.0.1',
      bootstrapPort,
      brokerPorts: { first, last },
      linkNodeId,
      ...(tls === undefined ? {} : { tls }),
    },
    security: new ClusterSecurity(login?.client ?? {}),
    cluster: options.destination?.(cluster) ?? cluster,
    directory: options.directory ?? nothingMirrored,
    ports,
    events,
    ...(options.now === undefined ? {} : { now: options.now }),
  });
  return {
    gateway,
    events,
    ports,
    bootstrap: `127.0.0.1:${bootstrapPort}`,
    close: async () => {
      await gateway.close({ drainMs: 200 });
      await cluster.close();
      releasePorts(reserved);
    },
  };
}

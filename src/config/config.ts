// The configuration as the service uses it, after loading and checking (schema.ts, load.ts).

import type { PrincipalMapping } from './principal-mapping.ts';

/** Kafka client settings by Kafka's own names. */
export type KafkaClientSettings = Readonly<Record<string, string>>;

/** Paths of PEM files, which are read again when they change. */
export interface TlsListenerConfig {
  readonly certificate: string;
  readonly key: string;
  /** Whose certificates are taken from clients. */
  readonly clientCa?: string;
  readonly clientAuth: 'none' | 'requested' | 'required';
  /** A client's certificate is its principal at the destination, under this name. */
  readonly principalMapping?: PrincipalMapping;
}

export interface CausewayConfig {
  /** Names the state topic, transactional ids, groups and log topics. */
  readonly name: string;
  readonly destination: {
    readonly bootstrapServers: readonly string[];
    /** advertised host:port -> reachable host:port */
    readonly addressMap: Readonly<Record<string, string>>;
    readonly client: KafkaClientSettings;
  };
  readonly gateway: {
    readonly bind: string;
    /** The host that clients are told. */
    readonly advertise: string;
    readonly bootstrapPort: number;
    readonly brokerPorts: { readonly first: number; readonly last: number };
    readonly linkNodeId: number;
    /** Client connections from one address; without it only the limit of all counts. */
    readonly connectionsPerAddressMax?: number | undefined;
    /** Without it listeners are plain. */
    readonly tls?: TlsListenerConfig;
    /** Addresses and networks from which the brokers see proxies, beside this machine's own. */
    readonly upstreamAddresses?: readonly string[];
  };
  readonly storage: {
    readonly type: 'disk';
    readonly directory: string;
    readonly minFreeBytes:
      | { readonly kind: 'bytes'; readonly value: number }
      | { readonly kind: 'percent'; readonly value: number };
  };
  readonly admin: {
    readonly bind: string;
    readonly port: number;
    /** False: metrics by topic only, for installations with very many partitions. Default true. */
    readonly partitionMetrics?: boolean;
  };
  readonly log: { readonly level: 'trace' | 'debug' | 'info' | 'warn' | 'error' };
}

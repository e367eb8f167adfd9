// What our own Kafka client may take at most, in one place: time, connections, bytes. Callers
// override single values. Invariant: memory of one cluster <= connections x frame size, since every
// connection assembles at most one response at a time.
export interface ClusterLimits {
  /** One request without its own `timeoutMs`, everything included. */
  readonly requestTimeoutMs: number;
  /** TCP connect, TLS, ApiVersions and SASL together. */
  readonly connectTimeoutMs: number;
  /** After the first failure of an address; doubles, with jitter. */
  readonly backoffMs: number;
  readonly backoffMsMax: number;
  /** After a broker has refused who we are; asked again in the meantime, it counts as refused. */
  readonly refusedBackoffMs: number;
  readonly refusedBackoffMsMax: number;
  /** Of one request that is sent again because the coordinator moves or loads. */
  readonly retryBackoffMs: number;
  /** Believed of a broker that has us wait for a quota; deadlines move by as much. */
  readonly throttleMsMax: number;
  readonly connectionsMax: number;
  /** A response that claims more ends its connection. */
  readonly frameBytesMax: number;
  /** Answers outstanding on one connection. */
  readonly inFlightMax: number;
  /** How often timeouts are looked at: no timeout is more exact than this. */
  readonly tickMs: number;
}

export const clusterLimitsDefault: ClusterLimits = {
  requestTimeoutMs: 10_000,
  connectTimeoutMs: 5_000,
  backoffMs: 50,
  backoffMsMax: 1_000,
  refusedBackoffMs: 1_000,
  refusedBackoffMsMax: 30_000,
  retryBackoffMs: 50,
  throttleMsMax: 60_000,
  connectionsMax: 1_000,
  frameBytesMax: 128 * 1024 * 1024,
  inFlightMax: 1_000,
  tickMs: 50,
};

// Our own Kafka client for our own work (links, tasks, state topic, the gateway's knowledge of its
// destination): what the rest of the service may ask of one cluster. Refuses to know what the
// answers are for. Error codes inside responses are data for the caller; transport faults are
// ClusterError.
import type { Reader, Writer } from '../../protocol/index.ts';
import type { Address } from './address.ts';
import type { FrameReceiver } from './frame-intake.ts';

/** One API as far as we use it: a descriptor made from the generated codecs (apis.ts). */
export interface Api<Request, Response> {
  readonly key: number;
  readonly name: string;
  /** Versions that we use; the highest that the broker also has is taken. */
  readonly versionMin: number;
  readonly versionMax: number;
  encode(writer: Writer, request: Request, version: number): void;
  decode(reader: Reader, version: number): Response;
  /** Error codes that may say "not me, ask another broker"; for coordinators and the controller. */
  routingErrors?(response: Response): readonly number[];
}

export type ClusterErrorCode =
  | 'UNREACHABLE' // refused, reset, unresolvable, closed before the answer
  | 'TIMEOUT'
  | 'UNSUPPORTED' // no common version of the API
  | 'UNKNOWN_NODE'
  | 'PROTOCOL' // an answer that cannot be decoded, a correlation mismatch
  | 'AUTHENTICATION' // TLS or SASL: they are not who they should be, or we are not
  | 'CLOSED';

export class ClusterError extends Error {
  readonly code: ClusterErrorCode;
  /** False when the request was certainly not sent. True: it may have been carried out. */
  readonly maybeSent: boolean;

  constructor(
    code: ClusterErrorCode,
    message: string,
    options: { cause?: unknown; maybeSent: boolean },
  ) {
    super(message, { cause: options.cause });
    this.name = 'ClusterError';
    this.code = code;
    this.maybeSent = options.maybeSent;
  }
}

export type Target =
  | { readonly kind: 'any' }
  // any broker forwards; kept apart for old brokers (< 3.4: the active controller)
  | { readonly kind: 'controller' }
  | { readonly kind: 'node'; readonly nodeId: number }
  // its coordinator, looked up again on 14, 15, 16
  | { readonly kind: 'group'; readonly groupId: string }
  | { readonly kind: 'transaction'; readonly transactionalId: string };

export interface SendOptions {
  /** Default 10,000; not counted: time for which a broker's quota has its connection wait. */
  readonly timeoutMs?: number;
  /** A lane of its own for long polls: requests with different lanes never share a connection. */
  readonly lane?: string;
  /** Caps the version (for a field that must be sent in an older form). */
  readonly versionMax?: number;
  /**
   * Who takes the answer in: what is in the answer is valid until its memory is claimed again.
   * After an error it must not be passed again: a late answer may still come in.
   */
  readonly into?: FrameReceiver;
}

export interface BrokerInfo {
  readonly nodeId: number;
  /** As advertised by the cluster. */
  readonly host: string;
  readonly port: number;
  readonly rack: string | null;
}

export interface PartitionInfo {
  readonly partition: number;
  readonly leaderId: number;
  readonly leaderEpoch: number;
  readonly replicaNodes: readonly number[];
  readonly errorCode: number;
}

export interface TopicInfo {
  readonly name: string;
  /** All zero when the broker has no topic ids. */
  readonly topicId: string;
  readonly isInternal: boolean;
  readonly errorCode: number;
  readonly partitions: readonly PartitionInfo[];
}

export interface ClusterMetadata {
  readonly clusterId: string | null;
  readonly controllerId: number;
  readonly brokers: readonly BrokerInfo[];
  /** Only the topics asked for. */
  readonly topics: ReadonlyMap<string, TopicInfo>;
}

export interface VersionRange {
  readonly min: number;
  readonly max: number;
}

export interface Cluster {
  /**
   * Sends with the best common version. The response carries no transport error. @throws
   * ClusterError
   */
  send<Request, Response>(
    target: Target,
    api: Api<Request, Response>,
    request: Request | ((version: number) => Request),
    options?: SendOptions,
  ): Promise<Response>;
  /**
   * Fresh metadata; `topics: 'all'`, a list of names, or [] for brokers only. Never auto-creates.
   */
  metadata(topics: 'all' | readonly string[]): Promise<ClusterMetadata>;
  /** The last known brokers, from any metadata answer. */
  readonly brokers: readonly BrokerInfo[];
  /** Versions of one broker (default: any), as it told in ApiVersions. */
  apiVersions(nodeId?: number): Promise<ReadonlyMap<number, VersionRange>>;
  /** Where to connect for an advertised host:port, after the address map. */
  reach(host: string, port: number): Address;
  readonly bootstrap: readonly Address[];
  close(): Promise<void>;
}

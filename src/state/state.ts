// The state as the rest of the service sees it: a snapshot of records in memory, and one way to
// change it. Truth lives in the destination (design D5). Invariant: nothing is visible here that is
// not committed, and nothing commits without a valid lease.
import type {
  HandoversRecord,
  LinkAclsRecord,
  LinkRecord,
  LogRemovalRecord,
  NodePortsRecord,
  ReceiptRecord,
  ShareGroupsRecord,
  SourceSeenRecord,
  StateRecord,
  StorageRecord,
  TopicGrantsRecord,
  TopicRecord,
} from './records.ts';

export type StateErrorCode =
  | 'NOT_OWNER' // lost the lease, was fenced, or never had it
  | 'IN_DOUBT' // the commit's answer was lost; read again before deciding
  | 'UNAVAILABLE' // the destination does not answer; nothing was committed
  | 'MISSING' // the state topic is missing or empty beside mirror storage
  | 'CORRUPT'; // a record that this version cannot read, or a topic config that is wrong

export class StateError extends Error {
  readonly code: StateErrorCode;

  constructor(code: StateErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'StateError';
    this.code = code;
  }
}

/** A put (record) or a delete (key only). */
export type StateChange = { readonly put: StateRecord } | { readonly delete: string };

export interface StateView {
  readonly links: ReadonlyMap<string, LinkRecord>;
  /** By destination topic name. */
  readonly topics: ReadonlyMap<string, TopicRecord>;
  readonly nodePorts: NodePortsRecord | undefined;
  readonly storage: StorageRecord | undefined;
  readonly receipts: ReadonlyMap<string, ReceiptRecord>;
  /** By link. */
  readonly linkAcls: ReadonlyMap<string, LinkAclsRecord>;
  /** By topic. */
  readonly topicGrants: ReadonlyMap<string, TopicGrantsRecord>;
  /** By link. */
  readonly shareGroups: ReadonlyMap<string, ShareGroupsRecord>;
  /** By link. */
  readonly handovers: ReadonlyMap<string, HandoversRecord>;
  /** By link. */
  readonly sourcesSeen: ReadonlyMap<string, SourceSeenRecord>;
  /** By topic id. */
  readonly logRemovals: ReadonlyMap<string, LogRemovalRecord>;
  /** All of them but the lease, which is of no use to anybody later: what an export holds. */
  records(): readonly StateRecord[];
}

/** May this instance act? Checked before each request that changes something anywhere. */
export interface Lease {
  /**
   * True while the last confirmed renewal is younger than the lease (3 s), on the monotonic clock.
   */
  isValid(): boolean;
  /** @throws StateError NOT_OWNER */
  check(): void;
  readonly instanceId: string;
}

export interface State {
  readonly view: StateView;
  readonly lease: Lease;
  /** Topic names whose last commit is in doubt: they are answered retriably. */
  isInDoubt(topic: string): boolean;
  /** Everything was read to the end at least once since the last doubt. */
  readonly isSettled: boolean;
  /**
   * Commits all changes in one transaction, then updates `view` and tells the listeners. Calls are
   * serialized.
   * @throws StateError NOT_OWNER, IN_DOUBT, UNAVAILABLE
   */
  commit(changes: readonly StateChange[]): Promise<void>;
  /**
   * Resolves while this instance may act; a renewal that is late, as on a busy machine, is made now
   * and not taken for a loss.
   * @throws StateError NOT_OWNER, UNAVAILABLE
   */
  owned(): Promise<void>;
  /** Called after the view changed (by a commit or by reading), with the keys that changed. */
  onChange(listener: (keys: readonly string[]) => void): () => void;
  /** Called when ownership begins or ends. */
  onOwnership(listener: (isOwner: boolean) => void): () => void;
  close(): Promise<void>;
}

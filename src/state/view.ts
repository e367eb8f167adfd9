// The records of the state topic in memory. Owns the maps behind StateView and nothing else: what
// is applied here is committed, the caller sees to that. Invariant: a change is applied whole,
// between two turns of the event loop, so that no reader ever sees half of a transaction.
import type {
  HandoversRecord,
  LeaseRecord,
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
import { stateKey } from './records.ts';
import type { StateChange, StateView } from './state.ts';

export class RecordView implements StateView {
  readonly #links = new Map<string, LinkRecord>();
  readonly #topics = new Map<string, TopicRecord>();
  readonly #receipts = new Map<string, ReceiptRecord>();
  readonly #linkAcls = new Map<string, LinkAclsRecord>();
  readonly #topicGrants = new Map<string, TopicGrantsRecord>();
  readonly #shareGroups = new Map<string, ShareGroupsRecord>();
  readonly #handovers = new Map<string, HandoversRecord>();
  readonly #sourcesSeen = new Map<string, SourceSeenRecord>();
  readonly #logRemovals = new Map<string, LogRemovalRecord>();
  #nodePorts: NodePortsRecord | undefined;
  #storage: StorageRecord | undefined;
  #lease: LeaseRecord | undefined;

  get links(): ReadonlyMap<string, LinkRecord> {
    return this.#links;
  }

  get topics(): ReadonlyMap<string, TopicRecord> {
    return this.#topics;
  }

  get receipts(): ReadonlyMap<string, ReceiptRecord> {
    return this.#receipts;
  }

  get linkAcls(): ReadonlyMap<string, LinkAclsRecord> {
    return this.#linkAcls;
  }

  get topicGrants(): ReadonlyMap<string, TopicGrantsRecord> {
    return this.#topicGrants;
  }

  get shareGroups(): ReadonlyMap<string, ShareGroupsRecord> {
    return this.#shareGroups;
  }

  get handovers(): ReadonlyMap<string, HandoversRecord> {
    return this.#handovers;
  }

  get sourcesSeen(): ReadonlyMap<string, SourceSeenRecord> {
    return this.#sourcesSeen;
  }

  get logRemovals(): ReadonlyMap<string, LogRemovalRecord> {
    return this.#logRemovals;
  }

  get nodePorts(): NodePortsRecord | undefined {
    return this.#nodePorts;
  }

  get storage(): StorageRecord | undefined {
    return this.#storage;
  }

  /** The last lease record, whoever wrote it. */
  get lease(): LeaseRecord | undefined {
    return this.#lease;
  }

  /** Nothing but, at most, a lease. */
  get isEmpty(): boolean {
    return this.records().length === 0;
  }

  records(): StateRecord[] {
    const records: StateRecord[] = [
      ...this.#links.values(),
      ...this.#topics.values(),
      ...this.#receipts.values(),
      ...this.#linkAcls.values(),
      ...this.#topicGrants.values(),
      ...this.#shareGroups.values(),
      ...this.#handovers.values(),
      ...this.#sourcesSeen.values(),
      ...this.#logRemovals.values(),
    ];
    if (this.#nodePorts) records.push(this.#nodePorts);
    if (this.#storage) records.push(this.#storage);
    return records;
  }

  apply(change: StateChange): void {
    if ('delete' in change) this.#delete(change.delete);
    else this.#put(change.put);
  }

  #put(record: StateRecord): void {
    switch (record.kind) {
      case 'link':
        this.#links.set(record.name, record);
        break;
      case 'topic':
        this.#topics.set(record.name, record);
        break;
      case 'receipt':
        this.#receipts.set(record.id, record);
        break;
      case 'link-acls':
        this.#linkAcls.set(record.link, record);
        break;
      case 'topic-grants':
        this.#topicGrants.set(record.topic, record);
        break;
      case 'share-groups':
        this.#shareGroups.set(record.link, record);
        break;
      case 'handovers':
        this.#handovers.set(record.link, record);
        break;
      case 'source-seen':
        this.#sourcesSeen.set(record.link, record);
        break;
      case 'log-removal':
        this.#logRemovals.set(record.topicId, record);
        break;
      case 'node-ports':
        this.#nodePorts = record;
        break;
      case 'storage':
        this.#storage = record;
        break;
      case 'lease':
        this.#lease = record;
        break;
    }
  }

  #delete(key: string): void {
    const slash = key.indexOf('/');
    const name = key.slice(slash + 1);
    if (slash < 0) this.#deleteSingle(key);
    else if (key.startsWith('link/')) this.#links.delete(name);
    else if (key.startsWith('topic/')) this.#topics.delete(name);
    else if (key.startsWith('receipt/')) this.#receipts.delete(name);
    else if (key.startsWith('link-acls/')) this.#linkAcls.delete(name);
    else if (key.startsWith('topic-grants/')) this.#topicGrants.delete(name);
    else if (key.startsWith('share-groups/')) this.#shareGroups.delete(name);
    else if (key.startsWith('handovers/')) this.#handovers.delete(name);
    else if (key.startsWith('source-seen/')) this.#sourcesSeen.delete(name);
    else if (key.startsWith('log-removal/')) this.#logRemovals.delete(name);
  }

  #deleteSingle(key: string): void {
    if (key === 'node-ports') this.#nodePorts = undefined;
    else if (key === 'storage') this.#storage = undefined;
    else if (key === 'lease') this.#lease = undefined;
  }
}

export function changeKey(change: StateChange): string {
  return 'delete' in change ? change.delete : stateKey(change.put);
}

// Gives up the state of an instance for good: its topic is deleted, once nothing rests on it any
// more. Owns what stands in the way; refuses to know mirror logs. Invariants: a state that a
// client's offsets or a denial at a source depend on is never deleted; nor is that of an instance
// that lives; no instance can have written to it between the last look and the deletion.
import {
  createDeleteTopicState,
  createDeleteTopicsRequest,
} from '../../protocol/generated/delete-topics-request.ts';
import { ErrorCode, errorName } from '../../protocol/index.ts';
import { deleteTopicsApi } from '../cluster/apis.ts';
import type { Cluster } from '../cluster/cluster.ts';
import { pauseMs } from '../cluster/pause.ts';
import { stateLimitsDefault } from './limits.ts';
import type { StateClock } from './options.ts';
import { ownProcess } from './own-process.ts';
import { awaitSilence, isGoneHere } from './predecessor.ts';
import { decodeRecord } from './record-format.ts';
import type { Acl, TopicRecord } from './records.ts';
import { StateError } from './state.ts';
import { asUnavailable, findStateTopic, stateTopicName } from './state-topic.ts';
import { TopicReader } from './topic-reader.ts';
import { TransactionWriter } from './transaction-writer.ts';
import { RecordView } from './view.ts';

const deleteTimeoutMs = 30_000;

export interface UninstallOptions {
  /** The instance's name. */
  readonly name: string;
  readonly cluster: Cluster;
  readonly clock: StateClock;
  readonly isDryRun: boolean;
  /** The last word before the deletion; throws when it must not be. */
  readonly confirm: (found: UninstallFindings) => Promise<void>;
}

export interface UninstallFindings {
  readonly topic: string;
  /** What has to be done first; empty when it may go. */
  readonly blocking: readonly string[];
  readonly links: readonly string[];
  /** ACLs at the destination that links made. */
  readonly acls: readonly Acl[];
  readonly directoryId: string | null;
}

/** @throws StateError MISSING, NOT_OWNER (an instance is at work), UNAVAILABLE */
export async function uninstallState(options: UninstallOptions): Promise<UninstallFindings> {
  const closing = new AbortController();
  try {
    return await new StateRemoval(options, closing.signal).run();
  } catch (error) {
    throw asUnavailable(error);
  } finally {
    closing.abort();
  }
}

class StateRemoval {
  readonly #options: UninstallOptions;
  readonly #signal: AbortSignal;
  readonly #topic: string;
  readonly #view = new RecordView();
  readonly #reader: TopicReader;

  constructor(options: UninstallOptions, signal: AbortSignal) {
    this.#options = options;
    this.#signal = signal;
    this.#topic = stateTopicName(options.name);
    const { cluster, clock } = options;
    const now = () => clock.now();
    this.#reader = new TopicReader({ cluster, topic: this.#topic, signal, now });
  }

  async run(): Promise<UninstallFindings> {
    const { cluster, isDryRun, confirm } = this.#options;
    if ((await findStateTopic(cluster, this.#topic, this.#signal)) === null) {
      throw new StateError('MISSING', `state topic ${this.#topic} does not exist`);
    }
    await this.#silence();
    const before = this.#findings();
    if (isDryRun || before.blocking.length > 0) return before;
    await this.#writer().fence(stateLimitsDefault.openTimeoutMs);
    await this.#read('end');
    const found = this.#findings();
    if (found.blocking.length > 0) return found;
    await confirm(found);
    await this.#delete();
    return found;
  }

  /** @throws StateError NOT_OWNER while an instance renews its lease */
  async #silence(): Promise<void> {
    const { name, clock } = this.#options;
    await awaitSilence({
      name,
      read: () => this.#read('stable'),
      lease: () => this.#view.lease,
      leaseMs: stateLimitsDefault.leaseMs,
      now: () => clock.now(),
      signal: this.#signal,
      isDead: (lease) => isGoneHere(lease, ownProcess),
    });
  }

  async #read(until: 'stable' | 'end'): Promise<void> {
    const timeoutMs = stateLimitsDefault.openTimeoutMs;
    for (const [key, value] of await this.#reader.read({ until, timeoutMs })) {
      this.#view.apply(value === null ? { delete: key } : { put: decodeRecord(key, value) });
    }
  }

  #writer(): TransactionWriter {
    const { cluster, clock } = this.#options;
    return new TransactionWriter({
      cluster,
      topic: this.#topic,
      transactionalId: this.#topic,
      now: () => clock.now(),
      wallMs: () => clock.wallMs(),
      signal: this.#signal,
      onDoubt: () => undefined,
    });
  }

  #findings(): UninstallFindings {
    const { links, topics, linkAcls, storage } = this.#view;
    return {
      topic: this.#topic,
      blocking: [...topics.values()].flatMap(whatBlocks),
      links: [...links.keys()],
      acls: [...linkAcls.values()].flatMap(({ acls }) => acls),
      directoryId: storage?.directoryId ?? null,
    };
  }

  async #delete(): Promise<void> {
    const { cluster } = this.#options;
    const request = createDeleteTopicsRequest({
      topics: [createDeleteTopicState({ name: this.#topic })],
      topicNames: [this.#topic],
      timeoutMs: deleteTimeoutMs,
    });
    const { responses } = await cluster.send({ kind: 'controller' }, deleteTopicsApi, request, {
      timeoutMs: deleteTimeoutMs + 5_000,
    });
    const code = responses[0]?.errorCode ?? ErrorCode.UNKNOWN_SERVER_ERROR;
    if (code !== ErrorCode.NONE && code !== ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) {
      const message = `state topic ${this.#topic} cannot be deleted: ${errorName(code)}`;
      throw new StateError('UNAVAILABLE', message);
    }
    while ((await findStateTopic(cluster, this.#topic, this.#signal)) !== null) {
      await pauseMs(200, this.#signal);
    }
  }
}

function whatBlocks({ name, state, fence, sourceTopic }: TopicRecord): readonly string[] {
  const own =
    state === 'STOPPED'
      ? `'${name}' is promoted, its offsets are right through us only: ` +
        `causeway mirror detach ${name}`
      : `'${name}' is a mirror (${state}): promote or fail it over and detach it, or ` +
        `causeway mirror delete ${name}`;
  if ((fence?.acls.length ?? 0) === 0) return [own];
  return [
    own,
    `WRITE on '${sourceTopic}' is denied at its source: causeway mirror unfence ${name}`,
  ];
}

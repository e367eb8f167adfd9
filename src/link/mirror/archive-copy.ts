// Keeping the copy of a mirror that is made anew: it becomes the history of a topic of another
// name, closed as a failover closes it. Owns the order (the name gated, a shell of its own made,
// the copy closed) and its undoing; refuses to know what takes the mirror's place. Invariants: the
// logs stay where they are, under the id of their first shell, and belong to one record at any
// time; until that record is committed the failed mirror has them, and nothing of the archive is
// left but, after a crash, its gate, which the next look takes away.
import { ErrorCode, zeroUuid } from '../../../protocol/index.ts';
import { logTopicIdOf, type PendingCreation, type TopicRecord } from '../../state/records.ts';
import { StateError } from '../../state/state.ts';
import type { LinkContext } from '../context.ts';
import { isOperatingError, LinkError } from '../link-error.ts';
import { whyForeign } from './foreign-topic.ts';
import type { MirrorTopics } from './mirror-topics.ts';
import { createShell, deleteShell, existsAlready, type NewShell } from './shell-topic.ts';
import {
  appendAborts,
  cutsOf,
  hasMoved,
  hasOpenTransactions,
  measureSwitch,
  type SwitchTopic,
  splicedPartitions,
} from './splice.ts';
import type { TopicChanges } from './topic-changes.ts';
import { shellConfigs } from './topic-configs.ts';

export interface ArchiveParts {
  readonly context: LinkContext;
  readonly topics: MirrorTopics;
  readonly changes: TopicChanges;
}

/** What is to be kept, and as what. */
export interface Archive {
  readonly failed: TopicRecord;
  readonly name: string;
  readonly creating: PendingCreation;
}

export class ArchiveCopies {
  readonly #context: LinkContext;
  readonly #topics: MirrorTopics;
  readonly #changes: TopicChanges;

  constructor(parts: ArchiveParts) {
    this.#context = parts.context;
    this.#topics = parts.topics;
    this.#changes = parts.changes;
  }

  /** Whether it could be made now. @throws LinkError, ClusterError */
  async check(archive: Archive): Promise<void> {
    const { failed, name } = archive;
    if (this.#changes.record(name) !== undefined) throw existsAlready(name);
    if (failed.stopping !== undefined) {
      const message = `A failover of '${failed.name}' is not undone yet: try again`;
      throw new LinkError('ILLEGAL_STATE', message);
    }
    await createShell(this.#context.destination, { ...shellOf(archive), validateOnly: true });
  }

  /**
   * The record of the archive, to be committed in the transaction that takes the copy from its
   * mirror, whose fetching has stopped. @throws LinkError, ClusterError, StorageError, StateError
   */
  async begin(archive: Archive): Promise<TopicRecord> {
    const { state, destination } = this.#context;
    await this.#changes.commit([{ put: this.#gate(archive) }]);
    state.lease.check();
    const told = await createShell(destination, { ...shellOf(archive), validateOnly: false });
    const topicId = told === zeroUuid ? await this.#idOf(archive.name) : told;
    const closed = await this.#close(archive, topicId);
    const { auto: _auto, fence: _fence, unseenCleaning: _unseen, ...kept } = archive.failed;
    return {
      ...this.#changes.next(kept, 'failover', {
        partitions: splicedPartitions(closed),
        stoppedBy: 'failover',
      }),
      name: archive.name,
      topicId,
      logTopicId: logTopicIdOf(archive.failed) ?? topicId,
    };
  }

  /** Nobody may write to the topic before the copy is its history. */
  #gate({ name, failed, creating }: Archive): TopicRecord {
    const { link, linkId, sourceTopic, sourceTopicId, partitions, syncedConfigs } = failed;
    return {
      kind: 'topic',
      name,
      topicId: null,
      link,
      ...(linkId === undefined ? {} : { linkId }),
      sourceTopic,
      sourceTopicId,
      state: 'PENDING_MIRROR',
      stateTimeMs: this.#context.clock.unixMs(),
      error: null,
      partitions: [],
      stoppedBy: null,
      creating: { ...creating, archivedPartitions: partitions.length },
      ...(syncedConfigs === undefined ? {} : { syncedConfigs }),
    };
  }

  async #idOf(name: string): Promise<string> {
    const info = (await this.#context.destination.metadata([name])).topics.get(name);
    if (info !== undefined && info.topicId !== zeroUuid) return info.topicId;
    throw new LinkError('NOT_SUPPORTED', 'The destination has no topic ids (Kafka 2.8 or later)');
  }

  /** Measured against the archive's shell; transactions that are open end with ABORT batches. */
  async #close({ failed, name }: Archive, topicId: string): Promise<SwitchTopic> {
    const { state, destination, clock } = this.#context;
    const topic = this.#topics.byName(failed.name);
    if (topic === undefined) throw new LinkError('MIRROR_NOT_FOUND', `No mirror '${failed.name}'`);
    const measured = await measureSwitch(destination, [topic], {
      flush: true,
      written: 'refuse',
      shells: new Map([[failed.name, { name, topicId }]]),
    });
    const [refused] = measured.refused.values();
    if (refused !== undefined) throw refused;
    const [ready] = measured.ready;
    if (ready === undefined) throw new TypeError(`'${failed.name}' was not measured`);
    if (hasOpenTransactions(ready)) {
      // As of a failover: if this goes no further, it is undone as one.
      const stopping = { command: 'failover' as const, actor: 'causeway', deadlineTimeMs: -1 };
      const cut = { ...failed, stopping: { ...stopping, cuts: cutsOf(ready) } };
      await this.#changes.commit([{ put: cut }]);
      state.lease.check();
      await appendAborts(ready, clock.unixMs());
    }
    if (!hasMoved(ready)) return ready;
    throw new LinkError('ILLEGAL_STATE', `The copy of '${failed.name}' moved: try again`);
  }

  /**
   * After a failure, and after a crash: the gate goes, and the shell if it is ours, as long as the
   * archive is not on record. What cannot be undone now stays gated, and is tried again by the next
   * look at the link.
   */
  async undo(name: string): Promise<void> {
    const { state, destination, events } = this.#context;
    const gate = this.#changes.record(name);
    const partitionsCount = gate?.creating?.archivedPartitions;
    if (gate?.topicId !== null || partitionsCount === undefined) return;
    state.lease.check();
    if (!state.isSettled || state.isInDoubt(name)) {
      throw new StateError('IN_DOUBT', 'whether it was archived is not known yet');
    }
    const info = (await destination.metadata([name])).topics.get(name);
    if (info !== undefined && info.errorCode !== ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) {
      const foreign = await whyForeign(destination, info, { intent: gate, partitionsCount });
      if (foreign === null) await deleteShell(this.#context, info);
    }
    await this.#changes.commit([{ delete: `topic/${name}` }]);
    events.warn(
      'mirror_archive_undone',
      `The copy of '${gate.sourceTopic}' was not archived as '${name}': it stays what it was`,
      { topic: name, link: gate.link },
    );
  }

  /** As `undo`, where a failure is told already. */
  async tryUndo(name: string): Promise<void> {
    try {
      await this.undo(name);
    } catch (error) {
      if (!isOperatingError(error)) throw error;
      this.#context.events.warn(
        'mirror_archive_pending',
        `'${name}' is gated until the attempt to archive is undone: ${error.message}`,
        { topic: name },
      );
    }
  }
}

function shellOf({ name, failed, creating }: Archive): NewShell {
  return {
    name,
    partitionsCount: failed.partitions.length,
    replicationFactor: creating.replicationFactor,
    configs: shellConfigs(failed.syncedConfigs ?? {}, creating.configs),
  };
}

// The mirror logs of topics that have left the state: deleted, also when a crash comes between, and
// told where nobody has meant them to go. Owns the note of it in the state; refuses to know why a
// topic leaves. Invariants: logs are deleted only on a note that was committed together with what
// took their topic off the record; logs of which the state knows nothing are named and left alone,
// since the state may be an older one than they are.
import { StorageError } from '../../../storage/errors.ts';
import { logTopicIdOf } from '../../state/records.ts';
import type { StateChange } from '../../state/state.ts';
import { StateError } from '../../state/state.ts';
import type { LinkContext } from '../context.ts';
import { forEachLimited, NameLocks } from '../signal.ts';
import type { MirrorTopics } from './mirror-topics.ts';
import type { TopicChanges } from './topic-changes.ts';

const topicsNamed = 5;
const removalsInFlight = 8;

/** To be committed together with what takes the topic, or this id of it, off the record. */
export function logRemoval(topicId: string | null): readonly StateChange[] {
  return topicId === null ? [] : [{ put: { kind: 'log-removal', topicId } }];
}

export interface LogRemovalsParts {
  readonly context: LinkContext;
  readonly topics: MirrorTopics;
  readonly changes: TopicChanges;
}

export class LogRemovals {
  readonly #parts: LogRemovalsParts;
  /** Who has ended a topic and the regular look do it one after the other. */
  readonly #turns = new NameLocks();
  /** By topic id, what was told of logs that cannot be deleted. */
  readonly #told = new Map<string, string>();
  #isLookedThrough = false;

  constructor(parts: LogRemovalsParts) {
    this.#parts = parts;
  }

  /**
   * The note is committed. Returns whether there was anything left to do.
   * @throws StorageError when a log cannot be deleted: it is tried again; StateError
   */
  async carryOut(topicId: string | null): Promise<boolean> {
    if (topicId === null) return false;
    const { context, topics, changes } = this.#parts;
    return this.#turns.run(topicId, async () => {
      if (!context.state.view.logRemovals.has(topicId)) return false;
      context.state.lease.check();
      await topics.deleteLogs(topicId);
      await changes.commit([{ delete: `log-removal/${topicId}` }]);
      this.#told.delete(topicId);
      return true;
    });
  }

  /** What a crash, or a log that could not be deleted, has left to be done. */
  async resume(): Promise<void> {
    const { view } = this.#parts.context.state;
    await forEachLimited([...view.logRemovals.keys()], removalsInFlight, (topicId) =>
      this.#again(topicId),
    );
    if (!this.#isLookedThrough) await this.#lookThrough();
  }

  async #again(topicId: string): Promise<void> {
    const { context } = this.#parts;
    try {
      if (!(await this.carryOut(topicId))) return;
      const message = `The mirror logs of a topic that is gone (id ${topicId}) are deleted`;
      context.events.info('mirror_logs_removed', message, { topicId });
    } catch (error) {
      if (!(error instanceof StorageError || error instanceof StateError)) throw error;
      if (this.#told.get(topicId) === error.message) return;
      this.#told.set(topicId, error.message);
      const message = `Mirror logs of a topic that is gone cannot be deleted: ${error.message}`;
      context.events.warn('mirror_logs_left', message, { topicId });
    }
  }

  /** Once: while a shell is being made, its logs are there before the state knows its id. */
  async #lookThrough(): Promise<void> {
    const { state, storage, events } = this.#parts.context;
    const ids = await storage.list();
    const records = [...state.view.topics.values()];
    if (records.some((record) => record.state === 'PENDING_MIRROR')) return;
    this.#isLookedThrough = true;
    const known = new Set(records.map(logTopicIdOf));
    const unknown = ids
      .map(({ topicId }) => topicId)
      .filter((topicId) => !known.has(topicId) && !state.view.logRemovals.has(topicId));
    const topicIds = [...new Set(unknown)];
    if (topicIds.length === 0) return;
    const named = topicIds.slice(0, topicsNamed).join(', ');
    const more = topicIds.length > topicsNamed ? ', ...' : '';
    events.warn(
      'mirror_logs_unowned',
      `There are mirror logs of ${topicIds.length} topics that the state does not know (ids ` +
        `${named}${more}). They are left as they are: if the state was restored from an older ` +
        'export, what they belong to is missing from it',
      { topics: topicIds.length, logs: unknown.length },
    );
  }
}

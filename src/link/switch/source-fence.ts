// Denies WRITE on the source topic while it is promoted, when the operator asks for it. Owns the
// one ACL that this takes, and its way back. Refuses to know when a promotion is right.
// Invariants: what is to be undone is on record before it is made; only an ACL that was not there
// before is ever removed; a promotion that ends in any way but its switch leaves no denial
// behind, also when that takes a restart or the source's return. A topic's lock is held for its
// record only, never while the source is asked: a failover must not wait for a source that hangs.
import { ClusterError } from '../../cluster/cluster.ts';
import type { Acl, TopicRecord } from '../../state/records.ts';
import { StateError } from '../../state/state.ts';
import { aclKey } from '../../tasks/acl-diff.ts';
import {
  operations,
  patternTypes,
  permissionTypes,
  resourceTypes,
} from '../../tasks/acl-filters.ts';
import { createAcls, deleteAcls, readAcls } from '../../tasks/acl-requests.ts';
import { TaskError } from '../../tasks/sync-task.ts';
import type { LinkContext } from '../context.ts';
import type { LinkRuntime } from '../link.ts';
import { LinkError } from '../link-error.ts';
import type { TopicChanges } from '../mirror/topic-changes.ts';
import { messageOf, NameLocks, Signal } from '../signal.ts';
import { type Blocking, blocking } from './blocking.ts';

const takeBackMs = 5_000;

export interface SourceFenceParts {
  readonly context: LinkContext;
  readonly changes: TopicChanges;
  /** The one that made the topic; undefined when it is gone. */
  readonly link: (record: TopicRecord) => LinkRuntime | undefined;
}

function denial(sourceTopic: string): Acl {
  return {
    resourceType: resourceTypes.topic,
    resourceName: sourceTopic,
    patternType: patternTypes.literal,
    principal: 'User:*',
    host: '*',
    operation: operations.write,
    permissionType: permissionTypes.deny,
  };
}

/** Also while a failover overtakes the promotion: once it is committed, it stays. */
function isWanted({ state, stopping }: TopicRecord): boolean {
  const isGoingOn = stopping?.fenceSource === true || stopping?.command === 'failover';
  return state === 'STOPPED' || (state === 'PENDING_STOPPED' && isGoingOn);
}

function isExpected(error: unknown): boolean {
  return error instanceof TaskError || error instanceof ClusterError || error instanceof StateError;
}

export class SourceFence {
  readonly #parts: SourceFenceParts;
  /** What is done at the source for one topic is done one after the other. */
  readonly #turns = new NameLocks();
  /** Made, or made once more after a restart, by this process. */
  readonly #raised = new Set<string>();
  readonly #lowering = new Map<string, Promise<void>>();
  readonly #told = new Map<string, string>();

  constructor(parts: SourceFenceParts) {
    this.#parts = parts;
  }

  /** @throws LinkError SOURCE_UNAUTHORIZED when it certainly cannot be done; ClusterError */
  async check(record: TopicRecord): Promise<void> {
    try {
      await this.#isThere(record, denial(record.sourceTopic));
    } catch (error) {
      if (!(error instanceof TaskError)) throw error;
      const message = `The source cannot be fenced: ${error.message}`;
      throw new LinkError('SOURCE_UNAUTHORIZED', message, { cause: error });
    }
  }

  /** Empty: it stands, or is not asked for. @throws ClusterError, StateError */
  async raise(name: string): Promise<readonly Blocking[]> {
    return this.#turns.run(name, async () => {
      const record = this.#asking(name);
      if (record === null) return [];
      // Without a note of it in the record it was another mirror of this name.
      if (record.fence !== undefined && this.#raised.has(name)) return [];
      try {
        const acls = record.fence?.acls ?? (await this.#note(record));
        // A cancel may have come meanwhile: what is on record is lowered then.
        if (acls === null || this.#asking(name) === null) return [];
        if (acls.length > 0) await this.#make(record, acls);
        this.#raised.add(name);
        return [];
      } catch (error) {
        if (!(error instanceof TaskError)) throw error;
        return [blocking('SOURCE_FENCE_REFUSED', error.message)];
      }
    });
  }

  /** Begins to undo what stands without reason; each topic by itself, in the background. */
  lowerStale(): void {
    for (const record of this.#parts.context.state.view.topics.values()) {
      const { name, fence } = record;
      if (fence === undefined || isWanted(record) || this.#lowering.has(name)) continue;
      const lowering = this.#lower(name)
        .catch((error: unknown) => this.#tell(name, error))
        .finally(() => this.#lowering.delete(name));
      this.#lowering.set(name, lowering);
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#lowering.values());
  }

  async #source(record: TopicRecord) {
    const runtime = this.#parts.link(record);
    if (runtime !== undefined) return runtime.connected();
    throw new TaskError('LINK_NOT_FOUND', `link '${record.link}' is gone`);
  }

  async #isThere(record: TopicRecord, acl: Acl): Promise<boolean> {
    const found = await readAcls(await this.#source(record), acl, 'source');
    return found.some((one) => aclKey(one) === aclKey(acl));
  }

  #asking(name: string): TopicRecord | null {
    const record = this.#parts.changes.record(name);
    return record?.stopping?.fenceSource === true ? record : null;
  }

  /**
   * What somebody else has denied is not ours to allow again. Null: it is not asked for any more.
   */
  async #note(asking: TopicRecord): Promise<readonly Acl[] | null> {
    const { changes, context } = this.#parts;
    const { name } = asking;
    const acl = denial(asking.sourceTopic);
    const acls = (await this.#isThere(asking, acl)) ? [] : [acl];
    return changes.locks.run(name, async () => {
      const record = this.#asking(name);
      if (record === null) return null;
      context.state.lease.check();
      await changes.commit([{ put: { ...record, fence: { acls } } }]);
      return acls;
    });
  }

  async #make(record: TopicRecord, acls: readonly Acl[]): Promise<void> {
    const source = await this.#source(record);
    this.#parts.context.state.lease.check();
    const [problem = null] = await createAcls(source, acls, 'source');
    if (problem !== null) throw new TaskError(problem.code, problem.message);
    this.#parts.context.events.info(
      'source_fenced',
      `WRITE on '${record.sourceTopic}' is denied at the source until '${record.name}' is promoted`,
      { topic: record.name, link: record.link, actor: record.stopping?.actor ?? 'causeway' },
    );
  }

  /** Of a topic that was switched, on demand. @throws LinkError, ClusterError */
  async unfence(name: string, actor: string): Promise<void> {
    await this.#turns.run(name, async () => {
      if (this.#parts.changes.record(name)?.state !== 'STOPPED') {
        const message = `Topic '${name}' was not switched: what it denies is undone by itself`;
        throw new LinkError('ILLEGAL_STATE', message);
      }
      try {
        await this.#takeDown(name, actor);
      } catch (error) {
        if (!(error instanceof TaskError)) throw error;
        throw new LinkError('SOURCE_UNAUTHORIZED', error.message, { cause: error });
      }
    });
  }

  /**
   * Before topics or their link go: takes back what was denied for them, as far as their sources
   * answer within some seconds. Returns, by topic, why a denial stands yet.
   */
  async takeBack(names: readonly string[], actor: string): Promise<ReadonlyMap<string, string>> {
    const left = new Map<string, string>(names.map((name) => [name, 'the source does not answer']));
    const limit = new Signal();
    const work = names.map((name) =>
      this.#turns
        .run(name, () => this.#takeDown(name, actor))
        .then(() => left.delete(name))
        .catch((error: unknown) => {
          if (!isExpected(error)) this.#tell(name, error);
          left.set(name, messageOf(error));
        }),
    );
    void Promise.all(work).then(() => limit.notify());
    await limit.wait(takeBackMs);
    return new Map(left);
  }

  #lower(name: string): Promise<void> {
    return this.#turns.run(name, async () => {
      const record = this.#parts.changes.record(name);
      if (record === undefined || isWanted(record)) return;
      await this.#takeDown(name, 'causeway');
    });
  }

  async #takeDown(name: string, actor: string): Promise<void> {
    const { changes, context } = this.#parts;
    const record = changes.record(name);
    if (record?.fence === undefined) return;
    const { link, fence, sourceTopic } = record;
    this.#raised.delete(name);
    if (fence.acls.length > 0) {
      const source = await this.#source(record);
      context.state.lease.check();
      const problems = await deleteAcls(source, fence.acls, 'source');
      const problem = problems.find((one) => one !== null) ?? null;
      if (problem !== null) throw new TaskError(problem.code, problem.message);
    }
    await changes.locks.run(name, async () => {
      const now = changes.record(name);
      if (now?.fence === undefined) return;
      const { fence: _fence, ...rest } = now;
      context.state.lease.check();
      await changes.commit([{ put: rest }]);
    });
    this.#told.delete(name);
    const message = `WRITE on '${sourceTopic}' is at the source as it was before`;
    context.events.info('source_fence_lowered', message, { topic: name, link, actor });
  }

  #tell(name: string, error: unknown): void {
    const { events } = this.#parts.context;
    const message = `the DENY of WRITE at the source of '${name}' stands yet: ${messageOf(error)}`;
    if (this.#told.get(name) === message) return;
    this.#told.set(name, message);
    events.emit(isExpected(error) ? 'warn' : 'error', 'source_fence_pending', message, {
      topic: name,
    });
  }
}

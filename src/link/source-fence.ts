// Denies WRITE on the source topic while it is promoted, when the operator asks for it. Owns the
// one ACL that this takes, and its way back. Refuses to know when a promotion is right.
// Invariants: what is to be undone is on record before it is made; only an ACL that was not there
// before is ever removed; a promotion that ends in any way but its switch leaves no denial behind,
// also when that takes a restart or the source's return.
import { ClusterError } from '../cluster/cluster.ts';
import type { Acl, TopicRecord } from '../state/records.ts';
import { StateError } from '../state/state.ts';
import { aclKey } from '../tasks/acl-diff.ts';
import { operations, patternTypes, permissionTypes, resourceTypes } from '../tasks/acl-filters.ts';
import { createAcls, deleteAcls, readAcls } from '../tasks/acl-requests.ts';
import { TaskError } from '../tasks/sync-task.ts';
import { type Blocking, blocking } from './blocking.ts';
import type { LinkContext } from './context.ts';
import type { LinkRuntime } from './link.ts';
import { LinkError } from './service.ts';
import { messageOf } from './signal.ts';
import type { TopicChanges } from './topic-changes.ts';

export interface SourceFenceParts {
  readonly context: LinkContext;
  readonly changes: TopicChanges;
  /** Undefined when the link is gone. */
  readonly link: (name: string) => LinkRuntime | undefined;
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

function isWanted({ state, stopping }: TopicRecord): boolean {
  return state === 'STOPPED' || (state === 'PENDING_STOPPED' && stopping?.fenceSource === true);
}

export class SourceFence {
  readonly #parts: SourceFenceParts;
  /** Made, or made once more after a restart, by this process. */
  readonly #raised = new Set<string>();
  readonly #lowering = new Map<string, Promise<void>>();
  readonly #told = new Map<string, string>();

  constructor(parts: SourceFenceParts) {
    this.#parts = parts;
  }

  /** @throws LinkError SOURCE_UNAUTHORIZED when it certainly cannot be done; ClusterError */
  async check({ link, sourceTopic }: TopicRecord): Promise<void> {
    try {
      await this.#isThere(link, denial(sourceTopic));
    } catch (error) {
      if (!(error instanceof TaskError)) throw error;
      const message = `The source cannot be fenced: ${error.message}`;
      throw new LinkError('SOURCE_UNAUTHORIZED', message, { cause: error });
    }
  }

  /** Empty: it stands, or is not asked for. @throws ClusterError, StateError */
  async raise(name: string): Promise<readonly Blocking[]> {
    return this.#parts.changes.locks.run(name, async () => {
      const record = this.#parts.changes.record(name);
      if (record?.stopping?.fenceSource !== true || this.#raised.has(name)) return [];
      try {
        const acls = record.fence?.acls ?? (await this.#note(record));
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

  async #source(link: string) {
    const runtime = this.#parts.link(link);
    if (runtime === undefined) throw new TaskError('LINK_NOT_FOUND', `link '${link}' is gone`);
    return runtime.connected();
  }

  async #isThere(link: string, acl: Acl): Promise<boolean> {
    const found = await readAcls(await this.#source(link), acl, 'source');
    return found.some((one) => aclKey(one) === aclKey(acl));
  }

  /** What somebody else has denied is not ours to allow again. */
  async #note(record: TopicRecord): Promise<readonly Acl[]> {
    const { changes, context } = this.#parts;
    const acl = denial(record.sourceTopic);
    const acls = (await this.#isThere(record.link, acl)) ? [] : [acl];
    context.state.lease.check();
    await changes.commit([{ put: { ...record, fence: { acls } } }]);
    return acls;
  }

  async #make(record: TopicRecord, acls: readonly Acl[]): Promise<void> {
    const source = await this.#source(record.link);
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
    await this.#parts.changes.locks.run(name, async () => {
      const record = this.#parts.changes.record(name);
      if (record?.state !== 'STOPPED') {
        const message = `Topic '${name}' was not switched: what it denies is undone by itself`;
        throw new LinkError('ILLEGAL_STATE', message);
      }
      try {
        await this.#takeDown(record, actor);
      } catch (error) {
        if (!(error instanceof TaskError)) throw error;
        throw new LinkError('SOURCE_UNAUTHORIZED', error.message, { cause: error });
      }
    });
  }

  #lower(name: string): Promise<void> {
    const { changes } = this.#parts;
    return changes.locks.run(name, async () => {
      const record = changes.record(name);
      if (record === undefined || isWanted(record)) return;
      await this.#takeDown(record, 'causeway');
    });
  }

  async #takeDown(record: TopicRecord, actor: string): Promise<void> {
    const { changes, context } = this.#parts;
    const { fence, ...rest } = record;
    const { name } = record;
    if (fence === undefined) return;
    this.#raised.delete(name);
    if (fence.acls.length > 0) {
      const source = await this.#source(record.link);
      context.state.lease.check();
      const problems = await deleteAcls(source, fence.acls, 'source');
      const problem = problems.find((one) => one !== null) ?? null;
      if (problem !== null) throw new TaskError(problem.code, problem.message);
    }
    await changes.commit([{ put: rest }]);
    this.#told.delete(name);
    const message = `WRITE on '${record.sourceTopic}' is at the source as it was before`;
    context.events.info('source_fence_lowered', message, { topic: name, link: record.link, actor });
  }

  #tell(name: string, error: unknown): void {
    const isExpected =
      error instanceof TaskError || error instanceof ClusterError || error instanceof StateError;
    const { events } = this.#parts.context;
    const message = `the DENY of WRITE at the source of '${name}' stands yet: ${messageOf(error)}`;
    if (this.#told.get(name) === message) return;
    this.#told.set(name, message);
    events.emit(isExpected ? 'warn' : 'error', 'source_fence_pending', message, { topic: name });
  }
}

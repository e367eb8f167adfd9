// Grants of WRITE that a link held back until a topic was switched (`acl.sync.write.hold.enable`):
// promised in the transaction of the switch, made right after it, without the source. Owns the way
// from the promise to the ACL; refuses to know which grants are held back (tasks/acls.ts).
// Invariants: a promise is kept or stays on record, whatever is restarted or refused; each is made
// once, so that what an operator takes away later stays away; the lease is checked before each
// request that changes something; such an ACL is the destination's own, as all of promoted topics.
import { ClusterError } from '../../cluster/cluster.ts';
import type { TopicGrantsRecord, TopicRecord } from '../../state/records.ts';
import { type StateChange, StateError, type StateView } from '../../state/state.ts';
import { aclKey, aclMap, grantsOfTopic } from '../../tasks/acl-diff.ts';
import { anyAcl } from '../../tasks/acl-filters.ts';
import { createAcls, readAcls } from '../../tasks/acl-requests.ts';
import { chunks } from '../../tasks/chunks.ts';
import { TaskError } from '../../tasks/sync-task.ts';
import type { LinkContext } from '../context.ts';
import type { TopicChanges } from '../mirror/topic-changes.ts';
import { messageOf } from '../signal.ts';

const topicsAtOnce = 200;
const aclsPerRequest = 200;

/** What is to be committed together with the switch of these topics. */
export function promisedGrants(
  view: StateView,
  switched: readonly TopicRecord[],
): readonly TopicGrantsRecord[] {
  return switched.flatMap(({ name, link }) => {
    const isSynced = view.links.get(link)?.configs['acl.sync.enable']?.toLowerCase() === 'true';
    const held = isSynced ? (view.linkAcls.get(link)?.held ?? []) : [];
    const acls = grantsOfTopic(held, name);
    return acls.length === 0 ? [] : [{ kind: 'topic-grants' as const, topic: name, link, acls }];
  });
}

export class WriteGrants {
  readonly #context: LinkContext;
  readonly #changes: TopicChanges;
  #underWay: Promise<void> | null = null;
  #isClosed = false;
  #told = '';
  #unsubscribe: () => void = () => undefined;

  constructor(parts: { context: LinkContext; changes: TopicChanges }) {
    this.#context = parts.context;
    this.#changes = parts.changes;
  }

  /** From now on promises are kept as soon as they are committed. */
  start(): void {
    this.#unsubscribe = this.#context.state.onChange((keys) => {
      if (keys.some((key) => key.startsWith('topic-grants/'))) this.carryOut();
    });
  }

  /** Begins to keep what is promised, in the background; again for what has failed. */
  carryOut(): void {
    const { state } = this.#context;
    if (this.#isClosed || this.#underWay !== null || state.view.topicGrants.size === 0) return;
    if (!state.lease.isValid()) return;
    this.#underWay = this.#run().finally(() => {
      this.#underWay = null;
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#unsubscribe();
    await this.#underWay;
  }

  async #run(): Promise<void> {
    const tried = new Set<string>();
    for (;;) {
      const all = [...this.#context.state.view.topicGrants.values()];
      const due = all.filter(({ topic }) => !tried.has(topic));
      const [first] = due;
      if (first === undefined || this.#isClosed) return;
      const own = due.filter(({ link }) => link === first.link).slice(0, topicsAtOnce);
      for (const { topic } of own) tried.add(topic);
      try {
        await this.#keep(first.link, own);
      } catch (error) {
        this.#tell(error);
      }
    }
  }

  /** @throws ClusterError, StateError, TaskError when the destination refuses */
  async #keep(link: string, promised: readonly TopicGrantsRecord[]): Promise<void> {
    const { destination, state } = this.#context;
    const there = aclMap(await readAcls(destination, anyAcl, 'destination'));
    const wanted = aclMap(promised.flatMap(({ acls }) => acls));
    const missing = [...wanted.values()].filter((acl) => !there.has(aclKey(acl)));
    const refused = new Map<string, string>();
    for (const part of chunks(missing, aclsPerRequest)) {
      state.lease.check();
      const outcomes = await createAcls(destination, part);
      for (const [index, acl] of part.entries()) {
        const problem = outcomes[index] ?? null;
        if (problem !== null) refused.set(aclKey(acl), problem.message);
      }
    }
    const isKept = ({ acls }: TopicGrantsRecord) => acls.every((acl) => !refused.has(aclKey(acl)));
    const kept = promised.filter(isKept);
    const changes: StateChange[] = kept.map(({ topic }) => ({ delete: `topic-grants/${topic}` }));
    if (changes.length > 0) await this.#changes.commit(changes);
    const [message] = refused.values();
    if (message !== undefined) throw new TaskError('INVALID_REQUEST_ERROR', message);
    this.#told = '';
    this.#context.events.info(
      'write_grants_made',
      `Link '${link}': ${missing.length} grants of WRITE on promoted topics were made`,
      { link, count: missing.length },
    );
  }

  #tell(error: unknown): void {
    const isExpected =
      error instanceof TaskError || error instanceof ClusterError || error instanceof StateError;
    const message = `grants of WRITE on promoted topics are not made yet: ${messageOf(error)}`;
    if (this.#told === message) return;
    this.#told = message;
    this.#context.events.emit(isExpected ? 'warn' : 'error', 'write_grants_pending', message);
  }
}

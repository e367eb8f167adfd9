// All links of the state at work, and the commands on links themselves: create, alter, delete. Owns
// the runtimes, which follow the link records; refuses to know mirrors' commands. Invariants: a
// link's source is tried and its cluster id checked before the link is stored or its connection
// settings change.
import { randomBytes } from 'node:crypto';
import { uuidFromBytes } from '../../protocol/index.ts';
import { type Cluster, ClusterError } from '../cluster/cluster.ts';
import { type LinkRecord, nameOfDeleted, type TopicRecord } from '../state/records.ts';
import type { StateChange } from '../state/state.ts';
import type { LinkContext } from './context.ts';
import { LinkRuntime } from './link.ts';
import { LinkError } from './link-error.ts';
import type { MirrorTopics } from './mirror/mirror-topics.ts';
import type { TopicChanges } from './mirror/topic-changes.ts';
import type { CreateLink } from './service.ts';
import {
  changedConfigs,
  checkLinkName,
  needsReconnect,
  parseLinkSettings,
} from './settings/link-settings.ts';
import { messageOf, NameLocks } from './signal.ts';

/** They look at once when the link's settings have changed. */
export interface WakingTask {
  start(): void;
  close(): Promise<void>;
  wake(): void;
}

/** A link and what runs beside it. */
export interface LinkEntry<Tasks extends WakingTask> {
  readonly runtime: LinkRuntime;
  readonly tasks: Tasks;
}

export class Links<Tasks extends WakingTask> {
  readonly #context: LinkContext;
  readonly #topics: MirrorTopics;
  readonly #changes: TopicChanges;
  readonly #makeTasks: (runtime: LinkRuntime) => Tasks;
  readonly #entries = new Map<string, LinkEntry<Tasks>>();
  readonly #locks = new NameLocks();
  readonly #ending = new Set<Promise<void>>();
  #unsubscribe: (() => void)[] = [];

  constructor(parts: {
    context: LinkContext;
    topics: MirrorTopics;
    changes: TopicChanges;
    makeTasks: (runtime: LinkRuntime) => Tasks;
  }) {
    this.#context = parts.context;
    this.#topics = parts.topics;
    this.#changes = parts.changes;
    this.#makeTasks = parts.makeTasks;
  }

  start(): void {
    const { state } = this.#context;
    for (const record of state.view.links.values()) this.#begin(record);
    this.#unsubscribe = [
      state.onChange((keys) => {
        for (const key of keys) {
          if (key.startsWith('link/')) this.#follow(key.slice('link/'.length));
        }
      }),
      this.#topics.onChange((topic) => this.#syncTopic(topic)),
    ];
  }

  async close(): Promise<void> {
    for (const unsubscribe of this.#unsubscribe) unsubscribe();
    const entries = [...this.#entries.values()];
    this.#entries.clear();
    await Promise.all([...entries.map((entry) => this.#end(entry)), ...this.#ending]);
  }

  entry(name: string): LinkEntry<Tasks> | undefined {
    return this.#entries.get(name);
  }

  /** Of the link that made a topic; another one that has its name now is none of its. */
  of({ link, linkId }: Pick<TopicRecord, 'link' | 'linkId'>): LinkEntry<Tasks> | undefined {
    const entry = this.#entries.get(link);
    const isOther = linkId !== undefined && entry?.runtime.record.linkId !== linkId;
    return isOther ? undefined : entry;
  }

  /** Whether a command or a list for the link of this name is about the topic too. */
  isOf(record: Pick<TopicRecord, 'link' | 'linkId'>, link: string): boolean {
    return record.link === link && this.of(record) !== undefined;
  }

  get entries(): Iterable<LinkEntry<Tasks>> {
    return this.#entries.values();
  }

  /** @throws LinkError LINK_NOT_FOUND */
  runtime(name: string): LinkRuntime {
    const entry = this.#entries.get(name);
    if (entry === undefined) throw new LinkError('LINK_NOT_FOUND', `There is no link '${name}'`);
    return entry.runtime;
  }

  async create(request: CreateLink): Promise<LinkRecord> {
    checkLinkName(request.name);
    const settings = parseLinkSettings(request.configs);
    return this.#locks.run(request.name, async () => {
      if (this.#context.state.view.links.has(request.name)) {
        throw new LinkError('LINK_EXISTS', `Cluster link '${request.name}' already exists.`);
      }
      this.#checkOrphans(request.name);
      const draft: LinkRecord = {
        kind: 'link',
        name: request.name,
        linkId: uuidFromBytes(randomBytes(16)),
        sourceClusterId: request.sourceClusterId ?? '',
        configs: request.configs,
        paused: settings.paused,
        createdTimeMs: this.#context.clock.unixMs(),
      };
      const sourceClusterId = await this.#tryRecord(draft);
      const record = { ...draft, sourceClusterId };
      if (request.validateOnly) return record;
      await this.#changes.commit([{ put: record }]);
      this.#context.events.info('link_created', `Link '${record.name}' was created`, {
        link: record.name,
        actor: request.actor,
        sourceClusterId,
      });
      return record;
    });
  }

  async alter(
    name: string,
    changes: readonly { name: string; value: string | null }[],
    options: { validateOnly: boolean; actor: string },
  ): Promise<LinkRecord> {
    return this.#locks.run(name, async () => {
      const before = this.#context.state.view.links.get(name);
      if (before === undefined) throw new LinkError('LINK_NOT_FOUND', `There is no link '${name}'`);
      const configs = changedConfigs(before.configs, changes);
      const { paused } = parseLinkSettings(configs);
      const after: LinkRecord = { ...before, configs, paused };
      if (needsReconnect(before.configs, configs)) await this.#tryRecord(after);
      if (options.validateOnly) return after;
      await this.#changes.commit([{ put: after }]);
      this.#context.events.info('link_altered', `Settings of link '${name}' were changed`, {
        link: name,
        actor: options.actor,
        settings: changes.map((change) => change.name).join(','),
      });
      return after;
    });
  }

  async delete(
    name: string,
    options: { force: boolean; validateOnly: boolean; actor: string },
  ): Promise<void> {
    await this.#locks.run(name, async () => {
      const record = this.#context.state.view.links.get(name);
      if (record === undefined) {
        throw new LinkError('LINK_NOT_FOUND', `There is no link '${name}'`);
      }
      const live = liveOf(this.#context.state.view.topics.values(), name);
      if (live.length > 0 && !options.force) {
        throw new LinkError('LINK_IN_USE', `Link '${name}' has ${mirrorsText(live)}`);
      }
      if (options.validateOnly) return;
      const changes: StateChange[] = [{ delete: `link/${name}` }];
      const { linkAcls, shareGroups, handovers, sourcesSeen } = this.#context.state.view;
      if (linkAcls.has(name)) changes.push({ delete: `link-acls/${name}` });
      // The ACLs themselves stay: no link may delete them from now on, an uninstall may.
      const acls = linkAcls.get(name)?.acls ?? [];
      if (acls.length > 0) {
        changes.push({ put: { kind: 'link-acls', link: nameOfDeleted(record), acls } });
      }
      if (shareGroups.has(name)) changes.push({ delete: `share-groups/${name}` });
      if (handovers.has(name)) changes.push({ delete: `handovers/${name}` });
      if (sourcesSeen.has(name)) changes.push({ delete: `source-seen/${name}` });
      await this.#changes.commit(changes);
      this.#context.events.info('link_deleted', `Link '${name}' was deleted`, {
        link: name,
        actor: options.actor,
        liveMirrors: live.length,
      });
    });
  }

  /** Mirrors of a deleted link are not to be fetched from whatever has its name next. */
  #checkOrphans(name: string): void {
    const left = liveOf(this.#context.state.view.topics.values(), name);
    if (left.length === 0) return;
    const message =
      `A deleted link '${name}' has left ${mirrorsText(left)}: fail them over or delete them, ` +
      'or give the new link another name';
    throw new LinkError('LINK_IN_USE', message);
  }

  /** Connects once with these settings. Returns the source's cluster id. */
  async #tryRecord(record: LinkRecord): Promise<string> {
    let cluster: Cluster | null = null;
    try {
      cluster = await this.#context.connectSource(record);
      const { clusterId } = await cluster.metadata([]);
      const own = (await this.#context.destination.metadata([])).clusterId;
      return checkedClusterId({ found: clusterId, wanted: record.sourceClusterId, own });
    } catch (error) {
      if (!(error instanceof ClusterError)) throw error;
      throw new LinkError(
        error.code === 'AUTHENTICATION' ? 'SOURCE_UNAUTHORIZED' : 'SOURCE_UNREACHABLE',
        `The source of link '${record.name}' cannot be reached: ${error.message}`,
        { cause: error },
      );
    } finally {
      await cluster?.close();
    }
  }

  #begin(record: LinkRecord): void {
    const runtime = new LinkRuntime({
      context: this.#context,
      topics: this.#topics,
      changes: this.#changes,
      record,
    });
    const tasks = this.#makeTasks(runtime);
    this.#entries.set(record.name, { runtime, tasks });
    runtime.start();
    tasks.start();
  }

  async #end(entry: LinkEntry<Tasks>): Promise<void> {
    await Promise.all([entry.tasks.close(), entry.runtime.close()]);
  }

  #inBackground(work: Promise<void>): void {
    const run = work.catch((error: unknown) => {
      this.#context.events.error('link_fault', messageOf(error));
    });
    this.#ending.add(run);
    void run.finally(() => this.#ending.delete(run));
  }

  #follow(name: string): void {
    const record = this.#context.state.view.links.get(name);
    const entry = this.#entries.get(name);
    if (record === undefined) {
      this.#entries.delete(name);
      if (entry !== undefined) this.#inBackground(this.#end(entry));
    } else if (entry === undefined) this.#begin(record);
    else {
      const update = entry.runtime.update(record).then(() => entry.tasks.wake());
      this.#inBackground(update);
    }
  }

  #syncTopic(topic: string): void {
    const link = this.#topics.byName(topic)?.link;
    for (const { runtime } of this.#entries.values()) {
      if (link === undefined || runtime.name === link) runtime.sync(topic);
    }
  }
}

function liveOf(records: Iterable<TopicRecord>, link: string): readonly TopicRecord[] {
  return [...records].filter((topic) => topic.link === link && topic.state !== 'STOPPED');
}

function mirrorsText(live: readonly TopicRecord[]): string {
  const [first] = live;
  const others = live.length > 1 ? ` and ${live.length - 1} more` : '';
  return `mirrors that are not stopped: '${first?.name}'${others}`;
}

function checkedClusterId(ids: {
  found: string | null;
  wanted: string;
  own: string | null;
}): string {
  const { found, wanted, own } = ids;
  if (found === null) {
    throw new LinkError('CLUSTER_ID_MISMATCH', 'The source does not tell its cluster id');
  }
  if (wanted !== '' && found !== wanted) {
    throw new LinkError(
      'CLUSTER_ID_MISMATCH',
      `The source's cluster id is '${found}', not '${wanted}' (source_cluster_id)`,
    );
  }
  if (found === own) {
    throw new LinkError('CLUSTER_ID_MISMATCH', `The source is the destination itself (${found})`);
  }
  return found;
}

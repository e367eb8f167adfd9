// What operators can do with links and mirrors, as the admin API calls it. Owns the deletion of a
// mirror; everything else is done elsewhere, and it refuses to know how. Invariant: every error is
// a LinkError with a code.
import { ClusterError } from '../cluster/cluster.ts';
import { logTopicIdOf, type ReceiptRecord, type TopicRecord } from '../state/records.ts';
import type { LinkTasks } from '../tasks/link-tasks.ts';
import type { LinkContext } from './context.ts';
import { listLeftovers } from './leftovers.ts';
import type { LinkRuntime } from './link.ts';
import { LinkError } from './link-error.ts';
import type { Links } from './links.ts';
import type { MirrorCreator } from './mirror/create-mirror.ts';
import { isFenced, tellFenceLeft } from './mirror/fence-left.ts';
import { type LogRemovals, logRemoval } from './mirror/log-removals.ts';
import { isFetching } from './mirror/mirror-state.ts';
import type { MirrorTopic, MirrorTopics } from './mirror/mirror-topics.ts';
import { deleteShell } from './mirror/shell-topic.ts';
import type { TopicChanges } from './mirror/topic-changes.ts';
import { verifyMirror } from './mirror/verify.ts';
import { asCommand, type MirrorCommands, wholeReceipt } from './mirror-commands.ts';
import type { MirrorStatuses } from './mirror-statuses.ts';
import type {
  CreateLink,
  CreateMirror,
  DetachReport,
  DetachRequest,
  GroupStatus,
  HandoverRequest,
  HandoverStatus,
  Leftover,
  LinkService,
  LinkStatus,
  MirrorCommandRequest,
  MirrorCommandResult,
  MirrorStatus,
  RecentWriters,
  RecreateMirror,
  TaskPlan,
  VerifyRequest,
  VerifyStep,
} from './service.ts';
import { checkLinkName } from './settings/link-settings.ts';
import { linkStatus } from './status.ts';
import type { Detach } from './switch/detach.ts';
import { readTail, type TailLine } from './switch/export-tail.ts';
import { isPromoting, type Promotions } from './switch/promote.ts';
import { recentWriters } from './switch/recent-writers.ts';
import type { SourceFence } from './switch/source-fence.ts';
import type { SwitchedWatch } from './switch/switched-watch.ts';

export interface ServiceParts {
  readonly context: LinkContext;
  readonly topics: MirrorTopics;
  readonly changes: TopicChanges;
  readonly links: Links<LinkTasks>;
  readonly creator: MirrorCreator;
  readonly statuses: MirrorStatuses;
  readonly commands: MirrorCommands;
  readonly detach: Detach;
  readonly fence: SourceFence;
  readonly promotions: Promotions;
  readonly removals: LogRemovals;
  readonly switched: SwitchedWatch;
}

function fencedLink(link: string, topic: string): LinkError {
  const message =
    `For '${topic}' of link '${link}' WRITE is denied at the source: "causeway mirror unfence ` +
    `${topic}" first; with --force it is taken back if the source answers`;
  return new LinkError('LINK_IN_USE', message);
}

export class LinkServiceImpl implements LinkService {
  readonly #parts: ServiceParts;

  constructor(parts: ServiceParts) {
    this.#parts = parts;
  }

  async createLink(request: CreateLink): Promise<LinkStatus> {
    return asCommand(async () => {
      const record = await this.#parts.links.create(request);
      const entry = this.#parts.links.entry(record.name);
      if (entry !== undefined) return this.describeLink(record.name);
      return {
        record,
        linkState: record.paused ? 'PAUSED' : 'ACTIVE',
        linkError: 'NO_ERROR',
        linkErrorMessage: null,
        topicNames: [],
        lastContactTimeMs: -1,
        isContactRecorded: false,
        isAnswering: true,
        rpoSeconds: null,
        isRpoAtMost: false,
        rpoUnknownTopics: [],
        tasks: [],
      };
    });
  }

  listLinks(): readonly LinkStatus[] {
    return [...this.#parts.links.entries].map(({ runtime }) => this.describeLink(runtime.name));
  }

  describeLink(name: string): LinkStatus {
    const entry = this.#parts.links.entry(name);
    if (entry === undefined) throw new LinkError('LINK_NOT_FOUND', `There is no link '${name}'`);
    const topics = [...this.#parts.topics.all].filter((topic) => topic.link === name);
    return linkStatus(entry.runtime, topics, {
      context: this.#parts.context,
      tasks: entry.tasks.statuses,
    });
  }

  async alterLink(
    name: string,
    changes: readonly { name: string; value: string | null }[],
    options: { validateOnly: boolean; actor: string },
  ): Promise<LinkStatus> {
    return asCommand(async () => {
      await this.#parts.links.alter(name, changes, options);
      return this.describeLink(name);
    });
  }

  async deleteLink(
    name: string,
    options: { force: boolean; validateOnly: boolean; actor: string },
  ): Promise<void> {
    checkLinkName(name);
    await asCommand(async () => {
      const { links, context, changes } = this.#parts;
      const fenced = [...context.state.view.topics.values()].filter(
        (record) => record.link === name && isFenced(record),
      );
      const [first] = fenced;
      if (first === undefined) return links.delete(name, options);
      if (!options.force) throw fencedLink(name, first.name);
      await links.delete(name, { ...options, validateOnly: true });
      if (options.validateOnly) return;
      // Without the link nobody could take the denials back.
      const left = await this.#takeBack(fenced, options.actor, `link '${name}' is deleted`);
      await links.delete(name, options);
      for (const [topic, why] of left) {
        const record = changes.record(topic);
        if (record !== undefined) tellFenceLeft(context.events, record, why);
      }
    });
  }

  /** A promotion that is under way would deny WRITE again. */
  async #takeBack(
    records: readonly TopicRecord[],
    actor: string,
    why: string,
  ): Promise<ReadonlyMap<string, string>> {
    const { promotions, fence } = this.#parts;
    for (const record of records) {
      if (isPromoting(record)) await promotions.cancel(record.name, { actor, why });
    }
    const names = records.map(({ name }) => name);
    return fence.takeBack(names, actor);
  }

  async createMirror(request: CreateMirror): Promise<MirrorStatus> {
    return asCommand(async () => {
      const link = this.#parts.links.runtime(request.link);
      const name = await this.#parts.creator.create(link, request);
      if (!request.validateOnly) return this.describeMirror(name);
      return {
        name,
        topicId: null,
        link: request.link,
        sourceTopic: request.sourceTopic,
        state: 'PENDING_MIRROR',
        phase: null,
        stateTimeMs: this.#parts.context.clock.unixMs(),
        error: null,
        stoppedBy: null,
        partitions: [],
        growth: null,
        blocking: [],
        notices: [],
        strayRecords: null,
        lostRanges: [],
        lostTotals: [],
      };
    });
  }

  listMirrors(link?: string): readonly MirrorStatus[] {
    return [...this.#parts.topics.all]
      .filter(({ record }) => link === undefined || this.#parts.links.isOf(record, link))
      .map((topic) => this.#parts.statuses.of(topic));
  }

  describeMirror(topic: string): MirrorStatus {
    const { statuses } = this.#parts;
    return statuses.of(statuses.topic(topic));
  }

  async deleteMirror(
    name: string,
    options: { keepTopic: boolean; validateOnly: boolean; actor: string },
  ): Promise<void> {
    const topic = this.#parts.statuses.topic(name);
    if (topic.record.state === 'STOPPED') {
      throw new LinkError(
        'ILLEGAL_STATE',
        `Topic '${name}' is STOPPED: it is an ordinary topic and is deleted as such`,
      );
    }
    if (options.validateOnly) return;
    await asCommand(async () => {
      await this.#unfence(topic.record, options.actor);
      await this.#deleteMirror(name, options);
    });
  }

  /** The record goes, and with it the knowledge of what was denied. @throws LinkError */
  async #unfence(record: TopicRecord, actor: string): Promise<void> {
    const { changes, context, links } = this.#parts;
    const { name, link } = record;
    if (!isFenced(record) && record.stopping?.fenceSource !== true) return;
    const left = await this.#takeBack([record], actor, 'the mirror is deleted');
    const why = left.get(name);
    if (why === undefined) return;
    if (links.entry(link) !== undefined) {
      const message =
        `WRITE on '${record.sourceTopic}' is denied at the source for '${name}', and that cannot ` +
        `be taken back now: ${why}`;
      throw new LinkError('SOURCE_UNREACHABLE', message);
    }
    tellFenceLeft(context.events, changes.record(name) ?? record, why);
  }

  async recreateMirror(name: string, request: RecreateMirror): Promise<MirrorStatus> {
    const topic = this.#parts.statuses.topic(name);
    return asCommand(async () => {
      const link = this.#parts.links.runtime(topic.link);
      await this.#parts.creator.recreate(link, name, request);
      return this.describeMirror(name);
    });
  }

  command(request: MirrorCommandRequest): Promise<MirrorCommandResult> {
    return this.#parts.commands.run(request);
  }

  detach(request: DetachRequest): Promise<DetachReport> {
    return asCommand(() => this.#parts.detach.run(request));
  }

  unfence(topic: string, { actor }: { readonly actor: string }): Promise<void> {
    const { name } = this.#parts.statuses.topic(topic);
    return asCommand(() => this.#parts.fence.unfence(name, actor));
  }

  leftovers(): Promise<readonly Leftover[]> {
    return asCommand(() => listLeftovers(this.#parts.context));
  }

  recentWriters(names: readonly string[], withinMs: number): Promise<RecentWriters> {
    const { topics, links, context } = this.#parts;
    const byLink = new Map<LinkRuntime, MirrorTopic[]>();
    for (const name of new Set(names)) {
      const topic = topics.byName(name);
      const link = topic === undefined ? undefined : links.entry(topic.link)?.runtime;
      if (topic === undefined || link === undefined) continue;
      const own = byLink.get(link);
      if (own) own.push(topic);
      else byLink.set(link, [topic]);
    }
    return recentWriters(byLink, { sinceMs: context.clock.unixMs() - withinMs });
  }

  async verifyMirror(request: VerifyRequest): Promise<VerifyStep> {
    return asCommand(() => {
      const topic = this.#parts.statuses.topic(request.topic);
      return verifyMirror(topic, this.#parts.links.runtime(topic.link), request);
    });
  }

  listGroups(link: string): readonly GroupStatus[] {
    const entry = this.#parts.links.entry(link);
    if (entry === undefined) throw new LinkError('LINK_NOT_FOUND', `There is no link '${link}'`);
    return [...entry.tasks.groups.status(), ...entry.tasks.groups.shareGroups()];
  }

  async handOver(request: HandoverRequest): Promise<HandoverStatus> {
    const { group, deadlineMs, actor, validateOnly } = request;
    const handovers = this.#handovers(request.link);
    return asCommand(() => handovers.begin(group, { deadlineMs, actor, validateOnly }));
  }

  cancelHandover(link: string, group: string, actor: string): HandoverStatus {
    return this.#handovers(link).cancel(group, actor);
  }

  listHandovers(link: string): readonly HandoverStatus[] {
    return this.#handovers(link).statuses;
  }

  #handovers(link: string) {
    const entry = this.#parts.links.entry(link);
    if (entry === undefined) throw new LinkError('LINK_NOT_FOUND', `There is no link '${link}'`);
    return entry.tasks.handovers;
  }

  async planTasks(link: string): Promise<readonly TaskPlan[]> {
    const entry = this.#parts.links.entry(link);
    if (entry === undefined) throw new LinkError('LINK_NOT_FOUND', `There is no link '${link}'`);
    return asCommand(() => entry.tasks.plan());
  }

  /** A failover of very many topics has several records, shown as one. */
  receipt(id: string): ReceiptRecord | undefined {
    return wholeReceipt(this.#parts.context.state.view.receipts, id);
  }

  async exportTail(name: string): Promise<AsyncIterable<TailLine>> {
    const topic = this.#parts.statuses.topic(name);
    const found = this.#parts.switched.receiptOf(topic);
    if (topic.record.state !== 'STOPPED' || found === null) {
      throw new LinkError('ILLEGAL_STATE', `Topic '${name}' was not switched: it has no tail`);
    }
    const link = this.#parts.statuses.link(topic);
    if (link === undefined) {
      throw new LinkError('LINK_NOT_FOUND', `Link '${topic.link}' is gone: its source is unknown`);
    }
    try {
      return readTail(await link.connected(), topic.record, found.line);
    } catch (error) {
      if (!(error instanceof ClusterError)) throw error;
      throw new LinkError('SOURCE_UNREACHABLE', error.message, { cause: error });
    }
  }

  async #deleteMirror(name: string, options: { keepTopic: boolean; actor: string }): Promise<void> {
    const { context, changes, removals } = this.#parts;
    await changes.locks.run(name, async () => {
      const record = changes.record(name);
      if (record === undefined || record.state === 'STOPPED') return;
      const link = this.#parts.links.entry(record.link)?.runtime;
      await context.state.owned();
      await link?.feeds.hold(name);
      try {
        if (record.topicId !== null && !options.keepTopic) {
          await deleteShell(context, { name, topicId: record.topicId });
        }
        await changes.commit([{ delete: `topic/${name}` }, ...logRemoval(logTopicIdOf(record))]);
      } finally {
        link?.release(name);
      }
      await removals.carryOut(logTopicIdOf(record));
      context.events.info('mirror_deleted', `Mirror '${name}' was deleted`, {
        topic: name,
        link: record.link,
        actor: options.actor,
        keptTopic: options.keepTopic,
        wasFetching: isFetching(record.state),
      });
    });
  }
}

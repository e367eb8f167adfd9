// The commands on links and mirrors, as the admin API calls them. Owns the checks that come before
// a command and the rows that come after; refuses to know how fetching, promotion and failover
// work. Invariant: every error is a LinkError with a code, and a topic's failure is in its own row.
import { randomBytes } from 'node:crypto';
import { StorageError } from '../../storage/errors.ts';
import { ClusterError } from '../cluster/cluster.ts';
import type { ReceiptRecord } from '../state/records.ts';
import type { GroupSync } from '../tasks/groups.ts';
import type { LinkTasks } from '../tasks/link-tasks.ts';
import { type Blocking, blocking } from './blocking.ts';
import type { LinkContext } from './context.ts';
import type { MirrorCreator } from './create-mirror.ts';
import { readTail, type TailLine } from './export-tail.ts';
import type { Failover } from './failover.ts';
import type { LinkRuntime } from './link.ts';
import { checkLinkName } from './link-settings.ts';
import type { Links } from './links.ts';
import { isFetching, nextState, shownState } from './mirror-state.ts';
import type { MirrorTopic, MirrorTopics } from './mirror-topics.ts';
import { isPromoting, type Promotions } from './promote.ts';
import {
  type CreateLink,
  type CreateMirror,
  type GroupStatus,
  LinkError,
  type LinkService,
  type LinkStatus,
  type MirrorCommandRequest,
  type MirrorCommandResult,
  type MirrorCommandRow,
  type MirrorStatus,
  type TaskPlan,
  type VerifyRequest,
  type VerifyStep,
} from './service.ts';
import { deleteShell } from './shell-topic.ts';
import { linkStatus, mirrorStatus, partitionStatuses } from './status.ts';
import type { SwitchedWatch } from './switched-watch.ts';
import { asLinkError, type TopicChanges } from './topic-changes.ts';
import { verifyMirror } from './verify.ts';

const goneLink = { linkFailed: true, linkPaused: false, sourceLost: false };
const groupsAfterSwitchMs = 1_000;
const deadlineMsMax = 7 * 24 * 3600 * 1000;

export interface ServiceParts {
  readonly context: LinkContext;
  readonly topics: MirrorTopics;
  readonly changes: TopicChanges;
  readonly links: Links<GroupSync, LinkTasks>;
  readonly creator: MirrorCreator;
  readonly promotions: Promotions;
  readonly failover: Failover;
  readonly switched: SwitchedWatch;
}

export function newReceiptId(): string {
  return randomBytes(9).toString('base64url');
}

/** Everything that a command may end with becomes a LinkError; faults of ours pass through. */
async function asCommand<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof ClusterError) {
      throw new LinkError('DESTINATION_REFUSED', error.message, { cause: error });
    }
    if (error instanceof StorageError) {
      throw new LinkError('STORAGE_ERROR', error.message, { cause: error });
    }
    throw asLinkError(error);
  }
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
        isAnswering: true,
        rpoSeconds: null,
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
      tasks: [entry.groups.task, ...entry.tasks.statuses],
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
    await asCommand(() => this.#parts.links.delete(name, options));
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
        blocking: [],
        notices: [],
        strayRecords: null,
      };
    });
  }

  listMirrors(link?: string): readonly MirrorStatus[] {
    return [...this.#parts.topics.all]
      .filter((topic) => link === undefined || topic.link === link)
      .map((topic) => this.#status(topic));
  }

  describeMirror(topic: string): MirrorStatus {
    return this.#status(this.#topic(topic));
  }

  async deleteMirror(
    name: string,
    options: { keepTopic: boolean; validateOnly: boolean; actor: string },
  ): Promise<void> {
    const topic = this.#topic(name);
    if (topic.record.state === 'STOPPED') {
      throw new LinkError(
        'ILLEGAL_STATE',
        `Topic '${name}' is STOPPED: it is an ordinary topic and is deleted as such`,
      );
    }
    if (options.validateOnly) return;
    await asCommand(() => this.#deleteMirror(name, options));
  }

  async command(request: MirrorCommandRequest): Promise<MirrorCommandResult> {
    const names = [...new Set(request.topics)];
    const errors = new Map<string, LinkError>();
    const known = names.filter((name) => {
      const error = this.#wrongName(name, request.link);
      if (error !== null) errors.set(name, error);
      return error === null;
    });
    if (request.command === 'failover') {
      return asCommand(() => this.#failover(request, { names, known, errors }));
    }
    if (request.atomic === true && request.command === 'promote') {
      return asCommand(() => this.#promoteTogether(request, { names, known, errors }));
    }
    for (const name of known) {
      try {
        await asCommand(() => this.#one(name, request));
      } catch (error) {
        if (!(error instanceof LinkError)) throw error;
        errors.set(name, error);
      }
    }
    return { rows: names.map((name) => this.#row(name, errors)), receipt: null };
  }

  async verifyMirror(request: VerifyRequest): Promise<VerifyStep> {
    return asCommand(() => {
      const topic = this.#topic(request.topic);
      return verifyMirror(topic, this.#parts.links.runtime(topic.link), request);
    });
  }

  listGroups(link: string): readonly GroupStatus[] {
    const entry = this.#parts.links.entry(link);
    if (entry === undefined) throw new LinkError('LINK_NOT_FOUND', `There is no link '${link}'`);
    return entry.groups.status();
  }

  async planTasks(link: string): Promise<readonly TaskPlan[]> {
    const entry = this.#parts.links.entry(link);
    if (entry === undefined) throw new LinkError('LINK_NOT_FOUND', `There is no link '${link}'`);
    return asCommand(() => entry.tasks.plan());
  }

  /** A failover of very many topics has several records, shown as one. */
  receipt(id: string): ReceiptRecord | undefined {
    const { receipts } = this.#parts.context.state.view;
    const first = receipts.get(id);
    if (first === undefined) return undefined;
    const parts = [first];
    for (let index = 2; ; index++) {
      const next = receipts.get(`${id}.${index}`);
      if (next === undefined) break;
      parts.push(next);
    }
    return merged(parts);
  }

  async exportTail(name: string): Promise<AsyncIterable<TailLine>> {
    const topic = this.#topic(name);
    const found = this.#parts.switched.receiptOf(topic);
    if (topic.record.state !== 'STOPPED' || found === null) {
      throw new LinkError('ILLEGAL_STATE', `Topic '${name}' was not switched: it has no tail`);
    }
    const link = this.#link(topic);
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

  #topic(name: string): MirrorTopic {
    const topic = this.#parts.topics.byName(name);
    if (topic === undefined) {
      throw new LinkError('MIRROR_NOT_FOUND', `There is no mirror '${name}'`);
    }
    return topic;
  }

  #link(topic: MirrorTopic): LinkRuntime | undefined {
    return this.#parts.links.entry(topic.link)?.runtime;
  }

  #status(topic: MirrorTopic): MirrorStatus {
    return mirrorStatus(topic, this.#link(topic), {
      context: this.#parts.context,
      blocking: this.#parts.promotions.blocking(topic.name),
      notices: this.#notices(topic),
      strayRecords:
        topic.record.state === 'STOPPED' ? this.#parts.switched.strays(topic.topicId) : null,
    });
  }

  /** Groups with members here are left as they are, also by a promotion. */
  #notices(topic: MirrorTopic): readonly Blocking[] {
    if (topic.record.state !== 'PENDING_STOPPED') return [];
    const statuses = this.#parts.links.entry(topic.link)?.groups.status() ?? [];
    const live = statuses.filter((row) => row.topic === topic.name && row.held === 'live');
    return [...new Set(live.map(({ group }) => group))].map((group) =>
      blocking('GROUP_LIVE_AT_DESTINATION', `group '${group}' has members at the destination`),
    );
  }

  #wrongName(name: string, link: string | null): LinkError | null {
    const topic = this.#parts.topics.byName(name);
    if (topic === undefined) {
      return new LinkError('MIRROR_NOT_FOUND', `There is no mirror '${name}'`);
    }
    if (link !== null && topic.link !== link) {
      const message = `Topic '${name}' is mirrored by link '${topic.link}', not by '${link}'`;
      return new LinkError('MIRROR_NOT_FOUND', message);
    }
    return null;
  }

  #row(name: string, errors: ReadonlyMap<string, LinkError>): MirrorCommandRow {
    const topic = this.#parts.topics.byName(name);
    const error = errors.get(name) ?? null;
    if (topic === undefined) return { topic: name, error, state: null, partitions: [] };
    const { state, partitions } = this.#status(topic);
    return { topic: name, error, state, partitions };
  }

  /** promote, pause, resume, cancel of one topic. */
  async #one(name: string, request: MirrorCommandRequest): Promise<void> {
    const { command, actor, validateOnly } = request;
    const topic = this.#topic(name);
    if (command === 'failover') return;
    const conditions = this.#link(topic)?.conditions ?? goneLink;
    const shown = shownState(topic.record.state, conditions);
    const next = nextState(shown, command);
    if (next === null) {
      const message = `Topic '${name}' is ${shown}: '${command}' is not possible`;
      throw new LinkError('ILLEGAL_STATE', message);
    }
    if (command === 'promote') {
      if (next === 'STOPPED' || topic.record.state === 'PENDING_STOPPED') return;
      this.#checkPromotable(topic);
    }
    if (command === 'cancel' && topic.record.stopping?.command === 'failover') {
      throw new LinkError('ILLEGAL_STATE', `Topic '${name}' is being failed over`);
    }
    if (validateOnly || next === topic.record.state) return;
    this.#parts.context.state.lease.check();
    if (command === 'cancel') {
      await this.#parts.promotions.cancel(name, { actor, why: command });
      return;
    }
    const stopping = command === 'promote' ? { stopping: this.#stopping(request) } : {};
    await this.#parts.changes.apply(name, command, { actor, why: command }, () => stopping);
    if (command === 'promote') this.#parts.promotions.start(name);
  }

  #stopping(request: MirrorCommandRequest) {
    const { context } = this.#parts;
    const deadlineMs = request.deadlineMs ?? context.limits.promoteDeadlineMs;
    if (!(deadlineMs > 0 && deadlineMs <= deadlineMsMax)) {
      throw new LinkError('INVALID_CONFIG', `A deadline of ${deadlineMs} ms is not possible`);
    }
    return {
      command: 'promote' as const,
      actor: request.actor,
      deadlineTimeMs: context.clock.unixMs() + deadlineMs,
      cuts: [],
    };
  }

  /** All are taken on by one state transaction, or none is. */
  async #promoteTogether(
    request: MirrorCommandRequest,
    parts: { names: readonly string[]; known: readonly string[]; errors: Map<string, LinkError> },
  ): Promise<MirrorCommandResult> {
    const { names, known, errors } = parts;
    const { changes, context, promotions } = this.#parts;
    const rows = (): MirrorCommandResult => ({
      rows: names.map((name) => this.#row(name, errors)),
      receipt: null,
    });
    for (const name of known) {
      try {
        await asCommand(() => this.#one(name, { ...request, validateOnly: true }));
      } catch (error) {
        if (!(error instanceof LinkError)) throw error;
        errors.set(name, error);
      }
    }
    const [refused] = errors.keys();
    if (refused !== undefined) {
      const message = `'${refused}' cannot be promoted, and it is all or none`;
      for (const name of known) {
        if (!errors.has(name)) errors.set(name, new LinkError('ATOMIC_REFUSED', message));
      }
      return rows();
    }
    if (request.validateOnly) return rows();
    if (known.length > context.limits.switchBatchTopics) {
      const message = `At most ${context.limits.switchBatchTopics} topics can go together`;
      throw new LinkError('INVALID_CONFIG', message);
    }
    await changes.locks.run(known, async () => {
      const before = known.flatMap((name) => changes.record(name) ?? []);
      const pending = before.filter(({ state }) => state !== 'STOPPED');
      if (pending.some(isPromoting)) {
        throw new LinkError('ILLEGAL_STATE', 'One of the topics is being promoted already');
      }
      context.state.lease.check();
      const atomic = { id: newReceiptId(), count: pending.length };
      const stopping = { ...this.#stopping(request), atomic };
      const after = pending.map((record) => changes.next(record, 'promote', { stopping }));
      await changes.commit(after.map((put) => ({ put })));
      const audit = { actor: request.actor, why: 'promote, all or none' };
      for (const [index, record] of pending.entries()) {
        const next = after[index];
        if (next !== undefined) changes.tell(record, next, audit);
      }
    });
    for (const name of known) promotions.start(name);
    return rows();
  }

  #checkPromotable(topic: MirrorTopic): void {
    const statuses = partitionStatuses(topic, this.#link(topic), this.#parts.context);
    if (statuses.length === 0) {
      throw new LinkError('ILLEGAL_STATE', `Topic '${topic.name}' has no partitions yet`);
    }
  }

  async #failover(
    request: MirrorCommandRequest,
    parts: { names: readonly string[]; known: readonly string[]; errors: Map<string, LinkError> },
  ): Promise<MirrorCommandResult> {
    const { names, known, errors } = parts;
    const { errors: failures, receipts } = await this.#parts.failover.run({
      topics: known,
      actor: request.actor,
      receiptId: newReceiptId(),
      isDryRun: request.validateOnly,
      ...(request.written === undefined ? {} : { written: request.written }),
    });
    for (const [name, error] of failures) errors.set(name, error);
    if (!request.validateOnly) await this.#finishGroups(known);
    return {
      rows: names.map((name) => this.#row(name, errors)),
      receipt: receipts.length === 0 ? null : merged(receipts),
    };
  }

  /**
   * Offsets that were clamped to the old end are written once more; bounded, since it is a service
   * only.
   */
  async #finishGroups(names: readonly string[]): Promise<void> {
    const byLink = new Map<string, string[]>();
    for (const name of names) {
      const topic = this.#parts.topics.byName(name);
      if (topic?.record.state !== 'STOPPED') continue;
      byLink.set(topic.link, [...(byLink.get(topic.link) ?? []), name]);
    }
    await Promise.all(
      [...byLink].map(([link, topics]) =>
        this.#parts.links.entry(link)?.groups.finish(topics, groupsAfterSwitchMs),
      ),
    );
  }

  async #deleteMirror(name: string, options: { keepTopic: boolean; actor: string }): Promise<void> {
    const { context, changes, topics } = this.#parts;
    await changes.locks.run(name, async () => {
      const record = changes.record(name);
      if (record === undefined || record.state === 'STOPPED') return;
      const link = this.#parts.links.entry(record.link)?.runtime;
      context.state.lease.check();
      await link?.feeds.hold(name);
      try {
        if (record.topicId !== null && !options.keepTopic) {
          await deleteShell(context.destination, { name, topicId: record.topicId });
        }
        await changes.commit([{ delete: `topic/${name}` }]);
      } finally {
        link?.release(name);
      }
      if (record.topicId !== null) await topics.deleteLogs(record.topicId);
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

function merged(receipts: readonly ReceiptRecord[]): ReceiptRecord {
  const [first, ...rest] = receipts;
  if (first === undefined) throw new TypeError('no receipt');
  return { ...first, topics: [...first.topics, ...rest.flatMap(({ topics }) => topics)] };
}

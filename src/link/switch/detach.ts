// Detaching: a promoted topic leaves the proxy for good, so that clients may go to its brokers
// directly. Owns the order: look, gate (nobody takes up an offset), committed offsets from virtual
// to native, end of the timeline. Refuses to know how offsets are read and written.
// Invariants: what is to be written is on record before it is written, so that a crash anywhere is
// gone on from and no offset is moved twice; either every group stands at native offsets and the
// timeline ends, or every group is put back and it stays.
import { ErrorCode } from '../../../protocol/index.ts';
import { ClusterError } from '../../cluster/cluster.ts';
import { alterTopicConfigs, readTopicConfigs } from '../../cluster/config-requests.ts';
import {
  type DetachCommit,
  logTopicIdOf,
  type PendingDetach,
  type TopicRecord,
} from '../../state/records.ts';
import { StateError } from '../../state/state.ts';
import { moveCommits, type UnmovedGroup } from '../../tasks/group-shift.ts';
import type { LinkContext } from '../context.ts';
import { LinkError } from '../link-error.ts';
import { type LogRemovals, logRemoval } from '../mirror/log-removals.ts';
import type { MirrorTopic } from '../mirror/mirror-topics.ts';
import type { TopicChanges } from '../mirror/topic-changes.ts';
import { isPinned, retentionOfTombstones } from '../mirror/topic-configs.ts';
import type { MirrorStatuses } from '../mirror-statuses.ts';
import type { DetachReport, DetachRequest } from '../service.ts';
import { dropHidden, lookAtDetach } from './detach-look.ts';

const reasonsNamed = 3;

export interface DetachParts {
  readonly context: LinkContext;
  readonly statuses: MirrorStatuses;
  readonly changes: TopicChanges;
  readonly removals: Pick<LogRemovals, 'carryOut'>;
}

export class Detach {
  readonly #parts: DetachParts;
  readonly #underWay = new Set<string>();
  /** Why one that was taken up does not end, as it was told last. */
  readonly #told = new Map<string, string>();

  constructor(parts: DetachParts) {
    this.#parts = parts;
  }

  /** @throws LinkError ILLEGAL_STATE with what stands in the way; then nothing has changed */
  async run(request: DetachRequest): Promise<DetachReport> {
    const topic = this.#promoted(request.topic);
    const report = await lookAtDetach(this.#parts.context.destination, topic, request);
    if (request.validateOnly) return report;
    const { name } = topic;
    await this.#exclusively(name, async () => {
      if (topic.record.detaching === undefined) {
        refuse(report);
        await this.#begin(topic, request.actor);
      }
      await this.#drive(name, request);
    });
    return { ...report, isDone: true };
  }

  /** What a crash or a lost destination left half done: on, or back where nothing was written. */
  async resume(): Promise<void> {
    for (const { name, detaching } of this.#parts.context.state.view.topics.values()) {
      if (detaching === undefined || this.#underWay.has(name)) continue;
      try {
        await this.#exclusively(name, () => this.#drive(name, null));
        this.#told.delete(name);
      } catch (error) {
        this.#tell(name, error);
      }
    }
  }

  #promoted(name: string): MirrorTopic {
    const topic = this.#parts.statuses.topic(name);
    const { state } = topic.record;
    if (state === 'STOPPED') return topic;
    const message = `Topic '${name}' is ${state}: only a promoted topic can be detached`;
    throw new LinkError('ILLEGAL_STATE', message);
  }

  async #exclusively(name: string, work: () => Promise<void>): Promise<void> {
    this.#underWay.add(name);
    try {
      await this.#parts.changes.locks.run(name, work);
    } finally {
      this.#underWay.delete(name);
    }
  }

  /** From here on clients are told to try again. */
  async #begin({ name, topicId }: MirrorTopic, actor: string): Promise<void> {
    const { changes, context } = this.#parts;
    const record = changes.record(name);
    const isSame = record?.topicId === topicId && record?.state === 'STOPPED';
    if (record === undefined || !isSame) {
      throw new LinkError('ILLEGAL_STATE', `Topic '${name}' has changed meanwhile`);
    }
    await context.state.owned();
    await this.#note(record, { actor, step: 'gate', commits: [] });
  }

  #note(record: TopicRecord, detaching: PendingDetach): Promise<void> {
    return this.#parts.changes.commit([{ put: { ...record, detaching } }]);
  }

  /** Each turn rests on what is committed; a step that fails is gone on from by `resume`. */
  async #drive(name: string, request: DetachRequest | null): Promise<void> {
    const { changes, context } = this.#parts;
    for (;;) {
      const record = changes.record(name);
      const { detaching } = record ?? {};
      if (record === undefined || detaching === undefined) return;
      context.state.lease.check();
      if (detaching.step === 'gate') {
        await this.#plan(record, detaching, request);
      } else if (detaching.step === 'forward') {
        const unmoved = await this.#move(name, detaching.commits);
        if (unmoved.length === 0) return this.#end(record, detaching);
        await this.#note(record, { ...detaching, step: 'back' });
        throw await this.#backBecause(name, unmoved);
      } else {
        throw await this.#backBecause(name, []);
      }
    }
  }

  #move(name: string, moves: readonly DetachCommit[]): Promise<readonly UnmovedGroup[]> {
    const { state, destination } = this.#parts.context;
    return moveCommits(destination, moves, { topic: name, check: () => state.lease.check() });
  }

  /** Nobody reads any more: what groups have now is what they will have when it ends. */
  async #plan(
    record: TopicRecord,
    detaching: PendingDetach,
    request: DetachRequest | null,
  ): Promise<void> {
    const { context, statuses } = this.#parts;
    const topic = statuses.topic(record.name);
    // Nobody knows any more whether the history was to be dropped.
    if (request === null) return this.#forget(record, 'it was interrupted');
    try {
      const report = await lookAtDetach(context.destination, topic, request);
      refuse(report);
      context.state.lease.check();
      await dropHidden(context.destination, topic);
      const commits = report.groups.map(({ group, partition, oldOffset, newOffset }) => ({
        group,
        partition,
        from: oldOffset,
        to: newOffset,
      }));
      await this.#note(record, { ...detaching, step: 'forward', commits });
    } catch (error) {
      if (error instanceof LinkError || error instanceof ClusterError) {
        await this.#forget(record, error.message);
      }
      throw error;
    }
  }

  /** Everything that was written is put back; then the topic is as before. */
  async #backBecause(name: string, unmoved: readonly UnmovedGroup[]): Promise<LinkError> {
    const record = this.#parts.changes.record(name);
    const why = unmoved.map(({ message }) => message).slice(0, reasonsNamed);
    if (record?.detaching === undefined) {
      return new LinkError('ILLEGAL_STATE', `Topic '${name}' is not being detached any more`);
    }
    const back = record.detaching.commits.map(({ group, partition, from, to }) => ({
      group,
      partition,
      from: to,
      to: from,
    }));
    const left = await this.#move(name, back);
    // What a client has committed meanwhile, through us, is a virtual offset already.
    const stuck = left.filter(({ reason }) => reason !== 'moved');
    if (stuck.length > 0) {
      const messages = stuck.map(({ message }) => message).slice(0, reasonsNamed);
      const message =
        `Topic '${name}' is not detached, and not all offsets are back yet: ` +
        `${messages.join('; ')}. It is tried again; until then the topic waits`;
      return new LinkError('ILLEGAL_STATE', message);
    }
    await this.#forget(record, why.join('; ') || 'it was taken back');
    const reason = why.length === 0 ? 'it was taken back' : why.join('; ');
    return new LinkError('ILLEGAL_STATE', `Topic '${name}' is NOT detached: ${reason}`);
  }

  async #forget(record: TopicRecord, why: string): Promise<void> {
    const { detaching: _detaching, ...rest } = record;
    await this.#parts.changes.commit([{ put: rest }]);
    const message = `Topic '${record.name}' was NOT detached: ${why}; it is as before`;
    this.#parts.context.events.warn('detach_undone', message, {
      topic: record.name,
      link: record.link,
    });
  }

  /** Every group stands at native offsets: the timeline ends. */
  async #end(record: TopicRecord, detaching: PendingDetach): Promise<void> {
    const { changes, context } = this.#parts;
    const { name, link } = record;
    const topicId = logTopicIdOf(record);
    await this.#unpin(name);
    context.state.lease.check();
    await changes.commit([{ delete: `topic/${name}` }, ...logRemoval(topicId)]);
    context.events.info(
      'topic_detached',
      `Topic '${name}' was detached: its brokers' own offsets are right from now on`,
      {
        topic: name,
        link,
        actor: detaching.actor,
        groups: new Set(detaching.commits.map(({ group }) => group)).size,
      },
    );
    await this.#parts.removals.carryOut(topicId);
  }

  /** Without a copy below it there is nothing that a deleted key could come back from. */
  async #unpin(name: string): Promise<void> {
    const { destination, state } = this.#parts.context;
    const keys = ['cleanup.policy', retentionOfTombstones];
    const found = (await readTopicConfigs(destination, [name], keys)).get(name);
    const configs = Object.fromEntries(
      (found?.configs ?? []).map((config) => [config.name, config.value ?? '']),
    );
    if (!isPinned(configs)) return;
    state.lease.check();
    const unset = [{ name: retentionOfTombstones, value: null }];
    const altered = (await alterTopicConfigs(destination, new Map([[name, unset]]))).get(name);
    if (altered?.errorCode === ErrorCode.NONE) return;
    const message = `${retentionOfTombstones} of '${name}' cannot be unset: ${altered?.message}`;
    throw new LinkError('DESTINATION_REFUSED', message);
  }

  #tell(name: string, error: unknown): void {
    const isExpected =
      error instanceof LinkError || error instanceof ClusterError || error instanceof StateError;
    if (!isExpected) throw error;
    if (this.#told.get(name) === error.message) return;
    this.#told.set(name, error.message);
    this.#parts.context.events.warn('detach_pending', error.message, { topic: name });
  }
}

/** @throws LinkError with all that stands in the way */
function refuse({ topic, blocking: reasons }: DetachReport): void {
  if (reasons.length === 0) return;
  const named = reasons.slice(0, reasonsNamed).map(({ code, message }) => `${code}: ${message}`);
  const more = reasons.length > reasonsNamed ? `; and ${reasons.length - reasonsNamed} more` : '';
  const message = `Topic '${topic}' cannot be detached: ${named.join('; ')}${more}`;
  throw new LinkError('ILLEGAL_STATE', message);
}

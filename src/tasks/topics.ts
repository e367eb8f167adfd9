// The topic task of a link: mirrors of the source's topics by Cluster Linking's filters. Owns the
// rounds and the back-off of what could not be made; refuses to decide (topic-plan.ts) and to know
// how a mirror is made. Invariants: an existing topic is never touched; a mirror that leaves the
// filters is paused, never promoted or deleted; what cannot be made stays visible with its reason.
import { ErrorCode } from '../../protocol/index.ts';
import type { TopicInfo } from '../cluster/cluster.ts';
import type { LinkContext } from '../link/context.ts';
import type { LinkRuntime } from '../link/link.ts';
import { LinkError } from '../link/link-error.ts';
import type { MirrorCreator } from '../link/mirror/create-mirror.ts';
import type { TopicChanges } from '../link/mirror/topic-changes.ts';
import type { TaskPlan } from '../link/service.ts';
import { forEachLimited } from '../link/signal.ts';
import { BackOffs, type TaskProblem } from './back-offs.ts';
import { weighedChunks } from './chunks.ts';
import { problemOf, TaskError, type TaskRound, type TaskWork } from './sync-task.ts';
import { planTopics, type SourceTopic, type TopicPlan, type Wanted } from './topic-plan.ts';

const periodDefaultMs = 2_000;
/** What one request makes: within what a controller writes by one operation. */
const batchTopicsMax = 100;
const batchPartitionsMax = 1_000;
const batchesInFlight = 2;
const retryFirstMs = 2_000;
const retryMaxMs = 30_000;

export interface TopicSyncParts {
  readonly context: LinkContext;
  readonly link: LinkRuntime;
  readonly changes: TopicChanges;
  readonly creator: MirrorCreator;
}

export class TopicSync implements TaskWork {
  readonly name = 'AutoCreateMirror';
  readonly #context: LinkContext;
  readonly #link: LinkRuntime;
  readonly #changes: TopicChanges;
  readonly #creator: MirrorCreator;
  /** By destination name. */
  readonly #failed: BackOffs;

  constructor(parts: TopicSyncParts) {
    this.#context = parts.context;
    this.#link = parts.link;
    this.#changes = parts.changes;
    this.#creator = parts.creator;
    const delays = { firstMs: retryFirstMs, maxMs: retryMaxMs };
    this.#failed = new BackOffs(parts.context.clock, delays);
  }

  get isEnabled(): boolean {
    return this.#link.settings.topicSync.enabled;
  }

  /** Cluster Linking discovers topics with the metadata. */
  get periodMs(): number {
    return this.#link.settings.metadataMaxAgeMs ?? periodDefaultMs;
  }

  settingsChanged(): void {
    this.#failed.clear();
  }

  async round(): Promise<TaskRound> {
    const { plan, partitionsOf } = await this.#look();
    for (const name of plan.leave) await this.#leave(name);
    for (const name of plan.back) await this.#comeBack(name);
    const wanted = new Set(plan.create.map(({ name }) => name));
    this.#failed.keep((name) => wanted.has(name));
    let created = 0;
    const due = plan.create.filter(({ name }) => this.#failed.isDue(name));
    const bounds = { itemsMax: batchTopicsMax, weightMax: batchPartitionsMax };
    const weightOf = ({ sourceTopic }: Wanted): number => partitionsOf(sourceTopic);
    const batches = weighedChunks(due, { ...bounds, weightOf });
    await forEachLimited(batches, batchesInFlight, async (batch) => {
      created += await this.#createAll(batch);
    });
    return {
      problems: [...this.#problems(plan), ...this.#failed.problems],
      counts: {
        matched: plan.matchedCount,
        created,
        pending: plan.pending.length + plan.create.length - created,
      },
    };
  }

  async plan(): Promise<Omit<TaskPlan, 'task'>> {
    const { plan } = await this.#look();
    const problems = [...this.#problems(plan), ...this.#failed.problems];
    const taken = await this.#taken(plan.create);
    const changes: TaskPlan['changes'][number][] = plan.create
      .filter(({ name }) => !taken.has(name))
      .map(({ name, sourceTopic }) => ({
        action: 'create',
        subject: `mirror ${name}`,
        detail: `of source topic ${sourceTopic}`,
      }));
    for (const name of taken) {
      const detail = 'a topic of this name exists and is no mirror: it is left as it is';
      changes.push({ action: 'keep', subject: `topic ${name}`, detail });
    }
    for (const { name } of plan.pending) {
      const detail = `auto.create.mirror.topics.max=${this.#link.settings.topicSync.mirrorsMax}`;
      changes.push({ action: 'wait', subject: `mirror ${name}`, detail });
    }
    for (const name of plan.leave) {
      changes.push({ action: 'pause', subject: `mirror ${name}`, detail: 'it left the filters' });
    }
    for (const name of plan.back) {
      changes.push({
        action: 'resume',
        subject: `mirror ${name}`,
        detail: 'the filters match again',
      });
    }
    return { changes, problems };
  }

  async #look(): Promise<{ plan: TopicPlan; partitionsOf: (sourceTopic: string) => number }> {
    const { settings, record } = this.#link;
    const { filters, mirrorsMax } = settings.topicSync;
    if (filters === null) {
      throw new TaskError(
        'MISCONFIGURATION_ERROR',
        'auto.create.mirror.topics.enable is true, but ' +
          'auto.create.mirror.topics.filters is not set',
      );
    }
    const metadata = await this.#link.cluster.metadata('all');
    if (metadata.clusterId !== record.sourceClusterId) {
      const message = `The source is cluster ${metadata.clusterId}, not ${record.sourceClusterId}`;
      throw new TaskError('MISCONFIGURATION_ERROR', message);
    }
    const plan = planTopics({
      source: [...metadata.topics.values()].map(toSourceTopic),
      records: this.#context.state.view.topics,
      link: this.#link.name,
      filters,
      prefix: settings.prefix,
      ownTopicPrefix: this.#context.ownTopicPrefix,
      mirrorsMax,
    });
    const { topics } = metadata;
    return { plan, partitionsOf: (name) => topics.get(name)?.partitions.length ?? 0 };
  }

  #problems(plan: TopicPlan): readonly TaskProblem[] {
    const problems: TaskProblem[] = plan.clashes.map(({ sourceTopic, why }) => ({
      code: 'TOPIC_EXISTS_ERROR',
      message: `Source topic '${sourceTopic}' is not mirrored: ${why}`,
    }));
    if (plan.pending.length > 0) {
      const { mirrorsMax } = this.#link.settings.topicSync;
      const message =
        `${plan.pending.length} topics wait, '${plan.pending[0]?.name}' first: ` +
        `auto.create.mirror.topics.max is ${mirrorsMax}`;
      problems.push({ code: 'POLICY_VIOLATION_ERROR', message });
    }
    if (plan.matchedCount === 0 && plan.candidatesCount > 0) {
      const message =
        'auto.create.mirror.topics.filters matches none of the ' +
        `source's ${plan.candidatesCount} topics`;
      problems.push({ code: 'MISCONFIGURATION_ERROR', message, isHarmless: true });
    }
    return problems;
  }

  async #taken(wanted: readonly Wanted[]): Promise<ReadonlySet<string>> {
    if (wanted.length === 0) return new Set();
    const { topics } = await this.#context.destination.metadata(wanted.map(({ name }) => name));
    const isThere = (info: TopicInfo): boolean => info.errorCode === ErrorCode.NONE;
    return new Set([...topics.values()].filter(isThere).map(({ name }) => name));
  }

  /** Returns how many were made. What went wrong is remembered by topic. */
  async #createAll(batch: readonly Wanted[]): Promise<number> {
    if (!this.#link.mayAct()) return 0;
    const errors = await this.#attempt(batch);
    for (const { name, sourceTopic } of batch) {
      const error = errors.get(name);
      if (error === undefined) {
        this.#failed.succeeded(name);
        continue;
      }
      const { message } = error;
      const { code } = problemOf(error) ?? { code: 'INTERNAL_ERROR' };
      const isLoop = error instanceof LinkError && error.code === 'LOOP';
      const told = isLoop
        ? `'${sourceTopic}' is not mirrored: ${message}`
        : `Mirror '${name}' cannot be made yet: ${message}`;
      this.#failed.failed(name, { code, message: told, isHarmless: isLoop });
    }
    return batch.length - errors.size;
  }

  /** What concerns the whole batch (its source does not answer) is told of each. */
  async #attempt(batch: readonly Wanted[]): Promise<ReadonlyMap<string, Error>> {
    try {
      return await this.#creator.createMatched(this.#link, batch);
    } catch (error) {
      if (!(error instanceof LinkError)) throw error;
      return new Map(batch.map(({ name }) => [name, error]));
    }
  }

  async #leave(name: string): Promise<void> {
    const audit = { actor: 'causeway', why: 'the source topic left the topic filters' };
    await this.#changes.apply(name, 'pause', audit, (record) =>
      record.auto?.isFilteredOut === false && record.state === 'ACTIVE'
        ? { auto: { isFilteredOut: true } }
        : null,
    );
  }

  async #comeBack(name: string): Promise<void> {
    const audit = { actor: 'causeway', why: 'the topic filters match the source topic again' };
    await this.#changes.apply(name, 'resume', audit, (record) =>
      record.auto?.isFilteredOut === true && record.state === 'PAUSED'
        ? { auto: { isFilteredOut: false } }
        : null,
    );
  }
}

function toSourceTopic({ name, isInternal, errorCode, partitions }: TopicInfo): SourceTopic {
  const isReady =
    errorCode === ErrorCode.NONE &&
    partitions.length > 0 &&
    partitions.every(({ leaderId }) => leaderId >= 0);
  return { name, isInternal, isReady };
}

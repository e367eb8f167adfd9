// Making a mirror: intent by name, shell, logs, then ACTIVE with id and timelines (design §4
// "Gating"). Owns the order of the steps and their repetition after a crash; refuses to know
// fetching. Invariants: the intent is committed before the shell can exist, so that no producer
// slips into it; a topic of that name which is not our empty shell is never touched, and stops
// being gated at once.
import { ErrorCode, errorName, isUuid, zeroUuid } from '../../protocol/index.ts';
import { type Cluster, ClusterError, type TopicInfo } from '../cluster/cluster.ts';
import { originsOf } from '../gateway/mirror-origins.ts';
import type { MirrorErrorCode, PendingCreation, TopicRecord } from '../state/records.ts';
import { internalTopics } from '../tasks/topic-plan.ts';
import { virtualOffset } from '../timeline/offsets.ts';
import { newMirror } from '../timeline/timeline.ts';
import type { LinkContext } from './context.ts';
import type { LinkRuntime } from './link.ts';
import { checkTopicName } from './link-settings.ts';
import type { MirrorTopics } from './mirror-topics.ts';
import { type CreateMirror, LinkError, type RecreateMirror } from './service.ts';
import { createShell, deleteShell, measureShells, topicConfigs } from './shell-topic.ts';
import { Signal } from './signal.ts';
import {
  type SourceStart,
  sourceStarts,
  startOffsetSetting,
  startTimestamp,
} from './start-offset.ts';
import type { Audit, TopicChanges } from './topic-changes.ts';
import {
  otherConfigs,
  ownConfigs,
  refusedOverride,
  shellConfigs,
  syncedConfigs,
} from './topic-configs.ts';

interface Plan {
  readonly source: TopicInfo;
  /** What was taken over from the source. */
  readonly synced: Readonly<Record<string, string>>;
  /** With the operator's own on top. */
  readonly configs: Readonly<Record<string, string>>;
  readonly starts: readonly SourceStart[];
  /** Clusters that the records came through before the source. */
  readonly origins: readonly string[];
}

/** A new copy may take the place of the old one only where the source is not what was mirrored. */
const recreatable: ReadonlySet<MirrorErrorCode> = new Set([
  'SOURCE_TOPIC_ID_CHANGED',
  'SOURCE_TOPIC_MAY_BE_DELETED',
  'SOURCE_PARTITIONS_DECREASED',
  'UNEXPECTED_TRUNCATION',
  'NON_MONOTONIC_LOG_APPEND_EPOCH',
  'SHELL_TOPIC_DELETED',
]);
const goneWithinMs = 15_000;
const gonePollMs = 100;

const resumed: Audit = { actor: 'causeway', why: 'creation resumed' };

/** @throws LinkError MIRROR_NOT_FOUND, ILLEGAL_STATE */
export function checkRecreatable(name: string, record: TopicRecord | undefined): TopicRecord {
  if (record === undefined) {
    throw new LinkError('MIRROR_NOT_FOUND', `Topic '${name}' is not a mirror`);
  }
  const code = record.error?.code;
  if (record.state === 'FAILED' && code !== undefined && recreatable.has(code)) return record;
  const why = record.state === 'FAILED' ? `FAILED with ${code ?? 'no code'}` : record.state;
  throw new LinkError(
    'ILLEGAL_STATE',
    `Topic '${name}' is ${why}: only a mirror whose source topic is not the one that was ` +
      `mirrored is made anew. Delete it with "causeway mirror delete ${name}" to begin again`,
  );
}

export interface CreatorParts {
  readonly context: LinkContext;
  readonly topics: MirrorTopics;
  readonly changes: TopicChanges;
}

export class MirrorCreator {
  readonly #context: LinkContext;
  readonly #topics: MirrorTopics;
  readonly #changes: TopicChanges;

  constructor(parts: CreatorParts) {
    this.#context = parts.context;
    this.#topics = parts.topics;
    this.#changes = parts.changes;
  }

  /**
   * Resolves when the mirror is ACTIVE, or PENDING_MIRROR when the destination's answer was lost.
   */
  async create(
    link: LinkRuntime,
    request: CreateMirror,
    options: { isAuto: boolean } = { isAuto: false },
  ): Promise<string> {
    const name = request.mirrorTopic ?? `${link.settings.prefix}${request.sourceTopic}`;
    this.#checkNames(name, request.sourceTopic);
    const { [startOffsetSetting]: spec, ...overrides } = request.configs ?? {};
    const startOffset = spec ?? link.settings.startOffset;
    startTimestamp(startOffset);
    const refused = refusedOverride(overrides);
    if (refused !== null) throw new LinkError('INVALID_CONFIG', refused);
    await this.#changes.locks.run(name, async () => {
      this.#checkFree(name);
      const creating: PendingCreation = {
        replicationFactor: request.replicationFactor ?? link.settings.topicSync.replicationFactor,
        configs: overrides,
        startOffset,
      };
      const plan = await this.#plan(link, request.sourceTopic, creating);
      await this.#checkDestination(name, plan, creating);
      if (request.validateOnly) return;
      const { sourceTopic } = request;
      const auto = options.isAuto ? { auto: { isFilteredOut: false } } : {};
      const intent = this.#intent({ name, link: link.name, sourceTopic, ...auto }, plan, creating);
      await this.#changes.commit([{ put: intent }]);
      await this.#carryOut(intent, plan, { actor: request.actor, why: 'created' });
    });
    return name;
  }

  /**
   * Begins anew in the place of a mirror that failed because its source is not what it was; the
   * old copy is gone for good. Cut short before the new one is on record, the mirror is FAILED as
   * before, and the same can be asked for again.
   */
  async recreate(link: LinkRuntime, name: string, request: RecreateMirror): Promise<void> {
    await this.#changes.locks.run(name, async () => {
      const failed = checkRecreatable(name, this.#changes.record(name));
      const { creating, isThere } = await this.#shellAsItIs(link, failed);
      const plan = await this.#plan(link, failed.sourceTopic, creating);
      if (!isThere) await this.#checkDestination(name, plan, creating);
      if (request.validateOnly) return;
      this.#context.state.lease.check();
      await link.feeds.hold(name);
      try {
        await deleteShell(this.#context.destination, { name, topicId: failed.topicId ?? zeroUuid });
        await this.#untilFree(name, plan, creating);
        const intent = this.#intent(failed, plan, creating);
        await this.#changes.commit([{ put: intent }]);
        link.forget(name);
        if (failed.topicId !== null) await this.#topics.deleteLogs(failed.topicId);
        await this.#carryOut(intent, plan, { actor: request.actor, why: 'recreated' });
      } finally {
        link.release(name);
      }
    });
  }

  /** What the new shell takes over from the old one. */
  async #shellAsItIs(
    link: LinkRuntime,
    failed: TopicRecord,
  ): Promise<{ creating: PendingCreation; isThere: boolean }> {
    const { replicationFactor } = link.settings.topicSync;
    const { startOffset } = link.settings;
    const { destination } = this.#context;
    const info = (await destination.metadata([failed.name])).topics.get(failed.name);
    if (info?.errorCode !== ErrorCode.NONE || info.topicId !== failed.topicId) {
      return { creating: { replicationFactor, configs: {}, startOffset }, isThere: false };
    }
    const found = await topicConfigs(destination, failed.name);
    const creating: PendingCreation = {
      replicationFactor: info.partitions[0]?.replicaNodes.length ?? replicationFactor,
      configs: ownConfigs(failed.syncedConfigs ?? {}, found),
      startOffset,
    };
    return { creating, isThere: true };
  }

  /** A broker may finish the deletion of a topic after it has answered. */
  async #untilFree(name: string, plan: Plan, creating: PendingCreation): Promise<void> {
    const { clock } = this.#context;
    const deadlineMs = clock.monotonicMs() + goneWithinMs;
    for (;;) {
      try {
        return await this.#checkDestination(name, plan, creating);
      } catch (error) {
        const isThere = error instanceof LinkError && error.code === 'TOPIC_EXISTS';
        if (!isThere || clock.monotonicMs() >= deadlineMs) throw error;
      }
      await new Signal().wait(gonePollMs);
    }
  }

  #intent(
    { name, link, sourceTopic, auto }: Pick<TopicRecord, 'name' | 'link' | 'sourceTopic' | 'auto'>,
    plan: Plan,
    creating: PendingCreation,
  ): TopicRecord {
    return {
      kind: 'topic',
      name,
      topicId: null,
      link,
      sourceTopic,
      sourceTopicId: plan.source.topicId,
      state: 'PENDING_MIRROR',
      stateTimeMs: this.#context.clock.unixMs(),
      error: null,
      partitions: [],
      stoppedBy: null,
      creating,
      syncedConfigs: plan.synced,
      ...(plan.origins.length > 0 ? { origins: plan.origins } : {}),
      ...(auto === undefined ? {} : { auto }),
    };
  }

  /** Goes on with an intent that a crash or a lost answer left behind. */
  async resume(link: LinkRuntime, name: string): Promise<void> {
    await this.#changes.locks.run(name, async () => {
      const intent = this.#changes.record(name);
      if (intent?.state !== 'PENDING_MIRROR' || intent.creating === undefined) return;
      const plan = await this.#plan(link, intent.sourceTopic, intent.creating);
      const { topics } = await this.#context.destination.metadata([name]);
      const found = topics.get(name);
      if (found === undefined || found.errorCode === ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) {
        // Made now, so with what the source says now; that on record first, by which the next look
        // would know it.
        const now: TopicRecord = { ...intent, syncedConfigs: plan.synced };
        await this.#changes.commit([{ put: now }]);
        await this.#carryOut(now, plan, resumed);
        return;
      }
      const foreign = await this.#whyForeign(found, plan, intent);
      const { topicId } = found;
      if (foreign === null) await this.#finish(intent, plan, { topicId, audit: resumed });
      else await this.#abandon(intent, foreign);
    });
  }

  #checkNames(name: string, sourceTopic: string): void {
    checkTopicName(name);
    checkTopicName(sourceTopic);
    const own = this.#context.ownTopicPrefix;
    for (const topic of [name, sourceTopic]) {
      if (internalTopics.has(topic) || topic.startsWith(own)) {
        throw new LinkError('INVALID_NAME', `Topic '${topic}' is internal and is never mirrored`);
      }
    }
  }

  #checkFree(name: string): void {
    if (this.#changes.record(name) !== undefined) {
      throw new LinkError('TOPIC_EXISTS', `Topic '${name}' already exists.`);
    }
  }

  async #plan(link: LinkRuntime, sourceTopic: string, creating: PendingCreation): Promise<Plan> {
    try {
      const cluster = await link.connected();
      const source = await this.#sourceTopic(cluster, sourceTopic, link.record.sourceClusterId);
      const { include } = link.settings.configSync;
      const told = await topicConfigs(cluster, sourceTopic);
      const origins = originsOf(told);
      await this.#checkLoop(sourceTopic, [...origins, link.record.sourceClusterId]);
      const synced = syncedConfigs(told, include);
      const configs = shellConfigs(synced, creating.configs);
      const { startOffset: spec } = creating;
      const starts = await sourceStarts(cluster, source, spec === undefined ? {} : { spec });
      if (starts === null) {
        throw new LinkError(
          'SOURCE_UNREACHABLE',
          `The log starts of source topic '${sourceTopic}' cannot be read now`,
        );
      }
      return { source, synced, configs, starts, origins };
    } catch (error) {
      if (!(error instanceof ClusterError)) throw error;
      throw new LinkError('SOURCE_UNREACHABLE', error.message, { cause: error });
    }
  }

  /** Records must not come back into a cluster that they came from, under whatever name. */
  async #checkLoop(sourceTopic: string, clusters: readonly string[]): Promise<void> {
    const { clusterId } = await this.#context.destination.metadata([]);
    if (clusterId === null || !clusters.includes(clusterId)) return;
    const chain = [...clusters, clusterId].join(' -> ');
    throw new LinkError('LOOP', `Source topic '${sourceTopic}' came from here: ${chain} is a loop`);
  }

  async #sourceTopic(cluster: Cluster, topic: string, clusterId: string): Promise<TopicInfo> {
    const metadata = await cluster.metadata([topic]);
    if (metadata.clusterId !== clusterId) {
      throw new LinkError(
        'CLUSTER_ID_MISMATCH',
        `The source is cluster ${metadata.clusterId}, the link is to ${clusterId}`,
      );
    }
    const info = metadata.topics.get(topic);
    if (info?.errorCode === ErrorCode.TOPIC_AUTHORIZATION_FAILED) {
      throw new LinkError('SOURCE_UNAUTHORIZED', `No right to describe source topic '${topic}'`);
    }
    if (info === undefined || info.errorCode === ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) {
      throw new LinkError('SOURCE_TOPIC_NOT_FOUND', `Source topic '${topic}' does not exist`);
    }
    if (info.errorCode !== ErrorCode.NONE) {
      throw new LinkError(
        'SOURCE_UNREACHABLE',
        `Source topic '${topic}' cannot be read: ${errorName(info.errorCode)}`,
      );
    }
    if (info.isInternal) {
      throw new LinkError('INVALID_NAME', `Topic '${topic}' is internal and is never mirrored`);
    }
    return info;
  }

  async #checkDestination(name: string, plan: Plan, creating: PendingCreation): Promise<void> {
    try {
      await createShell(this.#context.destination, {
        name,
        partitionsCount: plan.source.partitions.length,
        replicationFactor: creating.replicationFactor,
        configs: plan.configs,
        validateOnly: true,
      });
    } catch (error) {
      if (!(error instanceof ClusterError)) throw error;
      throw new LinkError(
        'DESTINATION_REFUSED',
        `The destination does not answer: ${error.message}`,
        { cause: error },
      );
    }
  }

  async #carryOut(intent: TopicRecord, plan: Plan, audit: Audit): Promise<void> {
    let topicId: string;
    try {
      this.#context.state.lease.check();
      topicId = await createShell(this.#context.destination, {
        name: intent.name,
        partitionsCount: plan.source.partitions.length,
        replicationFactor: intent.creating?.replicationFactor ?? -1,
        configs: plan.configs,
        validateOnly: false,
      });
    } catch (error) {
      if (error instanceof ClusterError && error.maybeSent) {
        this.#context.events.warn(
          'mirror_create_pending',
          `Topic '${intent.name}': the destination's answer was lost, creation goes on by itself`,
          { topic: intent.name, link: intent.link },
        );
        return;
      }
      const isThere = error instanceof LinkError && error.code === 'TOPIC_EXISTS';
      // It has come into being just now, and may be ours: the next look tells.
      if (isThere && audit === resumed) throw error;
      await this.#changes.commit([{ delete: `topic/${intent.name}` }]);
      if (!(error instanceof ClusterError)) throw error;
      throw new LinkError('DESTINATION_REFUSED', error.message, { cause: error });
    }
    await this.#finish(intent, plan, { topicId, audit });
  }

  async #finish(
    intent: TopicRecord,
    plan: Plan,
    { topicId, audit }: { topicId: string; audit: Audit },
  ): Promise<void> {
    const id = topicId === zeroUuid ? await this.#readId(intent.name) : topicId;
    this.#context.state.lease.check();
    for (const [partition, { base }] of plan.starts.entries()) {
      await this.#topics.createLog({ topicId: id, partition }, base);
    }
    const active = this.#changes.next(intent, 'created', {
      topicId: id,
      sourceTopicId: plan.source.topicId,
      partitions: plan.starts.map(({ start }) => newMirror(virtualOffset(start))),
    });
    await this.#changes.commit([{ put: active }]);
    this.#changes.tell(intent, active, audit);
  }

  /** Old brokers do not tell the id when they create a topic. */
  async #readId(name: string): Promise<string> {
    const { topics } = await this.#context.destination.metadata([name]);
    const topicId = topics.get(name)?.topicId ?? zeroUuid;
    if (topicId === zeroUuid || !isUuid(topicId)) {
      throw new LinkError('NOT_SUPPORTED', 'The destination has no topic ids (Kafka 2.8 or later)');
    }
    return topicId;
  }

  /**
   * Nothing had this name when the intent was committed. What has it now is taken for ours only if
   * it is what we asked for in all that can be seen: partitions, no records, exactly these configs.
   */
  async #whyForeign(found: TopicInfo, plan: Plan, intent: TopicRecord): Promise<string | null> {
    if (found.errorCode !== ErrorCode.NONE) {
      throw new LinkError('DESTINATION_REFUSED', errorName(found.errorCode));
    }
    const partitionsCount = plan.source.partitions.length;
    if (found.partitions.length !== partitionsCount) return 'it has another number of partitions';
    const shell = { name: found.name, topicId: found.topicId, partitionsCount };
    const measure = (await measureShells(this.#context.destination, [shell])).get(found.name);
    if (measure?.kind !== 'refused') return this.#whyOtherConfigs(found.name, intent);
    // Only records prove that it is somebody else's; everything else is tried again.
    if (measure.error.code !== 'ILLEGAL_STATE') throw measure.error;
    return measure.error.message;
  }

  async #whyOtherConfigs(name: string, intent: TopicRecord): Promise<string | null> {
    const asked = shellConfigs(intent.syncedConfigs ?? {}, intent.creating?.configs ?? {});
    try {
      return otherConfigs(asked, await topicConfigs(this.#context.destination, name));
    } catch (error) {
      if (!(error instanceof ClusterError || error instanceof LinkError)) throw error;
      throw new LinkError('DESTINATION_REFUSED', error.message, { cause: error });
    }
  }

  async #abandon(intent: TopicRecord, why: string): Promise<void> {
    await this.#changes.commit([{ delete: `topic/${intent.name}` }]);
    this.#context.events.error(
      'mirror_create_abandoned',
      `Topic '${intent.name}' exists and is not the mirror that was being made: ${why}`,
      { topic: intent.name, link: intent.link },
    );
  }
}

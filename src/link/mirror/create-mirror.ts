// Making mirrors: intent by name, shell, logs, then ACTIVE with id and timelines (design §4
// "Gating"); one, or many together by the same few requests and state transactions. Owns the
// order of the steps and their repetition after a crash; refuses to know fetching. Invariants:
// the intent is committed before the shell can exist, so that no producer slips into it; a topic
// of that name which is not our empty shell is never touched, and stops being gated at once; what
// goes wrong with one of many stops none of the others.
import { ErrorCode, isUuid, zeroUuid } from '../../../protocol/index.ts';
import { StorageError } from '../../../storage/errors.ts';
import { ClusterError } from '../../cluster/cluster.ts';
import { isNeverMirrored } from '../../config/internal-topics.ts';
import type { PendingCreation, TopicRecord } from '../../state/records.ts';
import { virtualOffset } from '../../timeline/offsets.ts';
import { newMirror } from '../../timeline/timeline.ts';
import type { LinkContext } from '../context.ts';
import type { LinkRuntime } from '../link.ts';
import { LinkError } from '../link-error.ts';
import type { CreateMirror, RecreateMirror } from '../service.ts';
import { checkTopicName } from '../settings/link-settings.ts';
import { forEachLimited, Signal } from '../signal.ts';
import { ArchiveCopies } from './archive-copy.ts';
import { topicConfigs } from './cluster-configs.ts';
import { type Plan, planMirrors, type ToPlan } from './creation-plan.ts';
import { whyForeign } from './foreign-topic.ts';
import { type LogRemovals, logRemoval } from './log-removals.ts';
import type { MirrorTopics } from './mirror-topics.ts';
import { checkRecreatable } from './recreatable.ts';
import { createShells, deleteShell, existsAlready, type NewShell } from './shell-topic.ts';
import { type SourceStart, startOffsetSetting, startTimestamp } from './start-offset.ts';
import type { Audit, TopicChanges } from './topic-changes.ts';
import { ownConfigs, refusedOverride } from './topic-configs.ts';

/** A mirror that is to be made. */
interface Creation extends ToPlan {
  readonly auto?: TopicRecord['auto'];
}

/** What a mirror is made from, intent not yet on record or just committed. */
interface Draft {
  readonly intent: TopicRecord;
  readonly plan: Plan;
}

/** By the mirror's name; who is not in it was made, or goes on by itself. */
export type CreationErrors = Map<string, LinkError | StorageError>;

const goneWithinMs = 15_000;
const gonePollMs = 100;
/** Topics whose logs are made at once. */
const logsInFlight = 16;

const resumed: Audit = { actor: 'causeway', why: 'creation resumed' };

export interface CreatorParts {
  readonly context: LinkContext;
  readonly topics: MirrorTopics;
  readonly changes: TopicChanges;
  readonly removals: LogRemovals;
}

export class MirrorCreator {
  readonly #context: LinkContext;
  readonly #topics: MirrorTopics;
  readonly #changes: TopicChanges;
  readonly #removals: LogRemovals;
  readonly #archives: ArchiveCopies;

  constructor(parts: CreatorParts) {
    this.#context = parts.context;
    this.#topics = parts.topics;
    this.#changes = parts.changes;
    this.#removals = parts.removals;
    this.#archives = new ArchiveCopies(parts);
  }

  /**
   * Resolves when the mirror is ACTIVE, or PENDING_MIRROR when the destination's answer was lost.
   */
  async create(link: LinkRuntime, request: CreateMirror): Promise<string> {
    const { sourceTopic, validateOnly, actor } = request;
    const name = request.mirrorTopic ?? `${link.settings.prefix}${sourceTopic}`;
    this.#checkNames(name, sourceTopic);
    const { [startOffsetSetting]: spec, ...configs } = request.configs ?? {};
    const startOffset = spec ?? link.settings.startOffset;
    startTimestamp(startOffset);
    const refused = refusedOverride(configs);
    if (refused !== null) throw new LinkError('INVALID_CONFIG', refused);
    const replicationFactor =
      request.replicationFactor ?? link.settings.topicSync.replicationFactor;
    const creation = { name, sourceTopic, creating: { replicationFactor, configs, startOffset } };
    const errors = await this.#createAll(link, [creation], { validateOnly, actor });
    const error = errors.get(name);
    if (error !== undefined) throw error;
    return name;
  }

  /** Mirrors that the link's filters want, as the link's settings have them. */
  async createMatched(
    link: LinkRuntime,
    wanted: readonly { readonly name: string; readonly sourceTopic: string }[],
  ): Promise<CreationErrors> {
    const { startOffset, topicSync } = link.settings;
    const { replicationFactor } = topicSync;
    const errors: CreationErrors = new Map();
    const creations = wanted.flatMap(({ name, sourceTopic }): Creation[] => {
      const error = this.#wrongNames(name, sourceTopic);
      if (error !== null) errors.set(name, error);
      const creating = { replicationFactor, configs: {}, startOffset };
      return error === null
        ? [{ name, sourceTopic, creating, auto: { isFilteredOut: false } }]
        : [];
    });
    const options = { validateOnly: false, actor: 'causeway' };
    return new Map([...errors, ...(await this.#createAll(link, creations, options))]);
  }

  async #createAll(
    link: LinkRuntime,
    creations: readonly Creation[],
    { validateOnly, actor }: { readonly validateOnly: boolean; readonly actor: string },
  ): Promise<CreationErrors> {
    const errors: CreationErrors = new Map();
    const names = creations.map(({ name }) => name);
    await this.#changes.locks.run(names, async () => {
      const free = creations.filter(({ name }) => {
        const isFree = this.#changes.record(name) === undefined;
        if (!isFree) errors.set(name, existsAlready(name));
        return isFree;
      });
      const planned = await this.#planAll(link, free, errors);
      const accepted = await this.#accepted(planned, errors);
      if (validateOnly || accepted.length === 0) return;
      const drafts = accepted.map(({ plan, ...creation }) => ({
        intent: this.#intent({ ...creation, ...identityOf(link) }, plan),
        plan,
      }));
      await this.#changes.commit(drafts.map(({ intent }) => ({ put: intent })));
      await this.#carryOut(drafts, { audit: { actor, why: 'created' }, errors });
    });
    return errors;
  }

  async #planAll(
    link: LinkRuntime,
    creations: readonly Creation[],
    errors: CreationErrors,
  ): Promise<readonly (Creation & { readonly plan: Plan })[]> {
    const { destination } = this.#context;
    const plans = await planMirrors({ link, destination }, creations);
    return creations.flatMap((creation) => {
      const plan = plans.get(creation.name);
      if (plan instanceof LinkError) errors.set(creation.name, plan);
      return plan === undefined || plan instanceof LinkError ? [] : [{ ...creation, plan }];
    });
  }

  /** What the destination would make now: an ordinary topic of that name is not to be gated. */
  async #accepted<Planned extends ToPlan & { readonly plan: Plan }>(
    planned: readonly Planned[],
    errors: CreationErrors,
  ): Promise<readonly Planned[]> {
    if (planned.length === 0) return [];
    const shells = planned.map(({ name, plan, creating }) => newShell(name, plan, creating));
    const options = { validateOnly: true };
    const outcomes = await createShells(this.#context.destination, shells, options);
    return planned.filter(({ name }) => {
      const outcome = outcomes.get(name);
      if (typeof outcome === 'string') return true;
      errors.set(name, unaccepted(outcome));
      return false;
    });
  }

  /**
   * Begins anew in the place of a mirror that failed because its source is not what it was; the
   * old copy is archived or gone for good. Cut short before the new one is on record, the mirror is
   * FAILED as before, and the same can be asked for again.
   */
  async recreate(link: LinkRuntime, name: string, request: RecreateMirror): Promise<void> {
    const { archiveAs } = request;
    if (archiveAs !== null) this.#checkNames(archiveAs, name);
    await this.#changes.locks.run(archiveAs === null ? [name] : [name, archiveAs], async () => {
      const failed = checkRecreatable(name, this.#changes.record(name));
      const { creating, isThere } = await this.#shellAsItIs(link, failed);
      const plan = await this.#plan(link, failed.sourceTopic, creating);
      const planned = { name, sourceTopic: failed.sourceTopic, creating, plan };
      if (!isThere) await this.#checkDestination(planned);
      const archive = archiveAs === null ? null : { failed, name: archiveAs, creating };
      if (archive !== null) await this.#archives.check(archive);
      if (request.validateOnly) return;
      await this.#context.state.owned();
      await link.feeds.hold(name);
      const audit = { actor: request.actor, why: 'recreated' };
      try {
        const kept = archive === null ? null : await this.#archives.begin(archive);
        await deleteShell(this.#context, { name, topicId: failed.topicId ?? zeroUuid });
        await this.#untilFree(planned);
        const begun = this.#intent({ ...failed, creating, ...identityOf(link) }, plan);
        // What was denied at the source is taken back by the new mirror's record.
        const { fence } = failed;
        const intent = fence === undefined ? begun : { ...begun, fence };
        const id = failed.topicId;
        await this.#changes.commit([
          { put: intent },
          ...(kept === null ? logRemoval(id) : [{ put: kept }]),
        ]);
        link.forget(name);
        if (kept === null) await this.#removals.carryOut(id);
        else this.#changes.tell(failed, kept, { ...audit, why: `archived copy of '${name}'` });
        await this.#carryOutOne({ intent, plan }, audit);
      } finally {
        link.release(name);
        if (archive !== null) await this.#archives.tryUndo(archive.name);
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
  async #untilFree(planned: ToPlan & { readonly plan: Plan }): Promise<void> {
    const { clock } = this.#context;
    const deadlineMs = clock.monotonicMs() + goneWithinMs;
    for (;;) {
      try {
        return await this.#checkDestination(planned);
      } catch (error) {
        const isThere = error instanceof LinkError && error.code === 'TOPIC_EXISTS';
        if (!isThere || clock.monotonicMs() >= deadlineMs) throw error;
      }
      await new Signal().wait(gonePollMs);
    }
  }

  /** To be committed at once. @throws LinkError LINK_NOT_FOUND when the link was deleted */
  #intent(wanted: Creation & LinkIdentity, plan: Plan): TopicRecord {
    const found = this.#context.state.view.links.get(wanted.link);
    if (found?.linkId !== wanted.linkId) {
      throw new LinkError('LINK_NOT_FOUND', `Link '${wanted.link}' was deleted meanwhile`);
    }
    const { name, link, linkId, sourceTopic, creating, auto } = wanted;
    return {
      kind: 'topic',
      name,
      topicId: null,
      link,
      linkId,
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
      if (intent.creating.archivedPartitions !== undefined) return this.#archives.undo(name);
      const plan = await this.#plan(link, intent.sourceTopic, intent.creating);
      const { topics } = await this.#context.destination.metadata([name]);
      const found = topics.get(name);
      if (found === undefined || found.errorCode === ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) {
        // Made now, so with what the source says now; that on record first, by which the next look
        // would know it.
        const now: TopicRecord = { ...intent, syncedConfigs: plan.synced };
        await this.#changes.commit([{ put: now }]);
        await this.#carryOutOne({ intent: now, plan }, resumed);
        return;
      }
      const partitionsCount = plan.source.partitions.length;
      const { destination } = this.#context;
      const foreign = await whyForeign(destination, found, { intent, partitionsCount });
      const { topicId } = found;
      if (foreign !== null) return this.#abandon(intent, foreign);
      const errors: CreationErrors = new Map();
      await this.#finish([{ intent, plan, topicId }], { audit: resumed, errors });
      throwOf(errors, name);
    });
  }

  #checkNames(name: string, sourceTopic: string): void {
    checkTopicName(name);
    checkTopicName(sourceTopic);
    for (const topic of [name, sourceTopic]) {
      if (isNeverMirrored(topic, this.#context.ownTopicPrefix)) {
        throw new LinkError('INVALID_NAME', `Topic '${topic}' is internal and is never mirrored`);
      }
    }
  }

  #wrongNames(name: string, sourceTopic: string): LinkError | null {
    try {
      this.#checkNames(name, sourceTopic);
      return null;
    } catch (error) {
      if (error instanceof LinkError) return error;
      throw error;
    }
  }

  async #plan(link: LinkRuntime, sourceTopic: string, creating: PendingCreation): Promise<Plan> {
    const { destination } = this.#context;
    const wanted = { name: sourceTopic, sourceTopic, creating };
    const plan = (await planMirrors({ link, destination }, [wanted])).get(sourceTopic);
    if (plan instanceof LinkError) throw plan;
    if (plan === undefined) throw new TypeError(`no plan for ${sourceTopic}`);
    return plan;
  }

  async #checkDestination(planned: ToPlan & { readonly plan: Plan }): Promise<void> {
    const errors: CreationErrors = new Map();
    await this.#accepted([planned], errors);
    throwOf(errors, planned.name);
  }

  async #carryOutOne(draft: Draft, audit: Audit): Promise<void> {
    const errors: CreationErrors = new Map();
    await this.#carryOut([draft], { audit, errors });
    throwOf(errors, draft.intent.name);
  }

  /** The intents are on record: shells by one request, and what comes of each by one commit. */
  async #carryOut(drafts: readonly Draft[], how: CarryOut): Promise<void> {
    this.#context.state.lease.check();
    const shells = drafts.map(({ intent, plan }) => newShell(intent.name, plan, intent.creating));
    const options = { validateOnly: false };
    const outcomes = await createShells(this.#context.destination, shells, options);
    const made: Made[] = [];
    const refused: string[] = [];
    for (const draft of drafts) {
      const { name } = draft.intent;
      const outcome = outcomes.get(name) ?? existsAlready(name);
      if (typeof outcome === 'string') made.push({ ...draft, topicId: outcome });
      else if (this.#isOver(draft.intent, outcome, how)) refused.push(name);
    }
    await this.#finish(made, { ...how, refused });
  }

  /** False: the intent stays, and the next look goes on with it. */
  #isOver(intent: TopicRecord, error: LinkError | ClusterError, how: CarryOut): boolean {
    if (error instanceof ClusterError && error.maybeSent) {
      this.#context.events.warn(
        'mirror_create_pending',
        `Topic '${intent.name}': the destination's answer was lost, creation goes on by itself`,
        { topic: intent.name, link: intent.link },
      );
      return false;
    }
    how.errors.set(
      intent.name,
      error instanceof ClusterError
        ? new LinkError('DESTINATION_REFUSED', error.message, { cause: error })
        : error,
    );
    // It has come into being just now, and may be ours: the next look tells.
    return !(how.audit === resumed && error.code === 'TOPIC_EXISTS');
  }

  /** Logs, then one commit: ACTIVE whose shells are there, gone whose shells were refused. */
  async #finish(
    made: readonly Made[],
    { audit, errors, refused = [] }: CarryOut & { readonly refused?: readonly string[] },
  ): Promise<void> {
    const ids = await this.#ids(made);
    this.#context.state.lease.check();
    const finished: { readonly intent: TopicRecord; readonly active: TopicRecord }[] = [];
    await forEachLimited(made, logsInFlight, async ({ intent, plan }) => {
      const topicId = ids.get(intent.name) ?? zeroUuid;
      const error = await this.#createLogs(topicId, plan.starts);
      if (error !== null) {
        errors.set(intent.name, error);
        return;
      }
      const active = this.#changes.next(intent, 'created', {
        topicId,
        sourceTopicId: plan.source.topicId,
        madeTimeMs: this.#context.clock.unixMs(),
        partitions: plan.starts.map(({ start }) => newMirror(virtualOffset(start))),
      });
      finished.push({ intent, active });
    });
    const gone = refused.map((name) => ({ delete: `topic/${name}` }));
    await this.#changes.commit([...finished.map(({ active }) => ({ put: active })), ...gone]);
    for (const { intent, active } of finished) this.#changes.tell(intent, active, audit);
  }

  async #createLogs(topicId: string, starts: readonly SourceStart[]): Promise<StorageError | null> {
    try {
      for (const [partition, { base }] of starts.entries()) {
        await this.#topics.createLog({ topicId, partition }, base);
      }
      return null;
    } catch (error) {
      if (error instanceof StorageError) return error;
      throw error;
    }
  }

  /** By name. Old brokers do not tell the id when they create a topic. */
  async #ids(made: readonly Made[]): Promise<ReadonlyMap<string, string>> {
    const ids = new Map(made.map(({ intent, topicId }) => [intent.name, topicId] as const));
    const unknown = [...ids].filter(([, id]) => id === zeroUuid).map(([name]) => name);
    if (unknown.length === 0) return ids;
    const { topics } = await this.#context.destination.metadata(unknown);
    for (const name of unknown) {
      const topicId = topics.get(name)?.topicId ?? zeroUuid;
      if (topicId === zeroUuid || !isUuid(topicId)) {
        throw new LinkError(
          'NOT_SUPPORTED',
          'The destination has no topic ids (Kafka 2.8 or later)',
        );
      }
      ids.set(name, topicId);
    }
    return ids;
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

type LinkIdentity = Required<Pick<TopicRecord, 'link' | 'linkId'>>;

function identityOf({ record }: LinkRuntime): LinkIdentity {
  return { link: record.name, linkId: record.linkId };
}

interface Made extends Draft {
  readonly topicId: string;
}

interface CarryOut {
  readonly audit: Audit;
  readonly errors: CreationErrors;
}

function newShell(name: string, plan: Plan, creating: PendingCreation | undefined): NewShell {
  return {
    name,
    partitionsCount: plan.source.partitions.length,
    replicationFactor: creating?.replicationFactor ?? -1,
    configs: plan.configs,
  };
}

function unaccepted(outcome: LinkError | ClusterError | undefined): LinkError {
  if (outcome instanceof LinkError) return outcome;
  const message = `The destination does not answer: ${outcome?.message ?? 'nothing was said'}`;
  return new LinkError('DESTINATION_REFUSED', message, { cause: outcome });
}

function throwOf(errors: CreationErrors, name: string): void {
  const error = errors.get(name);
  if (error !== undefined) throw error;
}

// The group task of a link: committed offsets of groups on the source go to the destination every
// second, for mirrored topics only. Owns the rounds and what was written last; refuses to decide
// (group-diff.ts) and to speak Kafka (group-offsets.ts). Invariants (R5, R12, R16): offsets are
// compared with what the destination has at most 100 ms before they are written; nothing is written
// without a valid lease, nor to a live group; what was written is read back.
import { ErrorCode, errorName } from '../../protocol/index.ts';
import { ClusterError } from '../cluster/cluster.ts';
import type { LinkContext } from '../link/context.ts';
import type { LinkRuntime } from '../link/link.ts';
import type { MirrorTopic, MirrorTopics } from '../link/mirror-topics.ts';
import type { GroupStatus, TaskStatus } from '../link/service.ts';
import { LinkError } from '../link/service.ts';
import { brokerConfig } from '../link/shell-topic.ts';
import { forEachLimited, messageOf, Signal } from '../link/signal.ts';
import { openNativeExtent } from '../timeline/timeline.ts';
import { isGroupIncluded } from './group-filters.ts';
import { listGroups, readGroups } from './group-offsets.ts';
import { GroupWriter, type SourceCommit } from './group-writer.ts';

const retentionKey = 'offsets.retention.minutes';
const retentionDefaultMs = 7 * 24 * 3600 * 1000;
const retentionReadMs = 300_000;
const renewalsPerRetention = 4;
const errorsShown = 10;
const noMatchCode = 'MISCONFIGURATION_ERROR';

interface Blocking {
  readonly code: string;
  readonly message: string;
}

interface RoundOptions {
  /** Only this destination topic; null: all mirrored ones. */
  readonly topic: string | null;
  readonly requireStable: boolean;
}

export class GroupSync {
  readonly #context: LinkContext;
  readonly #topics: MirrorTopics;
  readonly #link: LinkRuntime;
  readonly #writer: GroupWriter;
  /** By group: what the source had committed when it was last read, under destination names. */
  readonly #commits = new Map<string, readonly SourceCommit[]>();
  readonly #signal = new Signal();
  #errors: readonly Blocking[] = [];
  #lastSuccessTimeMs = -1;
  #retentionReadAtMs = Number.NEGATIVE_INFINITY;
  #tail: Promise<unknown> = Promise.resolve();
  #isClosed = false;
  #done: Promise<void> = Promise.resolve();

  constructor(parts: { context: LinkContext; topics: MirrorTopics; link: LinkRuntime }) {
    this.#context = parts.context;
    this.#topics = parts.topics;
    this.#link = parts.link;
    this.#writer = new GroupWriter({
      context: parts.context,
      renewalMs: retentionDefaultMs / renewalsPerRetention,
    });
  }

  start(): void {
    this.#done = this.#run();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#signal.notify();
    await this.#done;
    await this.#tail;
  }

  get task(): TaskStatus {
    const { conditions } = this.#link;
    const isEnabled = this.#link.settings.offsetSync.enabled;
    let state: TaskStatus['state'] = this.#errors.length > 0 ? 'IN_ERROR' : 'ACTIVE';
    if (conditions.sourceLost) state = 'LINK_UNAVAILABLE';
    if (conditions.linkPaused) state = 'LINK_PAUSED';
    if (conditions.linkFailed) state = 'LINK_FAILED';
    if (!isEnabled) state = 'NOT_CONFIGURED';
    return {
      name: 'ConsumerOffsetSync',
      state,
      errors: isEnabled ? this.#errors : [],
      lastSuccessTimeMs: this.#lastSuccessTimeMs,
    };
  }

  status(): readonly GroupStatus[] {
    return this.#writer.status();
  }

  /** A whole round for one topic, with stable offsets only; what it returns stands in the way. */
  async finalRound(topic: string): Promise<readonly Blocking[]> {
    if (!this.#link.settings.offsetSync.enabled) return [];
    const errors = await this.#round({ topic, requireStable: true });
    // A filter that matches nothing leaves nothing to be exact about.
    return errors.filter(({ code }) => code !== noMatchCode);
  }

  /**
   * After a switch: offsets clamped to an older end are written again, from what is known of the
   * source.
   */
  async finish(topics: readonly string[], limitMs: number): Promise<void> {
    if (!this.#link.settings.offsetSync.enabled) return;
    const wanted = new Set(topics);
    const byGroup = new Map<string, readonly SourceCommit[]>();
    for (const [group, commits] of this.#commits) {
      const own = commits.filter(({ topic }) => wanted.has(topic));
      if (own.length > 0) byGroup.set(group, own);
    }
    const work = this.#write(byGroup).catch((error: unknown) => this.#failed(error));
    const limit = new Signal();
    void work.then(() => limit.notify());
    await limit.wait(limitMs);
  }

  /** One writer at a time; reading the source, which may hang, holds up nobody. */
  async #exclusively<Result>(work: () => Promise<Result>): Promise<Result> {
    const before = this.#tail;
    const run = (async () => {
      await before;
      return work();
    })();
    this.#tail = run.then(
      () => undefined,
      () => undefined,
    );
    return run;
  }

  async #run(): Promise<void> {
    while (!this.#isClosed) {
      const startedMs = this.#context.clock.monotonicMs();
      const { enabled, periodMs } = this.#link.settings.offsetSync;
      if (enabled && this.#link.mayAct()) {
        try {
          const options = { topic: null, requireStable: false };
          this.#errors = await this.#round(options);
          if (this.#errors.length === 0) this.#lastSuccessTimeMs = this.#context.clock.unixMs();
        } catch (error) {
          this.#failed(error);
        }
      }
      const tookMs = this.#context.clock.monotonicMs() - startedMs;
      await this.#signal.wait(Math.max(periodMs - tookMs, periodMs / 10));
    }
  }

  #failed(error: unknown): void {
    const isExpected = error instanceof ClusterError || error instanceof LinkError;
    const message = messageOf(error);
    if (!isExpected) {
      this.#context.events.error('group_sync_fault', message, { link: this.#link.name });
    }
    this.#errors = [{ code: 'INTERNAL_ERROR', message }];
  }

  /** Mirrored topics whose groups are ours to keep, by source name. */
  #mirrored(only: string | null): ReadonlyMap<string, readonly MirrorTopic[]> {
    const bySource = new Map<string, MirrorTopic[]>();
    for (const topic of this.#topics.all) {
      const { record } = topic;
      if (record.link !== this.#link.name || (only !== null && record.name !== only)) continue;
      if (record.state !== 'ACTIVE' && record.state !== 'PENDING_STOPPED') continue;
      bySource.set(record.sourceTopic, [...(bySource.get(record.sourceTopic) ?? []), topic]);
    }
    return bySource;
  }

  async #round(options: RoundOptions): Promise<readonly Blocking[]> {
    const mirrored = this.#mirrored(options.topic);
    if (mirrored.size === 0) return [];
    await this.#readRetention();
    const source = this.#link.cluster;
    const { groups, failures } = await listGroups(source);
    const errors: Blocking[] = failures.map(({ nodeId, cause }) => ({
      code: 'INTERNAL_ERROR',
      message: `groups of source broker ${nodeId} cannot be listed: ${cause}`,
    }));
    const { filters } = this.#link.settings.offsetSync;
    const byNode = new Map<number, string[]>();
    for (const [group, nodeId] of groups) {
      if (!isGroupIncluded(filters, group)) continue;
      byNode.set(nodeId, [...(byNode.get(nodeId) ?? []), group]);
    }
    if (groups.size > 0 && byNode.size === 0) {
      errors.push({
        code: noMatchCode,
        message: `consumer.offset.group.filters matches none of the source's ${groups.size} groups`,
      });
    }
    const batches = [...byNode].flatMap(([nodeId, members]) =>
      chunks(members, this.#context.limits.groupBatch).map((batch) => ({ nodeId, batch })),
    );
    const wanted = new Map<string, readonly SourceCommit[]>();
    await forEachLimited(batches, this.#context.limits.requestsInFlight, async (part) => {
      const found = await this.#readSource(part, { mirrored, options, errors });
      for (const [group, commits] of found) wanted.set(group, commits);
    });
    const isWhole = options.topic === null && errors.every(({ code }) => code === noMatchCode);
    this.#remember(wanted, { topic: options.topic, isWhole });
    errors.push(...(await this.#write(wanted)));
    return errors.slice(0, errorsShown);
  }

  async #readSource(
    part: { nodeId: number; batch: readonly string[] },
    round: {
      mirrored: ReadonlyMap<string, readonly MirrorTopic[]>;
      options: RoundOptions;
      errors: Blocking[];
    },
  ): Promise<ReadonlyMap<string, readonly SourceCommit[]>> {
    const found = new Map<string, readonly SourceCommit[]>();
    const { mirrored, options, errors } = round;
    const reads = await readGroups(this.#link.cluster, part.batch, {
      nodeId: part.nodeId,
      requireStable: options.requireStable,
      topicsOf: options.requireStable ? () => partitionsOf(mirrored) : null,
    });
    for (const [group, { errorCode, offsets, partitionErrors }] of reads) {
      const code = errorCode !== ErrorCode.NONE ? errorCode : partitionErrors[0];
      if (code !== undefined) errors.push(readError(group, code));
      if (errorCode !== ErrorCode.NONE) continue;
      const commits = [...offsets.values()].flatMap(({ topic, partition, offset, metadata }) =>
        (mirrored.get(topic) ?? []).map((mirror) => ({
          topic: mirror.name,
          partition,
          position: { offset, metadata },
        })),
      );
      if (commits.length > 0) found.set(group, commits);
    }
    return found;
  }

  /** Only a round that has read everything says what is not there any more. */
  #remember(
    wanted: ReadonlyMap<string, readonly SourceCommit[]>,
    round: { topic: string | null; isWhole: boolean },
  ): void {
    if (round.isWhole) {
      this.#commits.clear();
      this.#writer.retain(wanted);
    }
    for (const [group, commits] of wanted) {
      const others = (this.#commits.get(group) ?? []).filter(
        ({ topic }) => round.topic !== null && topic !== round.topic,
      );
      this.#commits.set(group, [...others, ...commits]);
    }
  }

  async #write(wanted: ReadonlyMap<string, readonly SourceCommit[]>): Promise<readonly Blocking[]> {
    return this.#exclusively(() =>
      this.#writer.write(wanted, {
        mayAct: () => this.#context.state.lease.isValid(),
        endOf: (topic, partition) => endOf(this.#topics.byName(topic), partition),
      }),
    );
  }

  async #readRetention(): Promise<void> {
    const nowMs = this.#context.clock.monotonicMs();
    if (nowMs - this.#retentionReadAtMs < retentionReadMs) return;
    const { destination } = this.#context;
    const nodeId = (destination.brokers[0] ?? (await destination.metadata([])).brokers[0])?.nodeId;
    if (nodeId === undefined) return;
    const minutes = Number(await brokerConfig(destination, nodeId, retentionKey));
    this.#retentionReadAtMs = nowMs;
    const retentionMs = minutes > 0 ? minutes * 60_000 : retentionDefaultMs;
    this.#writer.renewalMs = retentionMs / renewalsPerRetention;
  }
}

/** The mirror's durable end, or S once it was switched; null when it is not known. */
function endOf(topic: MirrorTopic | undefined, partition: number): bigint | null {
  const view = topic?.partition(partition);
  if (view === undefined) return null;
  return openNativeExtent(view.timeline)?.start ?? view.log?.visibleEnd ?? null;
}

function partitionsOf(mirrored: ReadonlyMap<string, readonly MirrorTopic[]>) {
  return [...mirrored].map(([topic, [mirror]]) => ({
    topic,
    partitions: mirror?.partitions.map(({ partition }) => partition) ?? [],
  }));
}

function readError(group: string, code: number): Blocking {
  if (code === ErrorCode.UNSTABLE_OFFSET_COMMIT) {
    const message = `group '${group}' has a transaction that is about to commit offsets`;
    return { code: 'GROUP_OFFSETS_UNSTABLE', message };
  }
  const isDenied = code === ErrorCode.GROUP_AUTHORIZATION_FAILED;
  return {
    code: isDenied ? 'AUTHORIZATION_ERROR' : 'INTERNAL_ERROR',
    message: `offsets of group '${group}' cannot be read at the source: ${errorName(code)}`,
  };
}

function chunks<Item>(items: readonly Item[], size: number): Item[][] {
  const result: Item[][] = [];
  for (let index = 0; index < items.length; index += size) {
    result.push(items.slice(index, index + size));
  }
  return result;
}

// The config task of a link: topic configs of mirrors follow their source every few seconds. Owns
// the rounds; refuses to decide (config-diff.ts).
// Invariants: a topic that is not (or not any more) the mirror's own shell is never altered;
// nothing is taken over from a source topic that is not provably the mirrored one any more; the
// lease is checked before each change; what the destination refuses is shown, tried again with
// back-off, and stops neither the data nor other topics or keys.

import { ErrorCode, errorName } from '../../protocol/index.ts';
import { Serial } from '../../storage/disk/serial.ts';
import {
  alterTopicConfigs,
  type ConfigChange,
  type DescribedConfigs,
  readTopicConfigs,
} from '../cluster/config-requests.ts';
import { grantCommand } from '../cluster/grant-command.ts';
import type { LinkContext } from '../link/context.ts';
import type { LinkRuntime } from '../link/link.ts';
import type { TopicChanges } from '../link/mirror/topic-changes.ts';
import {
  type SourceConfig,
  sourceConfigKeys,
  syncedConfigs,
} from '../link/mirror/topic-configs.ts';
import type { TaskPlan } from '../link/service.ts';
import { unconfirmedSources } from '../link/source-identity.ts';
import type { TopicRecord } from '../state/records.ts';
import { BackOffs, type TaskProblem } from './back-offs.ts';
import { chunks } from './chunks.ts';
import { type ActualConfig, type ConfigDiff, diffConfigs, isSameRecord } from './config-diff.ts';

import type { TaskRound, TaskWork } from './sync-task.ts';

const topicsPerRequest = 100;
const retryFirstMs = 5_000;
const retryMaxMs = 60_000;
/** DescribeConfigs' source of a value that was set on the topic itself. */
const topicConfig = 1;

interface Examined {
  readonly record: TopicRecord;
  readonly diff: ConfigDiff;
}

interface Findings {
  readonly examined: readonly Examined[];
  readonly problems: readonly TaskProblem[];
}

export interface ConfigSyncParts {
  readonly context: LinkContext;
  readonly link: LinkRuntime;
  readonly changes: TopicChanges;
}

export class ConfigSync implements TaskWork {
  readonly name = 'TopicConfigsSync';
  readonly isEnabled = true;
  readonly #context: LinkContext;
  readonly #link: LinkRuntime;
  readonly #changes: TopicChanges;
  /** By `topic key=value`. */
  readonly #refused: BackOffs;
  /** One after the other, so that what was read earlier never overwrites what was read later. */
  readonly #steps = new Serial();

  constructor(parts: ConfigSyncParts) {
    this.#context = parts.context;
    this.#link = parts.link;
    this.#changes = parts.changes;
    const delays = { firstMs: retryFirstMs, maxMs: retryMaxMs };
    this.#refused = new BackOffs(parts.context.clock, delays);
  }

  get periodMs(): number {
    return this.#link.settings.configSync.periodMs;
  }

  settingsChanged(): void {
    this.#refused.clear();
  }

  async round(): Promise<TaskRound> {
    const problems: TaskProblem[] = [];
    const wanted = new Set<string>();
    const counts = { topics: 0, changed: 0, localEdits: 0, drift: 0 };
    for (const records of chunks(this.#records(), topicsPerRequest)) {
      const { found, changed } = await this.#steps.run(() => this.#step(records));
      problems.push(...found.problems);
      for (const { record, diff } of found.examined) {
        for (const change of diff.changes) wanted.add(keyOf(record.name, change));
        counts.topics++;
        counts.localEdits += diff.localEdits.length;
        counts.drift += diff.changes.length + diff.localEdits.length;
        if (this.#partitions(record) !== null) counts.drift++;
      }
      counts.changed += changed;
    }
    this.#refused.keep((key) => wanted.has(key));
    return { problems: [...problems, ...this.#refused.problems], counts };
  }

  /** Some topics without a whole round, when the step that is under way has ended. */
  async once(topics: ReadonlySet<string>): Promise<void> {
    for (const names of chunks([...topics], topicsPerRequest)) {
      const some = new Set(names);
      await this.#steps.run(async () => {
        const records = this.#records().filter(({ name }) => some.has(name));
        if (records.length > 0) await this.#step(records);
      });
    }
  }

  async #step(records: readonly TopicRecord[]): Promise<{ found: Findings; changed: number }> {
    const found = await this.#examine(records);
    return { found, changed: await this.#apply(found.examined) };
  }

  async plan(): Promise<Omit<TaskPlan, 'task'>> {
    const changes: TaskPlan['changes'][number][] = [];
    const problems: TaskProblem[] = [];
    for (const records of chunks(this.#records(), topicsPerRequest)) {
      const found = await this.#examine(records);
      problems.push(...found.problems);
      for (const { record, diff } of found.examined) {
        const subject = `topic ${record.name}`;
        for (const { name, value } of diff.changes) {
          if (value === null) changes.push({ action: 'unset', subject, detail: name });
          else changes.push({ action: 'set', subject, detail: `${name}=${value}` });
        }
        for (const { name, here, source } of diff.localEdits) {
          const detail = `${name}: edited here (${shown(here)}), the source has ${shown(source)}`;
          changes.push({ action: 'keep', subject, detail });
        }
        const partitions = this.#partitions(record);
        if (partitions !== null) changes.push({ action: 'wait', subject, detail: partitions });
      }
    }
    return { changes, problems: [...problems, ...this.#refused.problems] };
  }

  /** Mirrors whose shells are there; a paused one is left as it is. */
  #records(): readonly TopicRecord[] {
    return [...this.#context.state.view.topics.values()].filter((record) => this.#isKept(record));
  }

  #isKept({ link, state, topicId }: TopicRecord): boolean {
    const isMirrored = state === 'ACTIVE' || state === 'PENDING_STOPPED';
    return link === this.#link.name && topicId !== null && isMirrored;
  }

  /** Of the mirror that was examined: it may have been promoted since, or made anew. */
  #isKeptStill({ name, topicId }: TopicRecord): boolean {
    const now = this.#changes.record(name);
    return now !== undefined && now.topicId === topicId && this.#isKept(now);
  }

  /** How the numbers of partitions differ; null when they do not, or the source's is unknown. */
  #partitions(record: TopicRecord): string | null {
    const there = this.#link.sourceTopic(record.sourceTopic)?.partitions.length ?? 0;
    const here = record.partitions.length;
    return there === 0 || there === here ? null : `${there} partitions at the source, ${here} here`;
  }

  async #examine(records: readonly TopicRecord[]): Promise<Findings> {
    const names = records.map(({ name }) => name);
    const sourceNames = [...new Set(records.map(({ sourceTopic }) => sourceTopic))];
    const [atSource, here] = await Promise.all([
      readTopicConfigs(this.#link.cluster, sourceNames, sourceConfigKeys),
      readTopicConfigs(this.#context.destination, names, sourceConfigKeys),
    ]);
    const { include } = this.#link.settings.configSync;
    const examined: Examined[] = [];
    const problems: TaskProblem[] = [];
    for (const record of records) {
      const source = atSource.get(record.sourceTopic);
      const shell = here.get(record.name);
      const problem =
        unreadable(record.sourceTopic, source, 'source') ??
        unreadable(record.name, shell, 'destination');
      if (problem !== null) problems.push(problem);
      if (source?.errorCode !== ErrorCode.NONE || shell?.errorCode !== ErrorCode.NONE) continue;
      const diff = diffConfigs({
        desired: syncedConfigs(source.configs, include),
        before: record.syncedConfigs ?? null,
        actual: actualConfigs(shell.configs),
        include,
      });
      examined.push({ record, diff });
    }
    return { examined: await this.#ofMirrored(examined), problems };
  }

  /** What is to be taken over is confirmed to be of the mirrored topic: its retention is ours. */
  async #ofMirrored(examined: readonly Examined[]): Promise<readonly Examined[]> {
    const changed = examined.filter(
      ({ record, diff }) =>
        diff.changes.length > 0 || !isSameRecord(record.syncedConfigs, diff.synced),
    );
    const records = changed.map(({ record }) => record);
    const unconfirmed = await unconfirmedSources(this.#link, records);
    return examined.filter(({ record }) => !unconfirmed.has(record.name));
  }

  /** Returns how many keys were changed. */
  async #apply(examined: readonly Examined[]): Promise<number> {
    const due = new Map<string, readonly ConfigChange[]>();
    for (const { record, diff } of examined) {
      const changes = diff.changes.filter((change) =>
        this.#refused.isDue(keyOf(record.name, change)),
      );
      if (changes.length > 0) due.set(record.name, changes);
    }
    const done = due.size === 0 ? new Set<string>() : await this.#alter(examined, due);
    await this.#remember(examined, done);
    return done.size;
  }

  async #alter(
    examined: readonly Examined[],
    due: Map<string, readonly ConfigChange[]>,
  ): Promise<ReadonlySet<string>> {
    const { destination, state } = this.#context;
    const { topics } = await destination.metadata([...due.keys()]);
    for (const { record } of examined) {
      // Another topic under the shell's name is somebody else's, and so is one that was promoted.
      const isShell = topics.get(record.name)?.topicId === record.topicId;
      if (!isShell || !this.#isKeptStill(record)) due.delete(record.name);
    }
    const done = new Set<string>();
    if (due.size === 0) return done;
    state.lease.check();
    const results = await alterTopicConfigs(destination, due);
    for (const [name, changes] of due) {
      const result = results.get(name);
      if (result?.errorCode === ErrorCode.NONE) {
        for (const change of changes) this.#changed(name, change, done);
        continue;
      }
      // One refused value must not keep the others back.
      for (const change of changes) await this.#alterOne(name, change, done);
    }
    return done;
  }

  async #alterOne(topic: string, change: ConfigChange, done: Set<string>): Promise<void> {
    this.#context.state.lease.check();
    const changes = new Map([[topic, [change]]]);
    const result = (await alterTopicConfigs(this.#context.destination, changes)).get(topic);
    if (result?.errorCode === ErrorCode.NONE) {
      this.#changed(topic, change, done);
      return;
    }
    const code = result?.errorCode ?? ErrorCode.UNKNOWN_SERVER_ERROR;
    const what = `${change.name}=${change.value ?? '(default)'}`;
    this.#refused.failed(keyOf(topic, change), {
      code: alterErrorCode(code),
      message: `The destination refuses ${what} of topic '${topic}': ${result?.message ?? code}${
        code === ErrorCode.TOPIC_AUTHORIZATION_FAILED
          ? `; grant it with ${grantCommand({ topic }, 'AlterConfigs')}`
          : ''
      }`,
    });
  }

  #changed(topic: string, change: ConfigChange, done: Set<string>): void {
    done.add(keyOf(topic, change));
    this.#refused.succeeded(keyOf(topic, change));
    this.#context.events.info(
      'mirror_config_synced',
      `Topic '${topic}': ${change.name} is ${change.value ?? 'unset'}, as at the source`,
      { topic, link: this.#link.name, config: change.name, value: change.value },
    );
  }

  /** Only what the destination has accepted counts as taken over. */
  async #remember(examined: readonly Examined[], done: ReadonlySet<string>): Promise<void> {
    for (const { record, diff } of examined) {
      const synced: Record<string, string> = { ...diff.synced };
      for (const change of diff.changes) {
        if (done.has(keyOf(record.name, change))) continue;
        const before = record.syncedConfigs?.[change.name];
        if (before === undefined) delete synced[change.name];
        else synced[change.name] = before;
      }
      if (isSameRecord(record.syncedConfigs, synced)) continue;
      await this.#changes.locks.run(record.name, async () => {
        const now = this.#changes.record(record.name);
        if (now === undefined || now.topicId !== record.topicId) return;
        await this.#changes.commit([{ put: { ...now, syncedConfigs: synced } }]);
      });
    }
  }
}

function keyOf(topic: string, change: ConfigChange): string {
  return `${topic} ${change.name}=${change.value ?? ''}`;
}

function shown(value: string | null): string {
  return value === null ? 'not set' : `'${value}'`;
}

function actualConfigs(configs: readonly SourceConfig[]): ReadonlyMap<string, ActualConfig> {
  return new Map(
    configs.map(({ name, value, configSource }) => [
      name,
      { value, isSet: configSource === topicConfig },
    ]),
  );
}

function alterErrorCode(code: number): string {
  if (code === ErrorCode.POLICY_VIOLATION) return 'POLICY_VIOLATION_ERROR';
  if (code === ErrorCode.TOPIC_AUTHORIZATION_FAILED) return 'BROKER_AUTHORIZATION_ERROR';
  if (code === ErrorCode.CLUSTER_AUTHORIZATION_FAILED) return 'BROKER_AUTHORIZATION_ERROR';
  return 'INVALID_REQUEST_ERROR';
}

/** A topic that is not there is the link's and the shell watch's to tell. */
function unreadable(
  topic: string,
  read: DescribedConfigs | undefined,
  side: 'source' | 'destination',
): TaskProblem | null {
  const code = read?.errorCode ?? ErrorCode.UNKNOWN_SERVER_ERROR;
  if (code === ErrorCode.NONE || code === ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) return null;
  const isDenied = code === ErrorCode.TOPIC_AUTHORIZATION_FAILED;
  const name = side === 'source' ? 'AUTHORIZATION_ERROR' : 'BROKER_AUTHORIZATION_ERROR';
  const remedy = isDenied ? `; grant it with ${grantCommand({ topic }, 'DescribeConfigs')}` : '';
  return {
    code: isDenied ? name : 'INTERNAL_ERROR',
    message:
      `configs of topic '${topic}' cannot be read at the ${side}: ` + `${errorName(code)}${remedy}`,
  };
}

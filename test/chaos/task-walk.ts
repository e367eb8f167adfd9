// A random walk over everything that a link's tasks look after: topics, groups, ACLs and configs
// are changed on both sides, the proxy is killed, and an owner that was stopped goes on after it
// was succeeded. The model (task-model.ts) judges.
//
// Owns: the steps, their moments, and which instance acts. Knows the product from outside only.
// Invariant: every random choice comes from the seed; after each step nothing has been done that
// should not have been, and at each rest everything has been done.

import assert from 'node:assert/strict';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { aclKey } from '../../src/tasks/acl-diff.ts';
import { createAcls, deleteAcls } from '../../src/tasks/acl-requests.ts';
import { alterTopicConfigs } from '../../src/tasks/config-requests.ts';
import type { CausewayProcess } from '../helpers/causeway-process.ts';
import { deleteGroup } from '../helpers/delete-group.ts';
import { commitOffsets, committedOffsets } from '../helpers/group-offsets.ts';
import { type LinkedStage, offsets } from '../helpers/linked-stage.ts';
import { command } from '../helpers/mirror-commands.ts';
import { openCluster } from '../helpers/raw-batches.ts';
import {
  endTransaction,
  newProducer,
  startTransaction,
  values,
  write,
} from '../helpers/raw-writes.ts';
import type { SeededRandom } from '../helpers/seeded-random.ts';
import { createTopic, deleteRecords } from '../helpers/topic-admin.ts';
import { until } from '../helpers/wait.ts';
import {
  retention,
  type Sides,
  TaskModel,
  type Told,
  type WalkGroup,
  type WalkTopic,
} from './task-model.ts';
import { cleanedOften, walkSettings } from './walk-settings.ts';

const restDeadlineMs = 150_000;
/** Longer than a round of the group task and the age of what it has read. */
const undisturbedMs = 700;
const groupsMax = 24;
export interface WalkOptions {
  readonly stage: LinkedStage;
  readonly random: SeededRandom;
  readonly prefix: string;
  /** Makes the source's topics where something else than its defaults is wanted. */
  /** The instance that acts; default: the stage's. */
  readonly causeway?: CausewayProcess | undefined;
  readonly createAtSource?: (topic: string, partitions: number, configs: object) => Promise<void>;
}

type Step = () => Promise<string>;

export class TaskWalk {
  readonly model: TaskModel;
  readonly #stage: LinkedStage;
  readonly #random: SeededRandom;
  readonly #create: NonNullable<WalkOptions['createAtSource']>;
  readonly done: string[] = [];
  #acting: CausewayProcess;
  #proxy: Cluster;
  #count = 0;

  constructor({ stage, random, prefix, createAtSource, causeway }: WalkOptions) {
    this.#stage = stage;
    this.#random = random;
    this.model = new TaskModel(prefix);
    this.#acting = causeway ?? stage.causeway;
    this.#proxy = openCluster({ bootstrap: this.#acting.bootstrap });
    this.#create =
      createAtSource ??
      ((topic, partitions, configs) =>
        createTopic(stage.atSource, topic, { partitions, configs: { ...configs } }));
  }

  get acting(): CausewayProcess {
    return this.#acting;
  }

  get #link(): string {
    return this.model.prefix;
  }

  async createLink(): Promise<void> {
    const { prefix, principal } = this.model;
    const configs = Object.entries(walkSettings(prefix, principal)).flatMap(([name, value]) => [
      '--config',
      `${name}=${value}`,
    ]);
    const { bootstrap } = this.#stage.source;
    await this.#acting.cli('link', 'create', this.#link, '--source', bootstrap, ...configs);
  }

  async close(): Promise<void> {
    await this.#proxy.close();
  }

  /** One step, and the look at what may never be. */
  async step(): Promise<void> {
    const { model } = this;
    const step = this.#choose();
    const what = await step();
    this.done.push(what);
    const breaches = await model.breaches(this.#sides, () => this.told());
    assert.deepEqual(breaches, [], `after ${this.done.slice(-8).join(', ')}`);
  }

  /** Everything goes on, and everything is done. */
  async rest(): Promise<void> {
    let seen: readonly string[] = [];
    await until(
      'nothing left to be done',
      async () => {
        for (const { name, state } of (await this.told()).mirrors) {
          const isOurs = name.startsWith(this.model.prefix);
          if (isOurs && state === 'PAUSED') await command(this.#acting, 'resume', name);
        }
        seen = ['no answer'];
        seen = await this.model.violations(this.#sides, await this.told());
        return seen.length === 0;
      },
      {
        deadlineMs: restDeadlineMs,
        intervalMs: 200,
        describe: () => `${seen.join('\n')}\nafter ${this.done.slice(-20).join(', ')}`,
      },
    );
    for (const topic of this.model.topics.filter(({ isPromoted }) => isPromoted)) {
      topic.rest ??= await this.model.restOf(topic, this.#stage.atDestination);
    }
    this.done.push('rest');
  }

  get #sides(): Sides {
    const { atSource, atDestination } = this.#stage;
    return { source: atSource, destination: atDestination, proxy: this.#proxy };
  }

  async told(): Promise<Told> {
    const [{ groups }, { mirrors }] = await Promise.all([
      this.#acting.get<Pick<Told, 'groups'>>(`/causeway/v1/links/${this.#link}/groups`),
      this.#acting.get<Pick<Told, 'mirrors'>>('/causeway/v1/mirrors'),
    ]);
    return { groups, mirrors };
  }

  #choose(): Step {
    const { mirrored, topics } = this.model;
    if (mirrored.length < 2) return () => this.addTopic();
    const steps: readonly (readonly [number, Step])[] = [
      [topics.length < 8 ? 2 : 0, () => this.addTopic()],
      [5, () => this.write()],
      [3, () => this.transact()],
      [1, () => this.deleteRecords()],
      [8, () => this.commitAtSource()],
      [4, () => this.commitHere()],
      [1, () => this.deleteGroupHere()],
      [1, () => this.deleteGroupAtSource()],
      [3, () => this.configAtSource()],
      [1, () => this.configHere()],
      [3, () => this.aclAtSource()],
      [2, () => this.aclHere()],
      [1, () => this.ownTopic()],
      [2, () => this.pause()],
      [mirrored.length > 3 ? 1 : 0, () => this.failover()],
      [1, () => this.killProxy()],
    ];
    let at = this.#random.below(steps.reduce((sum, [weight]) => sum + weight, 0));
    const found = steps.find(([weight]) => {
      at -= weight;
      return at < 0;
    });
    return found?.[1] ?? (() => this.write());
  }

  async addTopic(): Promise<string> {
    const { model } = this;
    const name = `${model.prefix}.t${model.topics.length}`;
    const partitions = 1 + this.#random.below(2);
    const isCompacted = this.#random.below(2) === 0;
    await this.#create(name, partitions, isCompacted ? cleanedOften : {});
    const topic = {
      name,
      partitions,
      written: Array.from({ length: partitions }, () => new Map<number, string>()),
      deletedBelow: [],
      retention: null,
      editedTo: null,
      isPromoted: false,
      rest: null,
    };
    model.topics.push(topic);
    for (let partition = 0; partition < partitions; partition++) {
      await this.#write(topic, partition);
    }
    return `topic ${name}${isCompacted ? ', compacted' : ''}`;
  }

  #note(topic: WalkTopic, partition: number, base: bigint, list: string[]) {
    for (const [index, value] of list.entries()) {
      topic.written[partition]?.set(Number(base) + index, value);
    }
  }

  async #write(topic: WalkTopic, partition: number): Promise<void> {
    const list = values(`w${this.#count++}`, 1 + this.#random.below(12));
    const base = await write(this.#stage.atSource, topic.name, partition, list);
    this.#note(topic, partition, base, list);
  }

  #place() {
    const topic = this.#random.pick(this.model.mirrored);
    return { topic, partition: this.#random.below(topic.partitions) };
  }

  async write(): Promise<string> {
    const { topic, partition } = this.#place();
    await this.#write(topic, partition);
    return `write to ${topic.name}-${partition}`;
  }

  async transact(): Promise<string> {
    const { topic, partition } = this.#place();
    const { atSource } = this.#stage;
    const id = `${topic.name}-writer`;
    const producer = await newProducer(atSource, id);
    await startTransaction(atSource, producer, topic.name, [partition]);
    const list = values(`x${this.#count++}`, 1 + this.#random.below(5));
    const base = await write(atSource, topic.name, partition, list, { producer, sequence: 0 });
    this.#note(topic, partition, base, list);
    const outcome = this.#random.pick(['commit', 'abort'] as const);
    await endTransaction(atSource, producer, outcome);
    return `${outcome} in ${topic.name}-${partition}`;
  }

  async deleteRecords(): Promise<string> {
    const { topic, partition } = this.#place();
    const [start, end] = await this.#range(topic.name, partition);
    const below = start + BigInt(this.#random.below(1 + Number(end - start) / 2));
    try {
      await deleteRecords(this.#stage.atSource, topic.name, partition, below);
    } catch (error) {
      // A topic that is only compacted refuses it.
      if (!(error instanceof Error && error.message.endsWith('error 44'))) throw error;
      return `no deletion in ${topic.name}`;
    }
    topic.deletedBelow[partition] = Number(below);
    return `delete below ${below} in ${topic.name}-${partition}`;
  }

  async #range(topic: string, partition: number): Promise<[bigint, bigint]> {
    const [starts, ends] = await Promise.all(
      [-2n, -1n].map((time) => offsets(this.#stage.atSource, topic, time)),
    );
    return [starts?.[partition] ?? 0n, ends?.[partition] ?? 0n];
  }

  #group(kinds: readonly WalkGroup['kind'][]): WalkGroup {
    const { groups, mirrored } = this.model;
    const usable = groups.filter((one) => kinds.includes(one.kind) && !one.topic.isPromoted);
    const isNew = usable.length === 0 || (groups.length < groupsMax && this.#random.below(3) === 0);
    if (!isNew) return this.#random.pick(usable);
    return this.#newGroup(this.#random.pick(kinds), this.#random.pick(mirrored));
  }

  #newGroup(kind: WalkGroup['kind'], topic: WalkTopic): WalkGroup {
    const { groups, prefix } = this.model;
    const group: WalkGroup = {
      name: `${prefix}.g${groups.length}.${kind}`,
      kind,
      topic,
      atSource: null,
      history: Array.from({ length: topic.partitions }, () => new Set<number>()),
      own: null,
      isDeletedAtSource: false,
      isForgotten: false,
    };
    groups.push(group);
    return group;
  }

  /** A group that the source alone leads, at the very end of a topic; waits until it is here. */
  async commitAtEnd(topic: WalkTopic): Promise<void> {
    const group = this.#newGroup('led', topic);
    const ends = (await offsets(this.#stage.atSource, topic.name, -1n)).map(Number);
    await commitOffsets(this.#stage.atSource, group.name, topic.name, ends);
    group.atSource = ends;
    for (const [partition, end] of ends.entries()) group.history[partition]?.add(end);
    await until(`${group.name} at ${ends.join()}`, async () => {
      const { atDestination } = this.#stage;
      const seen = await committedOffsets(atDestination, group.name, topic.name, topic.partitions);
      return seen.join() === ends.join();
    });
  }

  async commitAtSource(): Promise<string> {
    const group = this.#group(['led', 'rival']);
    const { topic, name } = group;
    const ends = await offsets(this.#stage.atSource, topic.name, -1n);
    // Seldom beyond the end, as a consumer that a truncation has left behind.
    const beyond = this.#random.below(12) === 0 ? 5 : 0;
    const wanted = ends.map((end) => this.#random.below(Number(end) + 1) + beyond);
    await commitOffsets(this.#stage.atSource, name, topic.name, wanted);
    for (const [partition, offset] of wanted.entries()) {
      const end = Number(ends[partition]);
      group.history[partition]?.add(offset).add(Math.min(offset, end));
    }
    group.atSource = wanted;
    group.isDeletedAtSource = false;
    return `${name} commits ${wanted.join()} at the source`;
  }

  /**
   * There is no commit on a condition: what the task has read just before it writes may be old by
   * then, for a moment (design §8). So this one is made again when it falls into such a moment.
   */
  async commitHere(): Promise<string> {
    const group = this.#group(['rival', 'own']);
    const { topic, name } = group;
    const { atDestination } = this.#stage;
    const view = (await this.told()).mirrors.find((one) => one.name === topic.name);
    const ends = view?.partitions.map(({ mirrorEnd }) => Number(mirrorEnd)) ?? [];
    if (ends.length !== topic.partitions) return `${topic.name} is not there yet`;
    const wanted = ends.map((end) => this.#random.below(end + 1));
    group.own = null;
    await until(`${name} committed at the destination`, async () => {
      await commitOffsets(atDestination, name, topic.name, wanted);
      return this.#stays(group, wanted);
    });
    group.own = wanted;
    return `${name} commits ${wanted.join()} here`;
  }

  async #stays(group: WalkGroup, wanted: readonly number[]): Promise<boolean> {
    const { topic, name } = group;
    const sinceMs = performance.now();
    let seen: readonly number[] = [];
    await until('some rounds', async () => {
      const { atDestination } = this.#stage;
      seen = await committedOffsets(atDestination, name, topic.name, topic.partitions);
      return seen.join() !== wanted.join() || performance.now() - sinceMs > undisturbedMs;
    });
    // The source's own commit may lead again, by the rules.
    const isLed = seen.every((offset, index) => group.history[index]?.has(offset) === true);
    return seen.join() === wanted.join() || isLed;
  }

  async deleteGroupHere(): Promise<string> {
    const group = this.#group(['rival', 'own']);
    await deleteGroup(this.#stage.atDestination, group.name);
    group.own = group.history.map(() => -1);
    return `${group.name} deleted here`;
  }

  async deleteGroupAtSource(): Promise<string> {
    const group = this.#group(['led', 'rival']);
    await deleteGroup(this.#stage.atSource, group.name);
    if (group.atSource !== null)
      Object.assign(group, { isDeletedAtSource: true, isForgotten: true });
    return `${group.name} deleted at the source`;
  }

  async #set(cluster: Cluster, topic: string, value: string | null): Promise<void> {
    const change = [{ name: retention, value }];
    const result = (await alterTopicConfigs(cluster, new Map([[topic, change]]))).get(topic);
    assert.equal(result?.errorCode, 0, result?.message);
  }

  async configAtSource(): Promise<string> {
    const { topic } = this.#place();
    const value = this.#random.below(4) === 0 ? null : String(10_000_000 + this.#count++);
    await this.#set(this.#stage.atSource, topic.name, value);
    topic.retention = value;
    return `${retention} of ${topic.name} is ${value} at the source`;
  }

  /** What was set back to the source's value follows it again. */
  async configHere(): Promise<string> {
    const { topic } = this.#place();
    const view = (await this.told()).mirrors.find(({ name }) => name === topic.name);
    if (view?.state !== 'ACTIVE') return `${topic.name} is not there yet`;
    await this.rest();
    const isBack = topic.editedTo !== null && topic.retention !== null;
    const value = isBack ? topic.retention : String(20_000_000 + this.#count++);
    await this.#set(this.#stage.atDestination, topic.name, value);
    topic.editedTo = isBack ? null : value;
    await this.rest();
    return `${retention} of ${topic.name} is ${value} here`;
  }

  #acl(name: string) {
    const { principal } = this.model;
    const operation = this.#random.pick([3, 4, 8]);
    const place = { resourceType: 2, resourceName: name, patternType: this.#random.pick([3, 4]) };
    return { ...place, principal, host: '*', operation, permissionType: 3 };
  }

  async aclAtSource(): Promise<string> {
    const { sourceAcls, mirrored, prefix } = this.model;
    const { atSource } = this.#stage;
    const known = [...sourceAcls];
    if (known.length > 3 && this.#random.below(2) === 0) {
      const [key, acl] = this.#random.pick(known);
      assert.deepEqual(await deleteAcls(atSource, [acl]), [null]);
      sourceAcls.delete(key);
      return 'an ACL less at the source';
    }
    const name = this.#random.pick([prefix, ...mirrored.map((topic) => topic.name)]);
    const acl = this.#acl(name);
    assert.deepEqual(await createAcls(atSource, [acl]), [null]);
    sourceAcls.set(aclKey(acl), acl);
    return 'an ACL more at the source';
  }

  /** Made by hand, or one of the source's taken away: it comes again. */
  async aclHere(): Promise<string> {
    const { sourceAcls, ownAcls, prefix } = this.model;
    const { atDestination } = this.#stage;
    const known = [...sourceAcls].filter(([key]) => !ownAcls.has(key));
    if (known.length > 0 && this.#random.below(2) === 0) {
      const [, acl] = this.#random.pick(known);
      assert.deepEqual(await deleteAcls(atDestination, [acl]), [null]);
      return 'an ACL less here';
    }
    const acl = this.#acl(`${prefix}.own${this.#count++}`);
    assert.deepEqual(await createAcls(atDestination, [acl]), [null]);
    ownAcls.set(aclKey(acl), acl);
    return 'an ACL more here';
  }

  /** A topic of the destination's own stands where a mirror would be made. */
  async ownTopic(): Promise<string> {
    const name = `${this.model.prefix}.mine${this.model.ownTopics.size}`;
    await createTopic(this.#stage.atDestination, name);
    await write(this.#stage.atDestination, name, 0, [name]);
    await this.#create(name, 1, {});
    await write(this.#stage.atSource, name, 0, ['theirs']);
    this.model.ownTopics.set(name, name);
    return `topic ${name} on both sides`;
  }

  async pause(): Promise<string> {
    const { topic } = this.#place();
    const { error } = await command(
      this.#acting,
      this.#random.pick(['pause', 'resume']),
      topic.name,
    );
    return `pause or resume ${topic.name}: ${error?.code ?? 'done'}`;
  }

  async failover(): Promise<string> {
    await this.rest();
    const { topic } = this.#place();
    const { error } = await command(this.#acting, 'failover', topic.name);
    assert.equal(error, null);
    topic.isPromoted = true;
    return `failover of ${topic.name}`;
  }

  async killProxy(): Promise<string> {
    await this.#acting.kill9();
    await this.#acting.start();
    this.#forget();
    return 'the proxy killed';
  }

  /** The owner is stopped in whatever it does, succeeded, and goes on beside its successor. */
  async stale(steps: number): Promise<void> {
    const old = this.#acting;
    await old.pause();
    const successor = await this.#stage.prepareAnother({ copyDirectoryFrom: old.storageDirectory });
    await successor.start();
    await this.#actAs(successor);
    this.#forget();
    this.done.push('a successor');
    for (let count = 0; count < steps; count++) await this.step();
    old.resume();
    this.done.push('the old owner goes on');
    await until('the word that the lease is lost', () =>
      old.log().some(({ event }) => event === 'lease_lost'),
    );
    for (let count = 0; count < steps; count++) await this.step();
    await this.rest();
    await old.kill9();
  }

  #forget(): void {
    for (const group of this.model.groups) group.isForgotten = true;
  }

  async #actAs(causeway: CausewayProcess): Promise<void> {
    await this.#proxy.close();
    this.#acting = causeway;
    this.#proxy = openCluster({ bootstrap: causeway.bootstrap });
  }
}

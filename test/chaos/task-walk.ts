// A random walk over everything that a link's tasks look after: topics, groups, ACLs and configs
// are changed on both sides, the proxy is killed, and an owner that was stopped goes on after it
// was succeeded. The model (task-model.ts) judges.
//
// Owns: which step comes next, and what happens to instances. Refuses to know how a step is done
// (walk-topics.ts, walk-groups.ts, walk-configs-acls.ts).
// Invariant: after each step nothing has been done that should not have been, and at each rest
// everything has been done.

import assert from 'node:assert/strict';
import type { CausewayProcess } from '../helpers/causeway-process.ts';
import { until } from '../helpers/wait.ts';
import type { TaskModel, WalkTopic } from './task-model.ts';
import { SettingSteps } from './walk-configs-acls.ts';
import { GroupSteps } from './walk-groups.ts';
import { type WalkOptions, WalkScene } from './walk-scene.ts';
import { walkSettings } from './walk-settings.ts';
import { TopicSteps } from './walk-topics.ts';

type Step = () => Promise<string>;

export class TaskWalk {
  readonly #scene: WalkScene;
  readonly #topics: TopicSteps;
  readonly #groups: GroupSteps;
  readonly #settings: SettingSteps;

  constructor(options: WalkOptions) {
    this.#scene = new WalkScene(options);
    this.#topics = new TopicSteps(this.#scene);
    this.#groups = new GroupSteps(this.#scene);
    this.#settings = new SettingSteps(this.#scene);
  }

  get model(): TaskModel {
    return this.#scene.model;
  }

  get done(): readonly string[] {
    return this.#scene.done;
  }

  get acting(): CausewayProcess {
    return this.#scene.acting;
  }

  async createLink(): Promise<void> {
    const { prefix, principal } = this.model;
    const configs = Object.entries(walkSettings(prefix, principal)).flatMap(([name, value]) => [
      '--config',
      `${name}=${value}`,
    ]);
    const { bootstrap } = this.#scene.stage.source;
    await this.acting.cli('link', 'create', prefix, '--source', bootstrap, ...configs);
  }

  async close(): Promise<void> {
    await this.#scene.close();
  }

  /** One step, and the look at what may never be. */
  async step(): Promise<void> {
    const step = this.#choose();
    this.#scene.done.push(await step());
    const breaches = await this.model.breaches(this.#scene.sides, () => this.#scene.told());
    assert.deepEqual(breaches, [], `after ${this.done.slice(-8).join(', ')}`);
  }

  async steps(count: number): Promise<void> {
    for (let index = 0; index < count; index++) await this.step();
  }

  async rest(): Promise<void> {
    await this.#scene.rest();
  }

  async commitAtEnd(topic: WalkTopic): Promise<void> {
    await this.#groups.commitAtEnd(topic);
  }

  #choose(): Step {
    const { mirrored, topics: all } = this.model;
    const [topics, groups, settings] = [this.#topics, this.#groups, this.#settings];
    if (mirrored.length < 2) return () => topics.addTopic();
    const steps: readonly (readonly [number, Step])[] = [
      [all.length < 8 ? 2 : 0, () => topics.addTopic()],
      [5, () => topics.write()],
      [3, () => topics.transact()],
      [1, () => topics.deleteRecords()],
      [8, () => groups.commitAtSource()],
      [4, () => groups.commitHere()],
      [1, () => groups.deleteGroupHere()],
      [1, () => groups.deleteGroupAtSource()],
      [3, () => settings.configAtSource()],
      [1, () => settings.configHere()],
      [3, () => settings.aclAtSource()],
      [2, () => settings.aclHere()],
      [1, () => topics.ownTopic()],
      [2, () => topics.pause()],
      [mirrored.length > 3 ? 1 : 0, () => topics.failover()],
      [1, () => this.killProxy()],
    ];
    let at = this.#scene.random.below(steps.reduce((sum, [weight]) => sum + weight, 0));
    const found = steps.find(([weight]) => {
      at -= weight;
      return at < 0;
    });
    return found?.[1] ?? (() => topics.write());
  }

  async killProxy(): Promise<string> {
    await this.acting.kill9();
    await this.acting.start();
    this.#forget();
    return 'the proxy killed';
  }

  /** The owner is stopped in whatever it does, succeeded, and goes on beside its successor. */
  async stale(steps: number): Promise<void> {
    const { done, stage } = this.#scene;
    const old = this.acting;
    await old.pause();
    const successor = await stage.prepareAnother({ copyDirectoryFrom: old.storageDirectory });
    await successor.start();
    await this.#scene.actAs(successor);
    this.#forget();
    done.push('a successor');
    await this.steps(steps);
    old.resume();
    done.push('the old owner goes on');
    await until('the word that the lease is lost', () =>
      old.log().some(({ event }) => event === 'lease_lost'),
    );
    await this.steps(steps);
    await this.rest();
    await old.kill9();
  }

  #forget(): void {
    for (const group of this.model.groups) group.isForgotten = true;
  }
}

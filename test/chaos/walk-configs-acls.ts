// What a walk of the sync tasks (task-walk.ts) does to configs and ACLs, on both sides.
//
// Owns: these steps, and what the model is told of each. Refuses to judge. Invariant: a config is
// edited at the destination only while everything is in step, since otherwise nobody could tell the
// edit from what the task was about to write.

import assert from 'node:assert/strict';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { alterTopicConfigs } from '../../src/cluster/config-requests.ts';
import { aclKey } from '../../src/tasks/acl-diff.ts';
import { createAcls, deleteAcls } from '../../src/tasks/acl-requests.ts';
import { retention } from './task-model.ts';
import type { WalkScene } from './walk-scene.ts';

export class SettingSteps {
  readonly #scene: WalkScene;

  constructor(scene: WalkScene) {
    this.#scene = scene;
  }

  async #set(cluster: Cluster, topic: string, value: string | null): Promise<void> {
    const change = [{ name: retention, value }];
    const result = (await alterTopicConfigs(cluster, new Map([[topic, change]]))).get(topic);
    assert.equal(result?.errorCode, 0, result?.message);
  }

  async configAtSource(): Promise<string> {
    const { topic } = this.#scene.place();
    const value =
      this.#scene.random.below(4) === 0 ? null : String(10_000_000 + this.#scene.count++);
    await this.#set(this.#scene.stage.atSource, topic.name, value);
    topic.retention = value;
    return `${retention} of ${topic.name} is ${value} at the source`;
  }

  /** What was set back to the source's value follows it again. */
  async configHere(): Promise<string> {
    const { topic } = this.#scene.place();
    const view = (await this.#scene.told()).mirrors.find(({ name }) => name === topic.name);
    if (view?.state !== 'ACTIVE') return `${topic.name} is not there yet`;
    await this.#scene.rest();
    const isBack = topic.editedTo !== null && topic.retention !== null;
    const value = isBack ? topic.retention : String(20_000_000 + this.#scene.count++);
    await this.#set(this.#scene.stage.atDestination, topic.name, value);
    topic.editedTo = isBack ? null : value;
    await this.#scene.rest();
    return `${retention} of ${topic.name} is ${value} here`;
  }

  #acl(name: string) {
    const { principal } = this.#scene.model;
    const operation = this.#scene.random.pick([3, 4, 8]);
    const place = {
      resourceType: 2,
      resourceName: name,
      patternType: this.#scene.random.pick([3, 4]),
    };
    return { ...place, principal, host: '*', operation, permissionType: 3 };
  }

  async aclAtSource(): Promise<string> {
    const { sourceAcls, mirrored, prefix } = this.#scene.model;
    const { atSource } = this.#scene.stage;
    const known = [...sourceAcls];
    if (known.length > 3 && this.#scene.random.below(2) === 0) {
      const [key, acl] = this.#scene.random.pick(known);
      assert.deepEqual(await deleteAcls(atSource, [acl]), [null]);
      sourceAcls.delete(key);
      return 'an ACL less at the source';
    }
    const name = this.#scene.random.pick([prefix, ...mirrored.map((topic) => topic.name)]);
    const acl = this.#acl(name);
    assert.deepEqual(await createAcls(atSource, [acl]), [null]);
    sourceAcls.set(aclKey(acl), acl);
    return 'an ACL more at the source';
  }

  /** Made by hand, or one of the source's taken away: it comes again. */
  async aclHere(): Promise<string> {
    const { sourceAcls, ownAcls, prefix } = this.#scene.model;
    const { atDestination } = this.#scene.stage;
    const known = [...sourceAcls].filter(([key]) => !ownAcls.has(key));
    if (known.length > 0 && this.#scene.random.below(2) === 0) {
      const [, acl] = this.#scene.random.pick(known);
      assert.deepEqual(await deleteAcls(atDestination, [acl]), [null]);
      return 'an ACL less here';
    }
    const acl = this.#acl(`${prefix}.own${this.#scene.count++}`);
    assert.deepEqual(await createAcls(atDestination, [acl]), [null]);
    ownAcls.set(aclKey(acl), acl);
    return 'an ACL more here';
  }
}

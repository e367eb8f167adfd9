// What a walk of the sync tasks (task-walk.ts) does to groups: commits and deletions on both sides.
//
// Owns: these steps, and what the model is told of each. Refuses to judge. Invariant: a commit at
// the destination that falls into the moment between a look and a write of the task is made again,
// so that the model need not know that moment.

import { deleteGroup } from '../helpers/delete-group.ts';
import { commitOffsets, committedOffsets } from '../helpers/group-offsets.ts';
import { offsets } from '../helpers/linked-stage.ts';
import { until } from '../helpers/wait.ts';
import type { WalkGroup, WalkTopic } from './task-model.ts';
import type { WalkScene } from './walk-scene.ts';

/** Longer than a round of the group task and the age of what it has read. */
const undisturbedMs = 700;
const groupsMax = 24;

export class GroupSteps {
  readonly #scene: WalkScene;

  constructor(scene: WalkScene) {
    this.#scene = scene;
  }

  #group(kinds: readonly WalkGroup['kind'][]): WalkGroup {
    const { groups, mirrored } = this.#scene.model;
    const usable = groups.filter((one) => kinds.includes(one.kind) && !one.topic.isPromoted);
    const isNew =
      usable.length === 0 || (groups.length < groupsMax && this.#scene.random.below(3) === 0);
    if (!isNew) return this.#scene.random.pick(usable);
    return this.#newGroup(this.#scene.random.pick(kinds), this.#scene.random.pick(mirrored));
  }

  #newGroup(kind: WalkGroup['kind'], topic: WalkTopic): WalkGroup {
    const { groups, prefix } = this.#scene.model;
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
    const ends = (await offsets(this.#scene.stage.atSource, topic.name, -1n)).map(Number);
    await commitOffsets(this.#scene.stage.atSource, group.name, topic.name, ends);
    group.atSource = ends;
    for (const [partition, end] of ends.entries()) group.history[partition]?.add(end);
    await until(`${group.name} at ${ends.join()}`, async () => {
      const { atDestination } = this.#scene.stage;
      const seen = await committedOffsets(atDestination, group.name, topic.name, topic.partitions);
      return seen.join() === ends.join();
    });
  }

  async commitAtSource(): Promise<string> {
    const group = this.#group(['led', 'rival']);
    const { topic, name } = group;
    const ends = await offsets(this.#scene.stage.atSource, topic.name, -1n);
    // Seldom beyond the end, as a consumer that a truncation has left behind.
    const beyond = this.#scene.random.below(12) === 0 ? 5 : 0;
    const wanted = ends.map((end) => this.#scene.random.below(Number(end) + 1) + beyond);
    await commitOffsets(this.#scene.stage.atSource, name, topic.name, wanted);
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
    const { atDestination } = this.#scene.stage;
    const view = (await this.#scene.told()).mirrors.find((one) => one.name === topic.name);
    const ends = view?.partitions.map(({ mirrorEnd }) => Number(mirrorEnd)) ?? [];
    if (ends.length !== topic.partitions) return `${topic.name} is not there yet`;
    const wanted = ends.map((end) => this.#scene.random.below(end + 1));
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
      const { atDestination } = this.#scene.stage;
      seen = await committedOffsets(atDestination, name, topic.name, topic.partitions);
      return seen.join() !== wanted.join() || performance.now() - sinceMs > undisturbedMs;
    });
    // The source's own commit may lead again, by the rules.
    const isLed = seen.every((offset, index) => group.history[index]?.has(offset) === true);
    return seen.join() === wanted.join() || isLed;
  }

  async deleteGroupHere(): Promise<string> {
    const group = this.#group(['rival', 'own']);
    await deleteGroup(this.#scene.stage.atDestination, group.name);
    group.own = group.history.map(() => -1);
    return `${group.name} deleted here`;
  }

  async deleteGroupAtSource(): Promise<string> {
    const group = this.#group(['led', 'rival']);
    await deleteGroup(this.#scene.stage.atSource, group.name);
    if (group.atSource !== null)
      Object.assign(group, { isDeletedAtSource: true, isForgotten: true });
    return `${group.name} deleted at the source`;
  }
}

// What a walk of the sync tasks (task-walk.ts) does to topics: makes them, writes, deletes records,
// puts topics of the destination's own in the way, pauses and fails over.
//
// Owns: these steps, and what the model is told of each. Refuses to judge. Invariant: what was
// written is noted with its offset, and a step ends when the cluster has answered.

import assert from 'node:assert/strict';
import { offsets } from '../helpers/linked-stage.ts';
import { command } from '../helpers/mirror-commands.ts';
import {
  endTransaction,
  newProducer,
  startTransaction,
  values,
  write,
} from '../helpers/raw-writes.ts';
import { createTopic, deleteRecords } from '../helpers/topic-admin.ts';
import type { WalkTopic } from './task-model.ts';
import type { WalkScene } from './walk-scene.ts';
import { cleanedOften } from './walk-settings.ts';

export class TopicSteps {
  readonly #scene: WalkScene;

  constructor(scene: WalkScene) {
    this.#scene = scene;
  }

  async addTopic(): Promise<string> {
    const { model } = this.#scene;
    const name = `${model.prefix}.t${model.topics.length}`;
    const partitions = 1 + this.#scene.random.below(2);
    const isCompacted = this.#scene.random.below(2) === 0;
    await this.#scene.createAtSource(name, partitions, isCompacted ? cleanedOften : {});
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
      await this.#writeTo(topic, partition);
    }
    return `topic ${name}${isCompacted ? ', compacted' : ''}`;
  }

  #note(topic: WalkTopic, partition: number, base: bigint, list: string[]) {
    for (const [index, value] of list.entries()) {
      topic.written[partition]?.set(Number(base) + index, value);
    }
  }

  async #writeTo(topic: WalkTopic, partition: number): Promise<void> {
    const list = values(`w${this.#scene.count++}`, 1 + this.#scene.random.below(12));
    const base = await write(this.#scene.stage.atSource, topic.name, partition, list);
    this.#note(topic, partition, base, list);
  }

  async write(): Promise<string> {
    const { topic, partition } = this.#scene.place();
    await this.#writeTo(topic, partition);
    return `write to ${topic.name}-${partition}`;
  }

  async transact(): Promise<string> {
    const { topic, partition } = this.#scene.place();
    const { atSource } = this.#scene.stage;
    const id = `${topic.name}-writer`;
    const producer = await newProducer(atSource, id);
    await startTransaction(atSource, producer, topic.name, [partition]);
    const list = values(`x${this.#scene.count++}`, 1 + this.#scene.random.below(5));
    const base = await write(atSource, topic.name, partition, list, { producer, sequence: 0 });
    this.#note(topic, partition, base, list);
    const outcome = this.#scene.random.pick(['commit', 'abort'] as const);
    await endTransaction(atSource, producer, outcome);
    return `${outcome} in ${topic.name}-${partition}`;
  }

  async deleteRecords(): Promise<string> {
    const { topic, partition } = this.#scene.place();
    const [start, end] = await this.#range(topic.name, partition);
    const below = start + BigInt(this.#scene.random.below(1 + Number(end - start) / 2));
    try {
      await deleteRecords(this.#scene.stage.atSource, topic.name, partition, below);
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
      [-2n, -1n].map((time) => offsets(this.#scene.stage.atSource, topic, time)),
    );
    return [starts?.[partition] ?? 0n, ends?.[partition] ?? 0n];
  }

  /** A topic of the destination's own stands where a mirror would be made. */
  async ownTopic(): Promise<string> {
    const name = `${this.#scene.model.prefix}.mine${this.#scene.model.ownTopics.size}`;
    await createTopic(this.#scene.stage.atDestination, name);
    await write(this.#scene.stage.atDestination, name, 0, [name]);
    await this.#scene.createAtSource(name, 1, {});
    await write(this.#scene.stage.atSource, name, 0, ['theirs']);
    this.#scene.model.ownTopics.set(name, name);
    return `topic ${name} on both sides`;
  }

  async pause(): Promise<string> {
    const { topic } = this.#scene.place();
    const { error } = await command(
      this.#scene.acting,
      this.#scene.random.pick(['pause', 'resume']),
      topic.name,
    );
    return `pause or resume ${topic.name}: ${error?.code ?? 'done'}`;
  }

  async failover(): Promise<string> {
    await this.#scene.rest();
    const { topic } = this.#scene.place();
    const { error } = await command(this.#scene.acting, 'failover', topic.name);
    assert.equal(error, null);
    topic.isPromoted = true;
    return `failover of ${topic.name}`;
  }
}

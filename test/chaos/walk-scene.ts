// Where a walk of the sync tasks (task-walk.ts) takes place: both clusters, the instance that acts,
// the model, and the seed's choices.
//
// Owns: which instance acts, waiting until nothing is left to be done, and asking the proxy. Knows
// the product from outside only. Invariant: every random choice comes from the one seed.
import type { Cluster } from '../../src/cluster/cluster.ts';
import type { CausewayProcess } from '../helpers/causeway-process.ts';
import type { LinkedStage } from '../helpers/linked-stage.ts';
import { command } from '../helpers/mirror-commands.ts';
import { openCluster } from '../helpers/raw-batches.ts';
import type { SeededRandom } from '../helpers/seeded-random.ts';
import { createTopic } from '../helpers/topic-admin.ts';
import { until } from '../helpers/wait.ts';
import { type Sides, TaskModel, type Told, type WalkTopic } from './task-model.ts';

const restDeadlineMs = 150_000;

export interface WalkOptions {
  readonly stage: LinkedStage;
  readonly random: SeededRandom;
  readonly prefix: string;
  /** The instance that acts; default: the stage's. */
  readonly causeway?: CausewayProcess | undefined;
  /** Makes the source's topics where something else than its defaults is wanted. */
  readonly createAtSource?: (topic: string, partitions: number, configs: object) => Promise<void>;
}

export class WalkScene {
  readonly stage: LinkedStage;
  readonly random: SeededRandom;
  readonly model: TaskModel;
  readonly createAtSource: NonNullable<WalkOptions['createAtSource']>;
  /** What has been done, one line each. */
  readonly done: string[] = [];
  /** Tells values apart. */
  count = 0;
  #acting: CausewayProcess;
  #proxy: Cluster;

  constructor({ stage, random, prefix, createAtSource, causeway }: WalkOptions) {
    this.stage = stage;
    this.random = random;
    this.model = new TaskModel(prefix);
    this.#acting = causeway ?? stage.causeway;
    this.#proxy = openCluster({ bootstrap: this.#acting.bootstrap });
    this.createAtSource =
      createAtSource ??
      ((topic, partitions, configs) =>
        createTopic(stage.atSource, topic, { partitions, configs: { ...configs } }));
  }

  get acting(): CausewayProcess {
    return this.#acting;
  }

  async actAs(causeway: CausewayProcess): Promise<void> {
    await this.#proxy.close();
    this.#acting = causeway;
    this.#proxy = openCluster({ bootstrap: causeway.bootstrap });
  }

  get sides(): Sides {
    const { atSource, atDestination } = this.stage;
    return { source: atSource, destination: atDestination, proxy: this.#proxy };
  }

  async told(): Promise<Told> {
    const [{ groups }, { mirrors }] = await Promise.all([
      this.#acting.get<Pick<Told, 'groups'>>(`/causeway/v1/links/${this.model.prefix}/groups`),
      this.#acting.get<Pick<Told, 'mirrors'>>('/causeway/v1/mirrors'),
    ]);
    return { groups, mirrors };
  }

  place(): { readonly topic: WalkTopic; readonly partition: number } {
    const topic = this.random.pick(this.model.mirrored);
    return { topic, partition: this.random.below(topic.partitions) };
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
        seen = await this.model.violations(this.sides, await this.told());
        return seen.length === 0;
      },
      {
        deadlineMs: restDeadlineMs,
        intervalMs: 200,
        describe: () => `${seen.join('\n')}\nafter ${this.done.slice(-20).join(', ')}`,
      },
    );
    for (const topic of this.model.topics.filter(({ isPromoted }) => isPromoted)) {
      topic.rest ??= await this.model.restOf(topic, this.stage.atDestination);
    }
    this.done.push('rest');
  }

  async close(): Promise<void> {
    await this.#proxy.close();
  }
}

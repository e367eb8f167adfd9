// The state topic of an instance, as the one topic that it is: found or made at the start, checked,
// and looked at from time to time, since a topic that was deleted and made again under the name is
// not our state. Owns its id and the words for its loss; refuses to know what is in it.
// Invariant: beside mirror logs a topic that is missing or empty is a loss, never a first start.
import { zeroUuid } from '../../protocol/index.ts';
import type { Cluster } from '../cluster/cluster.ts';
import { StateError } from './state.ts';
import {
  asUnavailable,
  checkStateTopic,
  createStateTopic,
  findStateTopic,
  stateTopicName,
} from './state-topic.ts';

export interface OwnTopicParts {
  /** The instance's name. */
  readonly name: string;
  readonly cluster: Cluster;
  readonly signal: AbortSignal;
  /** There are mirror logs. */
  readonly mirrorStorageExists: boolean;
  /** What it can be restored from. */
  readonly snapshotFile: string;
}

/** It is there, under another id. */
export interface Replaced {
  readonly topicId: string;
  readonly message: string;
}

export class OwnTopic {
  readonly name: string;
  readonly #parts: OwnTopicParts;
  #topicId = zeroUuid;
  #clusterId: string | null = null;

  constructor(parts: OwnTopicParts) {
    this.#parts = parts;
    this.name = stateTopicName(parts.name);
  }

  get clusterId(): string | null {
    return this.#clusterId;
  }

  /** @throws StateError MISSING, CORRUPT, UNAVAILABLE */
  async prepare(): Promise<void> {
    const { cluster, signal, mirrorStorageExists } = this.#parts;
    const found = await findStateTopic(cluster, this.name, signal);
    if (!found && mirrorStorageExists) throw this.missing('does not exist');
    const info = found ?? (await createStateTopic(cluster, this.name, signal));
    await checkStateTopic(cluster, info, signal);
    this.#topicId = info.topicId;
    this.#clusterId = (await cluster.metadata([])).clusterId;
  }

  missing(how: string): StateError {
    const message =
      `state topic ${this.name} ${how}, but there are mirror logs: their timelines ` +
      `would be lost. Restore it with "${this.#importCommand}" ` +
      '(or from another export), then start again';
    return new StateError('MISSING', message);
  }

  /** @throws StateError UNAVAILABLE */
  async replaced(): Promise<Replaced | null> {
    let topicId: string | undefined;
    try {
      const metadata = await this.#parts.cluster.metadata([this.name]);
      topicId = metadata.topics.get(this.name)?.topicId;
    } catch (error) {
      throw asUnavailable(error);
    }
    if (topicId === undefined || topicId === zeroUuid || topicId === this.#topicId) return null;
    const message =
      `state topic ${this.name} was deleted and made again: stop this instance, ` +
      `delete the topic, run "${this.#importCommand}" and start again`;
    return { topicId, message };
  }

  get #importCommand(): string {
    return `causeway state import ${this.#parts.snapshotFile} --config FILE`;
  }
}

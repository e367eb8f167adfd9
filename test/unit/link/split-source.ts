// A source of three brokers that do not know the same of the topic `orders`. Owns what each of them
// says. Invariant: `asked` alone answers what is asked of any broker.
import assert from 'node:assert/strict';
import type { MetadataResponse } from '../../../protocol/generated/metadata-response.ts';
import {
  type Api,
  ClusterError,
  type ClusterMetadata,
  type Target,
} from '../../../src/cluster/cluster.ts';
import { FakeCluster, topicInfo } from './fakes.ts';
import { metadataAnswer } from './metadata-answer.ts';

export const successorId = 'AAAAAAAAAAAAAAAAAAAAAw';

export class SplitSource extends FakeCluster {
  override readonly brokers = [1, 2, 3].map((nodeId) => ({
    ...{ nodeId, host: 'fake', port: nodeId, rack: null },
  }));
  asked = 3;
  /** Their cluster, where it is another one. */
  readonly foreign = new Set<number>();
  /** How often any broker was asked, and how many one by one. */
  looks = 0;
  questions = 0;
  /** Until it is over none of these is answered. */
  held: Promise<void> = Promise.resolve();
  readonly #says = new Map<number, string | 'nothing of it'>();

  /** What the brokers have as the topic's id, from the first on; null: mute. */
  tell(...ids: readonly (string | 'nothing of it' | null)[]): void {
    this.#says.clear();
    for (const [index, id] of ids.entries()) if (id !== null) this.#says.set(index + 1, id);
  }

  override async metadata(): Promise<ClusterMetadata> {
    this.looks++;
    return this.#metadataOf(this.asked);
  }

  override async send<Request, Response>(
    target: Target,
    api: Api<Request, Response>,
  ): Promise<Response> {
    assert.ok(target.kind === 'node' && api.name === 'Metadata');
    this.questions++;
    await this.held;
    const answer: MetadataResponse = metadataAnswer(this.#metadataOf(target.nodeId));
    return answer as Response;
  }

  #metadataOf(nodeId: number): ClusterMetadata {
    const id = this.#says.get(nodeId);
    if (id === undefined) throw new ClusterError('TIMEOUT', 'mute', { maybeSent: true });
    const info = topicInfo('orders', id, [0]);
    const partitions = info.partitions.map((partition) => ({ ...partition, leaderId: -1 }));
    return {
      clusterId: this.foreign.has(nodeId) ? 'another-cluster' : this.clusterId,
      controllerId: 1,
      brokers: this.brokers,
      topics: id === 'nothing of it' ? new Map() : new Map([['orders', { ...info, partitions }]]),
    };
  }
}

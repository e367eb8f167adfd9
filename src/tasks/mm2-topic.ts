// One of the small compacted topics that MirrorMaker 2's tools read, at either cluster. Owns its
// creation and writing to it; refuses to know what is written. Invariants (R16): a topic of the
// name that is not compacted, or has more partitions, is somebody else's and is not written to;
// nothing is sent without the caller's leave, asked before each request that changes something.

import {
  createPartitionProduceData,
  createProduceRequest,
  createTopicProduceData,
} from '../../protocol/generated/produce-request.ts';
import { buildBatch, ErrorCode, errorName } from '../../protocol/index.ts';
import { produceApi } from '../cluster/apis.ts';
import type { Cluster, TopicInfo } from '../cluster/cluster.ts';
import { readTopicConfigs } from '../cluster/config-requests.ts';
import { grantCommand } from '../cluster/grant-command.ts';
import { LinkError } from '../link/link-error.ts';
import { createShell } from '../link/mirror/shell-topic.ts';
import { chunks } from './chunks.ts';
import type { Mm2Record } from './mm2-records.ts';
import { TaskError } from './sync-task.ts';

const recordsPerBatch = 1_000;
const acksAll = -1;
const timeoutMs = 10_000;
const policy = 'cleanup.policy';

export interface Mm2TopicParts {
  readonly cluster: () => Cluster;
  readonly name: string;
  readonly side: 'source' | 'destination';
  /** Throws when nothing may be changed now. */
  readonly checkLeave: () => void;
}

export class Mm2Topic {
  readonly #parts: Mm2TopicParts;
  #isChecked = false;

  constructor(parts: Mm2TopicParts) {
    this.#parts = parts;
  }

  /** @throws TaskError naming the side and the remedy; ClusterError */
  async write(records: readonly Mm2Record[], nowMs: number): Promise<void> {
    if (records.length === 0) return;
    const { name, checkLeave } = this.#parts;
    const cluster = this.#parts.cluster();
    const nodeId = await this.#leader();
    for (const some of chunks(records, recordsPerBatch)) {
      checkLeave();
      const timestamp = BigInt(Math.floor(nowMs));
      const batch = buildBatch({
        baseOffset: 0n,
        records: some.map(({ key, value }) => ({ key, value, timestamp })),
      });
      const partitionData = [createPartitionProduceData({ index: 0, records: batch })];
      const request = createProduceRequest({
        acks: acksAll,
        timeoutMs,
        topicData: [createTopicProduceData({ name, partitionData })],
      });
      const answer = await cluster.send({ kind: 'node', nodeId }, produceApi, request);
      const code = answer.responses[0]?.partitionResponses[0]?.errorCode;
      if (code !== ErrorCode.NONE) throw this.#refusal(code ?? ErrorCode.UNKNOWN_SERVER_ERROR);
    }
  }

  async #leader(): Promise<number> {
    const { name, checkLeave } = this.#parts;
    const cluster = this.#parts.cluster();
    let info = (await cluster.metadata([name])).topics.get(name);
    if (info === undefined || info.errorCode === ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) {
      checkLeave();
      await this.#create(cluster);
      info = (await cluster.metadata([name])).topics.get(name);
    }
    if (info === undefined) throw this.#refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION);
    if (info.errorCode !== ErrorCode.NONE) throw this.#refusal(info.errorCode);
    await this.#check(info);
    const leaderId = info.partitions[0]?.leaderId ?? -1;
    if (leaderId < 0) throw this.#refusal(ErrorCode.LEADER_NOT_AVAILABLE);
    return leaderId;
  }

  async #create(cluster: Cluster): Promise<void> {
    const { name, side } = this.#parts;
    try {
      await createShell(cluster, {
        name,
        partitionsCount: 1,
        replicationFactor: -1,
        configs: { [policy]: 'compact' },
        validateOnly: false,
      });
    } catch (error) {
      if (!(error instanceof LinkError) || error.code === 'TOPIC_EXISTS') throw error;
      const message = error.message.replace('The destination', `The ${side}`);
      throw new TaskError('INVALID_REQUEST_ERROR', message, { cause: error });
    }
    this.#isChecked = true;
  }

  async #check(info: TopicInfo): Promise<void> {
    if (this.#isChecked) return;
    const { name, side } = this.#parts;
    const found = (await readTopicConfigs(this.#parts.cluster(), [name], [policy])).get(name);
    if (found?.errorCode !== ErrorCode.NONE) {
      throw this.#refusal(found?.errorCode ?? ErrorCode.UNKNOWN_SERVER_ERROR);
    }
    const isCompacted = found.configs.some(
      (config) => config.name === policy && config.value?.includes('compact') === true,
    );
    if (!isCompacted || info.partitions.length !== 1) {
      const message =
        `topic '${name}' of the ${side} is not written to: it should be compacted and have one ` +
        'partition, so it is another one than MirrorMaker 2 and Causeway make';
      throw new TaskError('TOPIC_EXISTS_ERROR', message);
    }
    this.#isChecked = true;
  }

  #refusal(code: number): TaskError {
    const { name, side } = this.#parts;
    const isDenied = code === ErrorCode.TOPIC_AUTHORIZATION_FAILED;
    const denied = side === 'source' ? 'AUTHORIZATION_ERROR' : 'BROKER_AUTHORIZATION_ERROR';
    const operations = ['Create', 'Write', 'DescribeConfigs'];
    const remedy = isDenied
      ? `; grant it with ${grantCommand({ topic: name }, ...operations)}`
      : '';
    return new TaskError(
      isDenied ? denied : 'INTERNAL_ERROR',
      `topic '${name}' of the ${side} cannot be written: ${errorName(code)}${remedy}`,
    );
  }
}

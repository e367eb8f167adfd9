// The state topic as a topic: its name, its creation and the check of its settings at every start.
// Refuses to know its records. Invariant: all that the safety of the state rests on is set on the
// topic itself, so that a broker's defaults can change without touching it; a wrong setting is an
// error that says what to do.
import {
  createCreatableTopic,
  createCreatableTopicConfig,
  createCreateTopicsRequest,
} from '../../protocol/generated/create-topics-request.ts';
import { ErrorCode, errorName } from '../../protocol/index.ts';
import { createTopicsApi } from '../cluster/apis.ts';
import { brokerReason } from '../cluster/broker-reason.ts';
import { type Cluster, ClusterError, type TopicInfo } from '../cluster/cluster.ts';
import { type DescribedConfigs, readTopicConfigs } from '../cluster/config-requests.ts';
import { pauseMs } from '../cluster/pause.ts';
import { StateError } from './state.ts';

export const replicationFactorMax = 3;
/** The largest record, with room: some 50,000 partitions in one topic. */
export const messageBytesMax = 8 * 1024 * 1024;

const leaderWaitMs = 30_000;
const confirmations = 3;

export function stateTopicName(name: string): string {
  return `__${name}_state`;
}

function settings(replicationFactor: number): Record<string, string> {
  return {
    'cleanup.policy': 'compact',
    'min.insync.replicas': String(Math.max(1, replicationFactor - 1)),
    'unclean.leader.election.enable': 'false',
    'max.message.bytes': String(messageBytesMax),
    'compression.type': 'producer',
    'message.timestamp.type': 'CreateTime',
    'retention.ms': '-1',
    'retention.bytes': '-1',
    'delete.retention.ms': '86400000',
    // The lease is renewed every second: small segments keep what a start has to read small.
    'segment.bytes': String(16 * 1024 * 1024),
    'min.cleanable.dirty.ratio': '0.2',
  };
}

/** A fault of the destination as a StateError; anything else stays what it is. */
export function asUnavailable(error: unknown): unknown {
  if (!(error instanceof ClusterError)) return error;
  return new StateError('UNAVAILABLE', `state topic: ${error.message}`, { cause: error });
}

/** Null when it does not exist: asked several times, since a broker that just started may lag. */
export async function findStateTopic(
  cluster: Cluster,
  topic: string,
  signal: AbortSignal,
): Promise<TopicInfo | null> {
  for (let attempt = 1; ; attempt++) {
    const info = (await cluster.metadata([topic])).topics.get(topic);
    if (info && info.errorCode === ErrorCode.NONE) return info;
    const code = info?.errorCode ?? ErrorCode.UNKNOWN_TOPIC_OR_PARTITION;
    if (code !== ErrorCode.UNKNOWN_TOPIC_OR_PARTITION && code !== ErrorCode.LEADER_NOT_AVAILABLE) {
      throw new StateError('UNAVAILABLE', `state topic ${topic}: ${errorName(code)}`);
    }
    if (attempt === confirmations) return null;
    await pauseMs(300, signal);
  }
}

export async function createStateTopic(
  cluster: Cluster,
  topic: string,
  signal: AbortSignal,
): Promise<TopicInfo> {
  const brokersCount = (await cluster.metadata([])).brokers.length;
  const replicationFactor = Math.max(1, Math.min(replicationFactorMax, brokersCount));
  const configs = Object.entries(settings(replicationFactor)).map(([name, value]) =>
    createCreatableTopicConfig({ name, value }),
  );
  const creatable = { name: topic, numPartitions: 1, replicationFactor, configs };
  const request = createCreateTopicsRequest({
    topics: [createCreatableTopic(creatable)],
    timeoutMs: 30_000,
  });
  const options = { timeoutMs: 35_000 };
  const response = await cluster.send({ kind: 'controller' }, createTopicsApi, request, options);
  const result = response.topics[0];
  const code = result?.errorCode ?? ErrorCode.UNKNOWN_SERVER_ERROR;
  if (code !== ErrorCode.NONE && code !== ErrorCode.TOPIC_ALREADY_EXISTS) {
    const reason = brokerReason(code, result?.errorMessage);
    throw new StateError('UNAVAILABLE', `state topic ${topic} cannot be created: ${reason}`);
  }
  return waitForLeader(cluster, topic, signal);
}

async function waitForLeader(
  cluster: Cluster,
  topic: string,
  signal: AbortSignal,
): Promise<TopicInfo> {
  for (let waitedMs = 0; waitedMs < leaderWaitMs && !signal.aborted; waitedMs += 100) {
    const info = (await cluster.metadata([topic])).topics.get(topic);
    if (info?.errorCode === ErrorCode.NONE && (info.partitions[0]?.leaderId ?? -1) >= 0)
      return info;
    await pauseMs(100, signal);
  }
  const message = `state topic ${topic}: created, but without a leader after ${leaderWaitMs} ms`;
  throw new StateError('UNAVAILABLE', message);
}

function wrongSetting(topic: string, setting: string, value: string, needed: string): StateError {
  const message =
    `state topic ${topic}: ${setting} is ${value}, needed is ${needed}; ` +
    'set it with kafka-configs --alter and start again';
  return new StateError('CORRUPT', message);
}

/** A broker may not have heard yet of a topic that was just created. */
async function readSettings(
  cluster: Cluster,
  topic: string,
  signal: AbortSignal,
): Promise<DescribedConfigs> {
  for (let waitedMs = 0; ; waitedMs += 100) {
    const result = (await readTopicConfigs(cluster, [topic], null)).get(topic);
    const code = result?.errorCode ?? ErrorCode.UNKNOWN_SERVER_ERROR;
    if (result !== undefined && code === ErrorCode.NONE) return result;
    const mayCome = code === ErrorCode.UNKNOWN_TOPIC_OR_PARTITION && waitedMs < leaderWaitMs;
    if (!mayCome || signal.aborted) {
      const reason = brokerReason(code, result?.errorMessage);
      throw new StateError('UNAVAILABLE', `settings of state topic ${topic}: ${reason}`);
    }
    await pauseMs(100, signal);
  }
}

/**
 * @throws StateError CORRUPT, naming the setting, its value and what is needed; UNAVAILABLE when
 * they cannot be read
 */
export async function checkStateTopic(
  cluster: Cluster,
  info: TopicInfo,
  signal: AbortSignal,
): Promise<void> {
  if (info.partitions.length !== 1) {
    const count = info.partitions.length;
    const message = `state topic ${info.name} has ${count} partitions, needed is 1`;
    throw new StateError('CORRUPT', message);
  }
  const { configs } = await readSettings(cluster, info.name, signal);
  const found = new Map(configs.map(({ name, value }) => [name, value ?? '']));
  const replicationFactor = info.partitions[0]?.replicaNodes.length ?? 1;
  checkSettings(info.name, replicationFactor, found);
}

/** Pure. @throws StateError CORRUPT */
export function checkSettings(
  topic: string,
  replicationFactor: number,
  found: ReadonlyMap<string, string>,
): void {
  const exact: Record<string, string> = {
    'cleanup.policy': 'compact',
    'unclean.leader.election.enable': 'false',
  };
  for (const [setting, needed] of Object.entries(exact)) {
    const value = found.get(setting) ?? 'not shown';
    if (value !== needed) throw wrongSetting(topic, setting, value, needed);
  }
  const least: Record<string, number> = {
    'min.insync.replicas': Math.max(1, replicationFactor - 1),
    'max.message.bytes': messageBytesMax,
  };
  for (const [setting, needed] of Object.entries(least)) {
    const value = found.get(setting) ?? 'not shown';
    if (!(Number(value) >= needed)) {
      throw wrongSetting(topic, setting, value, `at least ${needed}`);
    }
  }
}

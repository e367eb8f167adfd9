// Who has written to the source topics of mirrors lately, as the leaders of their partitions know
// it: what an operator wants to hear before a failover of a source that lives. Owns the question
// and what its answer leaves out; refuses to decide anything. Invariant: what could not be asked,
// or may not be told, is a problem by name, never a topic without writers.
import {
  createDescribeProducersRequest,
  createTopicRequest,
} from '../../../protocol/generated/describe-producers-request.ts';
import type { PartitionResponse } from '../../../protocol/generated/describe-producers-response.ts';
import { ErrorCode, errorName } from '../../../protocol/index.ts';
import { describeProducersApi } from '../../cluster/apis.ts';
import { type Cluster, ClusterError } from '../../cluster/cluster.ts';
import { grantCommand } from '../../cluster/grant-command.ts';
import { partitionKey } from '../../cluster/partition-key.ts';
import type { LinkRuntime } from '../link.ts';
import type { MirrorTopic } from '../mirror/mirror-topics.ts';
import type { RecentWriter, RecentWriters } from '../service.ts';
import { messageOf } from '../signal.ts';
import { examine } from '../source-watch.ts';

/** The latest of them; the count says how many there are. */
const writersListed = 100;
const problemsListed = 20;
/** Somebody waits for the answer before a failover. */
const requestMs = 3_000;
const partitionsPerRequest = 1_000;

export interface RecentWritersOptions {
  /** Unix ms; by the timestamps of their records. */
  readonly sinceMs: number;
}

interface Place {
  readonly topic: MirrorTopic;
  readonly partition: number;
}

interface Found {
  readonly writers: RecentWriter[];
  /** By themselves, so that a topic with many partitions says it once. */
  readonly problems: Map<string, { readonly topic: string; readonly message: string }>;
}

/** Producers with an id that have a transaction open, or have written since then; latest first. */
export async function recentWriters(
  links: ReadonlyMap<LinkRuntime, readonly MirrorTopic[]>,
  options: RecentWritersOptions,
): Promise<RecentWriters> {
  const found: Found = { writers: [], problems: new Map() };
  await Promise.all([...links].map(([link, topics]) => askSource(link, { topics, found })));
  const recent = found.writers
    .filter(({ lastTimeMs, isInTransaction }) => isInTransaction || lastTimeMs >= options.sinceMs)
    .sort((left, right) => right.lastTimeMs - left.lastTimeMs);
  return {
    writers: recent.slice(0, writersListed),
    writersCount: recent.length,
    problems: [...found.problems.values()].slice(0, problemsListed),
    problemsCount: found.problems.size,
  };
}

async function askSource(
  link: LinkRuntime,
  asked: { readonly topics: readonly MirrorTopic[]; readonly found: Found },
): Promise<void> {
  const { topics, found } = asked;
  try {
    const source = await link.connected();
    const byLeader = await leadersOf(source, asked);
    await Promise.all(
      [...byLeader].map(([nodeId, places]) => askLeader(source, nodeId, places, found)),
    );
  } catch (error) {
    if (!(error instanceof ClusterError)) throw error;
    fail(found, topics, messageOf(error));
  }
}

async function leadersOf(
  source: Cluster,
  { topics, found }: { readonly topics: readonly MirrorTopic[]; readonly found: Found },
): Promise<ReadonlyMap<number, readonly Place[]>> {
  const names = [...new Set(topics.map(({ record }) => record.sourceTopic))];
  const { topics: infos } = await source.metadata(names);
  const byLeader = new Map<number, Place[]>();
  for (const topic of topics) {
    const info = infos.get(topic.record.sourceTopic);
    const finding = examine(topic.record, info);
    // Whoever writes to a successor writes nothing that a failover would lose.
    if (finding.kind === 'other') {
      fail(found, [topic], finding.error.message);
      continue;
    }
    if (info === undefined || info.errorCode !== ErrorCode.NONE) {
      const code = info?.errorCode ?? ErrorCode.UNKNOWN_TOPIC_OR_PARTITION;
      fail(found, [topic], errorName(code));
    }
    for (const { partition, leaderId } of info?.partitions ?? []) {
      const own = byLeader.get(leaderId);
      if (own) own.push({ topic, partition });
      else byLeader.set(leaderId, [{ topic, partition }]);
    }
  }
  const leaderless = byLeader.get(-1) ?? [];
  byLeader.delete(-1);
  fail(found, topicsOf(leaderless), errorName(ErrorCode.LEADER_NOT_AVAILABLE));
  return byLeader;
}

async function askLeader(
  source: Cluster,
  nodeId: number,
  places: readonly Place[],
  found: Found,
): Promise<void> {
  for (let index = 0; index < places.length; index += partitionsPerRequest) {
    const some = places.slice(index, index + partitionsPerRequest);
    try {
      await askSome(source, nodeId, some, found);
    } catch (error) {
      if (!(error instanceof ClusterError)) throw error;
      const isOld = error.code === 'UNSUPPORTED';
      const message = isOld ? 'its brokers (before 2.8) do not tell' : error.message;
      fail(found, topicsOf(some), message);
    }
  }
}

async function askSome(
  source: Cluster,
  nodeId: number,
  places: readonly Place[],
  found: Found,
): Promise<void> {
  const partitions = new Map<string, number[]>();
  for (const { topic, partition } of places) {
    const name = topic.record.sourceTopic;
    partitions.set(name, [...(partitions.get(name) ?? []), partition]);
  }
  const topics = [...partitions].map(([name, indexes]) =>
    createTopicRequest({ name, partitionIndexes: indexes }),
  );
  const request = createDescribeProducersRequest({ topics });
  const target = { kind: 'node', nodeId } as const;
  const response = await source.send(target, describeProducersApi, request, {
    timeoutMs: requestMs,
  });
  const answers = new Map(
    response.topics.flatMap(({ name, partitions: own }) =>
      own.map((answer) => [partitionKey(name, answer.partitionIndex), answer] as const),
    ),
  );
  for (const place of places) {
    const key = partitionKey(place.topic.record.sourceTopic, place.partition);
    take(place, answers.get(key), found);
  }
}

function take(
  { topic, partition }: Place,
  answer: PartitionResponse | undefined,
  found: Found,
): void {
  const code = answer?.errorCode ?? ErrorCode.UNKNOWN_SERVER_ERROR;
  if (answer === undefined || code !== ErrorCode.NONE) {
    fail(found, [topic], refusal(topic.record.sourceTopic, code));
    return;
  }
  for (const producer of answer.activeProducers) {
    found.writers.push({
      link: topic.link,
      topic: topic.name,
      partition,
      producerId: producer.producerId,
      producerEpoch: producer.producerEpoch,
      lastTimeMs: Number(producer.lastTimestamp),
      isInTransaction: producer.currentTxnStartOffset >= 0n,
    });
  }
}

function refusal(sourceTopic: string, code: number): string {
  if (code !== ErrorCode.TOPIC_AUTHORIZATION_FAILED) return errorName(code);
  const remedy = grantCommand({ topic: sourceTopic }, 'Read');
  return `our principal may not see them; grant it at the source with ${remedy}`;
}

function topicsOf(places: readonly Place[]): readonly MirrorTopic[] {
  return [...new Set(places.map(({ topic }) => topic))];
}

function fail({ problems }: Found, topics: readonly MirrorTopic[], message: string): void {
  for (const { name } of topics) problems.set(`${name} ${message}`, { topic: name, message });
}

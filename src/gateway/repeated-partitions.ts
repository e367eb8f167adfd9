// Partitions that one Fetch names more than once. Refuses to know who answers. Invariant, as in
// Kafka's own FetchRequest: each is there once, at the place where it was named first, with what
// was said of it last; so nobody makes us read one again and again by one request.
import {
  createFetchTopic,
  type FetchPartition,
  type FetchRequest,
  type FetchTopic,
} from '../../protocol/generated/fetch-request.ts';
import { fetchKey } from './fetch-answers.ts';

interface Named {
  readonly topic: FetchTopic;
  partition: FetchPartition;
}

export function withoutRepeated(request: FetchRequest): FetchRequest {
  const once = new Map<string, Named>();
  let namedCount = 0;
  for (const topic of request.topics) {
    for (const partition of topic.partitions) {
      namedCount++;
      const key = fetchKey(topic, partition.partition);
      const before = once.get(key);
      if (before === undefined) once.set(key, { topic, partition });
      else before.partition = partition;
    }
  }
  if (namedCount === once.size) return request;
  const topics = new Map<FetchTopic, FetchPartition[]>();
  for (const { topic, partition } of once.values()) {
    const partitions = topics.get(topic) ?? [];
    topics.set(topic, partitions);
    partitions.push(partition);
  }
  return {
    ...request,
    topics: [...topics].map(([topic, partitions]) => createFetchTopic({ ...topic, partitions })),
  };
}

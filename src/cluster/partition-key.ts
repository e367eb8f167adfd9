// How maps name a partition of a topic. Refuses to know whose topic it is: source and destination
// are never in one map.

/** `topic` is a name; of an answer that has ids instead, the id. */
export function partitionKey(topic: string, partition: number): string {
  return `${topic}/${partition}`;
}

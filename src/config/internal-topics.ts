// Topics that are nobody's data: Kafka's own, and those of Causeways. Pure. Refuses to know what is
// done about them. Invariant: one list for all who ask, whether a topic may be ours or mirrored.

/** Not all of them are marked as internal by brokers. */
export const topicsOfKafka: readonly string[] = [
  '__cluster_metadata',
  '__consumer_offsets',
  '__remote_log_metadata',
  '__share_group_state',
  '__transaction_state',
];

/** State topics of Causeways whatever their name (`__NAME_state`). */
const stateTopics = /^__.+_state$/;

/** Internal to the source, to us, or to another Causeway there. */
export function isNeverMirrored(topic: string, ownTopicPrefix: string): boolean {
  return (
    topicsOfKafka.includes(topic) || stateTopics.test(topic) || topic.startsWith(ownTopicPrefix)
  );
}

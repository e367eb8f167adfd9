// DescribeTopicPartitions: leaders and epochs as in Metadata (leader-presentation.ts); it names no
// addresses.
import { describeTopicPartitionsResponseCodec } from '../../../protocol/generated/describe-topic-partitions-response.ts';
import type { AdvertisedEpochs } from '../advertised-epochs.ts';
import type { Handler } from '../handler.ts';
import { presentLeaders } from '../leader-presentation.ts';
import { rewriting } from '../messages.ts';
import type { OwnTopics } from '../own-topics.ts';

export function createDescribeTopicPartitionsHandler(parts: {
  epochs: AdvertisedEpochs;
  ownTopics: OwnTopics;
}): Handler {
  const { epochs, ownTopics } = parts;
  return ({ header, session }) => ({
    kind: 'forward',
    rewrite: rewriting(header, describeTopicPartitionsResponseCodec, (response) => {
      let isChanged = false;
      for (const topic of response.topics) {
        ownTopics.learn(topic.name, topic.topicId);
        if (presentLeaders(session.services, epochs, topic)) isChanged = true;
      }
      return isChanged;
    }),
  });
}

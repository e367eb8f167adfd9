// A denial of WRITE that a promotion has made at the source, as the mirror's record has it. Refuses
// to know how one is made and undone (source-fence.ts).
import type { Events } from '../../observe/events.ts';
import type { TopicRecord } from '../../state/records.ts';

export function isFenced({ fence }: TopicRecord): boolean {
  return (fence?.acls.length ?? 0) > 0;
}

/** A denial that nobody can take back by way of us any more. */
export function tellFenceLeft(events: Events, record: TopicRecord, why: string): void {
  const { name, link, sourceTopic } = record;
  const message =
    `WRITE on '${sourceTopic}' stays denied at the source (${why}); to allow it again, there: ` +
    `kafka-acls --remove --topic '${sourceTopic}' --operation Write --deny-principal 'User:*'`;
  events.warn('source_fence_left', message, { topic: name, link });
}

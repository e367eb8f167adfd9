// Share groups on topics of ours. Their offsets are native ones kept by the destination's
// coordinator, and the link node cannot hold acquired records, so mirrored and promoted topics are
// refused in this version: 29 with a sentence (Java's share consumer takes any other final code for
// a bug). Ordinary topics pass.
import { ErrorCode } from '../../protocol/index.ts';
import type { SessionView } from './handler.ts';
import { topicStanding } from './topic-standing.ts';

export const shareRefusal = {
  errorCode: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
  errorMessage: 'share groups cannot read topics that are or were mirrored over a link',
} as const;

const retryShare = { errorCode: ErrorCode.NOT_LEADER_OR_FOLLOWER, errorMessage: null } as const;

export type ShareRefusal = typeof shareRefusal | typeof retryShare;

export function refuseShare(session: SessionView, topicId: string): ShareRefusal | null {
  const standing = topicStanding(session.services.directory, { topicId });
  if (standing.kind === 'ordinary') return null;
  return standing.kind === 'known' ? shareRefusal : retryShare;
}

// Joining a group that is being handed over from the source: COORDINATOR_LOAD_IN_PROGRESS, which
// every client takes for a coordinator that will be ready in a moment and tries again. Members that
// heartbeat or leave are none of this; nor are groups that are not handed over.
import { joinGroupRequestCodec } from '../../../protocol/generated/join-group-request.ts';
import {
  createJoinGroupResponse,
  joinGroupResponseCodec,
} from '../../../protocol/generated/join-group-response.ts';
import { streamsGroupHeartbeatRequestCodec } from '../../../protocol/generated/streams-group-heartbeat-request.ts';
import {
  createStreamsGroupHeartbeatResponse,
  streamsGroupHeartbeatResponseCodec,
} from '../../../protocol/generated/streams-group-heartbeat-response.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import type { Handler } from '../handler.ts';
import { answer, decodeBody } from '../messages.ts';

const errorCode = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS;

export const joinGroupHandler: Handler = (context) => {
  const { groupGate } = context.session.services;
  if (!groupGate.isAnyHeld) return { kind: 'forward' };
  const { groupId } = decodeBody(context, joinGroupRequestCodec);
  if (!groupGate.isHeld(groupId)) return { kind: 'forward' };
  return answer(context, joinGroupResponseCodec, createJoinGroupResponse({ errorCode }));
};

export const streamsGroupHeartbeatHandler: Handler = (context) => {
  const { groupGate } = context.session.services;
  if (!groupGate.isAnyHeld) return { kind: 'forward' };
  const { groupId, memberEpoch } = decodeBody(context, streamsGroupHeartbeatRequestCodec);
  if (memberEpoch !== 0 || !groupGate.isHeld(groupId)) return { kind: 'forward' };
  const refused = createStreamsGroupHeartbeatResponse({ errorCode });
  return answer(context, streamsGroupHeartbeatResponseCodec, refused);
};

// ConsumerGroupHeartbeat: a member that the coordinator's group does not exist for (69
// GROUP_ID_NOT_FOUND) is told to join again (25 UNKNOWN_MEMBER_ID). It came from the source with a
// member epoch of its own; 69 would end it for good ("is not a consumer group"), while on 25 Java
// and librdkafka join and go on. A member that joins (epoch 0) or leaves (below 0) gets the
// destination's answer, but for one that joins a group that is being handed over from a source: 14
// COORDINATOR_LOAD_IN_PROGRESS, until that is done.
import { consumerGroupHeartbeatRequestCodec } from '../../../protocol/generated/consumer-group-heartbeat-request.ts';
import {
  consumerGroupHeartbeatResponseCodec,
  createConsumerGroupHeartbeatResponse,
} from '../../../protocol/generated/consumer-group-heartbeat-response.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import type { Handler } from '../handler.ts';
import { answer, decodeBody, rewriting } from '../messages.ts';

export const consumerGroupHeartbeatHandler: Handler = (context) => {
  const { memberEpoch, groupId } = decodeBody(context, consumerGroupHeartbeatRequestCodec);
  if (memberEpoch === 0 && context.session.services.groupGate.isHeld(groupId)) {
    const errorCode = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS;
    const held = createConsumerGroupHeartbeatResponse({ errorCode });
    return answer(context, consumerGroupHeartbeatResponseCodec, held);
  }
  if (memberEpoch <= 0) return { kind: 'forward' };
  return {
    kind: 'forward',
    rewrite: rewriting(context.header, consumerGroupHeartbeatResponseCodec, (response) => {
      if (response.errorCode !== ErrorCode.GROUP_ID_NOT_FOUND) return false;
      response.errorCode = ErrorCode.UNKNOWN_MEMBER_ID;
      return true;
    }),
  };
};

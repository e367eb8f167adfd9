// InitProducerId: producer ids are the destination's own, but for the transactional ids of our own
// topics. Whoever takes the state's over would fence the instance that owns it, for good: 53, as
// for an id that the client has no right to.
import { initProducerIdRequestCodec } from '../../../protocol/generated/init-producer-id-request.ts';
import {
  createInitProducerIdResponse,
  initProducerIdResponseCodec,
} from '../../../protocol/generated/init-producer-id-response.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import type { Handler } from '../handler.ts';
import { answer, decodeBody } from '../messages.ts';
import type { OwnTopics } from '../own-topics.ts';

export function createInitProducerIdHandler(ownTopics: OwnTopics): Handler {
  return (context) => {
    const { transactionalId } = decodeBody(context, initProducerIdRequestCodec);
    // The state's transactional id is its topic's name.
    if (!ownTopics.has({ name: transactionalId })) return { kind: 'forward' };
    const errorCode = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED;
    const refused = createInitProducerIdResponse({ errorCode, producerId: -1n, producerEpoch: -1 });
    return answer(context, initProducerIdResponseCodec, refused);
  };
}

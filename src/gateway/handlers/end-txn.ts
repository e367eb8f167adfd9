// EndTxn: the destination's, but for the transactional ids of our own topics. Producer id and epoch
// of the state's writer can be read out of its topic; with them a client could end a transaction of
// the state: 53, as for an id that the client has no right to.
import { endTxnRequestCodec } from '../../../protocol/generated/end-txn-request.ts';
import {
  createEndTxnResponse,
  endTxnResponseCodec,
} from '../../../protocol/generated/end-txn-response.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import type { Handler } from '../handler.ts';
import { answer, decodeBody } from '../messages.ts';
import type { OwnTopics } from '../own-topics.ts';

export function createEndTxnHandler(ownTopics: OwnTopics): Handler {
  return (context) => {
    const { transactionalId } = decodeBody(context, endTxnRequestCodec);
    if (!ownTopics.has({ name: transactionalId })) return { kind: 'forward' };
    const errorCode = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED;
    return answer(context, endTxnResponseCodec, createEndTxnResponse({ errorCode }));
  };
}

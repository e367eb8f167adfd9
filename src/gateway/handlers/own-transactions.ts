// The transactions that write the state. Producer id and epoch of their writer can be read out of
// its topic, and its transactional id is that topic's name: with them a client could fence the
// instance that owns the state, end its transaction, or put partitions and groups into it whose
// leader never answers. Every API that takes part in a transaction is refused that id: 53, as for
// one that the client has no right to. All other transactions are the destination's own. Produce
// refuses it itself.
import type { MessageCodec } from '../../../protocol/codec.ts';
import {
  type AddOffsetsToTxnRequest,
  addOffsetsToTxnRequestCodec,
} from '../../../protocol/generated/add-offsets-to-txn-request.ts';
import {
  type AddOffsetsToTxnResponse,
  addOffsetsToTxnResponseCodec,
  createAddOffsetsToTxnResponse,
} from '../../../protocol/generated/add-offsets-to-txn-response.ts';
import {
  type AddPartitionsToTxnRequest,
  type AddPartitionsToTxnTopic,
  addPartitionsToTxnRequestCodec,
} from '../../../protocol/generated/add-partitions-to-txn-request.ts';
import {
  type AddPartitionsToTxnResponse,
  addPartitionsToTxnResponseCodec,
  createAddPartitionsToTxnPartitionResult,
  createAddPartitionsToTxnResponse,
  createAddPartitionsToTxnResult,
  createAddPartitionsToTxnTopicResult,
} from '../../../protocol/generated/add-partitions-to-txn-response.ts';
import {
  type EndTxnRequest,
  endTxnRequestCodec,
} from '../../../protocol/generated/end-txn-request.ts';
import {
  createEndTxnResponse,
  type EndTxnResponse,
  endTxnResponseCodec,
} from '../../../protocol/generated/end-txn-response.ts';
import {
  type InitProducerIdRequest,
  initProducerIdRequestCodec,
} from '../../../protocol/generated/init-producer-id-request.ts';
import {
  createInitProducerIdResponse,
  type InitProducerIdResponse,
  initProducerIdResponseCodec,
} from '../../../protocol/generated/init-producer-id-response.ts';
import {
  type TxnOffsetCommitRequest,
  txnOffsetCommitRequestCodec,
} from '../../../protocol/generated/txn-offset-commit-request.ts';
import {
  createTxnOffsetCommitResponse,
  createTxnOffsetCommitResponsePartition,
  createTxnOffsetCommitResponseTopic,
  type TxnOffsetCommitResponse,
  txnOffsetCommitResponseCodec,
} from '../../../protocol/generated/txn-offset-commit-response.ts';
import { ApiKey } from '../../../protocol/index.ts';
import type { Handler } from '../handler.ts';
import { answer, decodeBody } from '../messages.ts';
import type { OwnTopics } from '../own-topics.ts';
import { ownTransactionRefusal } from '../refusals.ts';

const { errorCode } = ownTransactionRefusal;

interface Guard<Request extends object, Response extends object> {
  readonly request: MessageCodec<Request>;
  readonly response: MessageCodec<Response>;
  idsOf(request: Request): readonly (string | null)[];
  refuse(request: Request): Response;
}

export function createOwnTransactionHandlers(ownTopics: OwnTopics): readonly [number, Handler][] {
  const guarded = <Request extends object, Response extends object>(
    guard: Guard<Request, Response>,
  ): Handler => {
    return (context) => {
      const request = decodeBody(context, guard.request);
      const isOurs = guard.idsOf(request).some((name) => ownTopics.has({ name }));
      if (!isOurs) return { kind: 'forward' };
      return answer(context, guard.response, guard.refuse(request));
    };
  };
  return [
    [ApiKey.InitProducerId, guarded(initProducerId)],
    [ApiKey.AddPartitionsToTxn, guarded(addPartitionsToTxn)],
    [ApiKey.AddOffsetsToTxn, guarded(addOffsetsToTxn)],
    [ApiKey.EndTxn, guarded(endTxn)],
    [ApiKey.TxnOffsetCommit, guarded(txnOffsetCommit)],
  ];
}

const initProducerId: Guard<InitProducerIdRequest, InitProducerIdResponse> = {
  request: initProducerIdRequestCodec,
  response: initProducerIdResponseCodec,
  idsOf: ({ transactionalId }) => [transactionalId],
  refuse: () => createInitProducerIdResponse({ errorCode, producerId: -1n, producerEpoch: -1 }),
};

/** From version 4 on several at once, which only brokers send; none of them is let through then. */
const addPartitionsToTxn: Guard<AddPartitionsToTxnRequest, AddPartitionsToTxnResponse> = {
  request: addPartitionsToTxnRequestCodec,
  response: addPartitionsToTxnResponseCodec,
  idsOf: ({ v3AndBelowTransactionalId, transactions }) => [
    v3AndBelowTransactionalId,
    ...transactions.map(({ transactionalId }) => transactionalId),
  ],
  refuse: ({ v3AndBelowTopics, transactions }) =>
    createAddPartitionsToTxnResponse({
      resultsByTopicV3AndBelow: v3AndBelowTopics.map(refusedTopic),
      resultsByTransaction: transactions.map(({ transactionalId, topics }) =>
        createAddPartitionsToTxnResult({ transactionalId, topicResults: topics.map(refusedTopic) }),
      ),
    }),
};

function refusedTopic({ name, partitions }: AddPartitionsToTxnTopic) {
  return createAddPartitionsToTxnTopicResult({
    name,
    resultsByPartition: partitions.map((partitionIndex) =>
      createAddPartitionsToTxnPartitionResult({ partitionIndex, partitionErrorCode: errorCode }),
    ),
  });
}

const addOffsetsToTxn: Guard<AddOffsetsToTxnRequest, AddOffsetsToTxnResponse> = {
  request: addOffsetsToTxnRequestCodec,
  response: addOffsetsToTxnResponseCodec,
  idsOf: ({ transactionalId }) => [transactionalId],
  refuse: () => createAddOffsetsToTxnResponse({ errorCode }),
};

const endTxn: Guard<EndTxnRequest, EndTxnResponse> = {
  request: endTxnRequestCodec,
  response: endTxnResponseCodec,
  idsOf: ({ transactionalId }) => [transactionalId],
  refuse: () => createEndTxnResponse({ errorCode }),
};

const txnOffsetCommit: Guard<TxnOffsetCommitRequest, TxnOffsetCommitResponse> = {
  request: txnOffsetCommitRequestCodec,
  response: txnOffsetCommitResponseCodec,
  idsOf: ({ transactionalId }) => [transactionalId],
  refuse: ({ topics }) =>
    createTxnOffsetCommitResponse({
      topics: topics.map(({ name, topicId, partitions }) =>
        createTxnOffsetCommitResponseTopic({
          name,
          topicId,
          partitions: partitions.map(({ partitionIndex }) =>
            createTxnOffsetCommitResponsePartition({ partitionIndex, errorCode }),
          ),
        }),
      ),
    }),
};

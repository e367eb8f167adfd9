// The sentences and codes with which clients are refused, in one place so that they read alike.
import { ErrorCode } from '../../protocol/index.ts';
import type { TopicView } from './topic-directory.ts';

export interface Refusal {
  readonly errorCode: number;
  readonly errorMessage: string;
}

export function ownTopicRefusal(): Refusal {
  return {
    errorCode: ErrorCode.POLICY_VIOLATION,
    errorMessage: "this topic belongs to the cluster-linking proxy and is not for clients' changes",
  };
}

/** As brokers say it to who has no right to a transactional id. */
export const ownTransactionRefusal: Refusal = {
  errorCode: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
  errorMessage: 'this transactional id belongs to the cluster-linking proxy',
};

export function mirrorRefusal(view: TopicView, what: string): Refusal {
  return {
    errorCode: ErrorCode.POLICY_VIOLATION,
    errorMessage:
      `topic ${view.name} is a mirror over link ${view.link}: ${what} ` +
      'until it is promoted or failed over',
  };
}

/** As brokers say it to who lacks a right. */
export const forbiddenTopic: Refusal = {
  errorCode: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
  errorMessage: 'Topic authorization failed.',
};

/** For administration while we cannot tell what a topic is; clients try again. */
export function unsettledRefusal(): Refusal {
  return {
    errorCode: ErrorCode.REQUEST_TIMED_OUT,
    errorMessage: 'the state of mirrors is being read again; try again in a moment',
  };
}

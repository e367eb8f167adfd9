// DescribeQuorum: voters and observers with the ids of their directories, as
// `kafka-metadata-quorum` wants them. Invariant: version 2's addresses of controllers are left out,
// no client could use them through us; the nodes themselves stay.
import { describeQuorumResponseCodec } from '../../../protocol/generated/describe-quorum-response.ts';
import type { Handler } from '../handler.ts';
import { rewriting } from '../messages.ts';

/** The first version that names addresses. */
const addressesFrom = 2;

export const describeQuorumHandler: Handler = ({ header }) => {
  if (header.apiVersion < addressesFrom) return { kind: 'forward' };
  return {
    kind: 'forward',
    rewrite: rewriting(header, describeQuorumResponseCodec, (response) => {
      for (const node of response.nodes) node.listeners = [];
      return response.nodes.length > 0;
    }),
  };
};

// FindCoordinator: our address of the coordinator. Without a coordinator (an error, node id -1,
// empty host) nothing is touched: clients take those values as they are.
import { findCoordinatorResponseCodec } from '../../../protocol/generated/find-coordinator-response.ts';
import type { Handler } from '../handler.ts';
import { rewriting } from '../messages.ts';
import { advertiseNodes, type WireNode } from '../node-endpoints.ts';

const batchedFrom = 4;

export const findCoordinatorHandler: Handler = ({ header, session }) => ({
  kind: 'forward',
  rewrite: rewriting(header, findCoordinatorResponseCodec, async (response) => {
    const all: WireNode[] = header.apiVersion >= batchedFrom ? response.coordinators : [response];
    const found = all.filter(({ nodeId, host }) => nodeId >= 0 && host !== '');
    await advertiseNodes(session.services, found);
    return found.length > 0;
  }),
});

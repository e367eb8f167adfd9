// FindCoordinator: our address of the coordinator. Without a coordinator (an error, node id -1,
// empty host) nothing is touched: clients take those values as they are. One for which no port is
// left is not available.
import { findCoordinatorResponseCodec } from '../../../protocol/generated/find-coordinator-response.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import type { Handler } from '../handler.ts';
import { rewriting } from '../messages.ts';
import { advertiseNodes, type WireNode } from '../node-endpoints.ts';

const batchedFrom = 4;
const notAvailable = {
  errorCode: ErrorCode.COORDINATOR_NOT_AVAILABLE,
  errorMessage: 'no port of the proxy is left for the coordinator (gateway.brokerPorts)',
  nodeId: -1,
  host: '',
  port: -1,
};

export const findCoordinatorHandler: Handler = ({ header, session }) => ({
  kind: 'forward',
  rewrite: rewriting(header, findCoordinatorResponseCodec, async (response) => {
    const all: WireNode[] = header.apiVersion >= batchedFrom ? response.coordinators : [response];
    const found = all.filter(({ nodeId, host }) => nodeId >= 0 && host !== '');
    const served = [...found];
    const isAdvertised = await advertiseNodes(session.services, served);
    for (const one of found) if (!served.includes(one)) Object.assign(one, notAvailable);
    return isAdvertised;
  }),
});

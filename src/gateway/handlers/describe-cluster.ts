// DescribeCluster: our addresses, and the link node while anything is mirrored (else
// `describeTopics` shows partitions without a leader). Asked for controllers, brokers answer with
// an error; should one ever list them, the list is dropped: their addresses cannot be used through
// us.
import {
  createDescribeClusterBroker,
  type DescribeClusterBroker,
  describeClusterResponseCodec,
} from '../../../protocol/generated/describe-cluster-response.ts';
import type { Handler } from '../handler.ts';
import { rewriting } from '../messages.ts';
import { advertiseNodes } from '../node-endpoints.ts';

const controllersEndpointType = 2;

export const describeClusterHandler: Handler = ({ header, session }) => ({
  kind: 'forward',
  rewrite: rewriting(header, describeClusterResponseCodec, async (response) => {
    if (response.endpointType === controllersEndpointType) {
      response.brokers = [];
      return true;
    }
    const { services } = session;
    const nodes = response.brokers.map(withNodeId);
    await advertiseNodes(services, nodes);
    response.brokers = nodes;
    const link = services.endpoint(services.linkNodeId);
    if (services.directory.hasMirrors && response.errorCode === 0 && link !== undefined) {
      const { nodeId: brokerId, host, port, rack } = link;
      response.brokers.push(createDescribeClusterBroker({ brokerId, host, port, rack }));
    }
    return true;
  }),
});

function withNodeId(broker: DescribeClusterBroker): DescribeClusterBroker & { nodeId: number } {
  return { ...broker, nodeId: broker.brokerId };
}

// Config resources that are not the destination's business: our own topics, and the link node as a
// broker.
import { ErrorCode } from '../../protocol/index.ts';
import type { GatewayServices } from './handler.ts';
import type { OwnTopics } from './own-topics.ts';
import { ownTopicRefusal, type Refusal } from './refusals.ts';

const topicType = 2;
const brokerType = 4;
const brokerLoggerType = 8;

export interface ConfigResource {
  readonly resourceType: number;
  readonly resourceName: string;
}

export function isLinkNode(services: GatewayServices, resource: ConfigResource): boolean {
  const { resourceType, resourceName } = resource;
  const isNode = resourceType === brokerType || resourceType === brokerLoggerType;
  return isNode && resourceName === String(services.linkNodeId);
}

/**
 * Configs of mirrors may be changed: the link's config task leaves edits alone, and puts back by
 * itself the keys that always follow the source.
 */
export function alterationRefusal(
  services: GatewayServices,
  ownTopics: OwnTopics,
  resource: ConfigResource,
): Refusal | null {
  if (resource.resourceType === topicType && ownTopics.has({ name: resource.resourceName })) {
    return ownTopicRefusal();
  }
  if (!isLinkNode(services, resource)) return null;
  const errorMessage = `node ${services.linkNodeId} is the linking proxy: it has no configs`;
  return { errorCode: ErrorCode.INVALID_REQUEST, errorMessage };
}

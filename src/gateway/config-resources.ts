// Config resources that are not the destination's business: our own topics, and the link node as a
// broker.
import { ErrorCode } from '../../protocol/index.ts';
import { alwaysSynced } from '../link/topic-configs.ts';
import type { GatewayServices } from './handler.ts';
import type { OwnTopics } from './own-topics.ts';
import { mirrorRefusal, ownTopicRefusal, type Refusal } from './refusals.ts';
import { isMirrored } from './topic-standing.ts';

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

/** The mirror that a resource is, if it is one. */
export function mirrorOf(services: GatewayServices, resource: ConfigResource) {
  if (resource.resourceType !== topicType) return undefined;
  const view = services.directory.byName(resource.resourceName);
  return view !== undefined && isMirrored(view) ? view : undefined;
}

/** Other configs of mirrors may be changed: the link's config task leaves edits alone. */
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

/** Keys that always follow the source cannot be changed on a mirror, only put back. */
export function syncedKeyRefusal(
  services: GatewayServices,
  resource: ConfigResource,
  keys: readonly string[],
): Refusal | null {
  const view = mirrorOf(services, resource);
  const key = keys.find((name) => alwaysSynced.includes(name));
  if (view === undefined || key === undefined) return null;
  return mirrorRefusal(view, `its ${key} follows the source`);
}

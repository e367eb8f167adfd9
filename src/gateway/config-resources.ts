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

/**
 * Configs of mirrors may be changed, for the link's config task leaves edits alone. (AlterConfigs,
 * which always names every key, may also name those that follow the source: the task puts them
 * back by itself.)
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

/** Keys that always follow the source cannot be changed on a mirror, only put back. */
export function syncedKeyRefusal(
  services: GatewayServices,
  resource: ConfigResource,
  keys: readonly string[],
): Refusal | null {
  if (resource.resourceType !== topicType) return null;
  const view = services.directory.byName(resource.resourceName);
  const key = keys.find((name) => alwaysSynced.includes(name));
  if (view === undefined || key === undefined || !isMirrored(view)) return null;
  return mirrorRefusal(view, `its ${key} follows the source`);
}

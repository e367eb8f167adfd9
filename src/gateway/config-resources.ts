// Config resources that are not the destination's business: our own topics, the link node as a
// broker, and of the brokers' own configs those that hold real addresses. Owns what is refused and
// what is hidden. Invariant (R2): no value that is shown leads past us.
import { ErrorCode } from '../../protocol/index.ts';
import { alwaysSynced } from '../link/mirror/topic-configs.ts';
import type { GatewayServices } from './handler.ts';
import type { OwnTopics } from './own-topics.ts';
import { mirrorRefusal, ownTopicRefusal, type Refusal, unsettledRefusal } from './refusals.ts';
import { isMirrored, topicStanding } from './topic-standing.ts';

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

export function isBroker({ resourceType }: ConfigResource): boolean {
  return resourceType === brokerType;
}

const addressConfigs = new Set([
  'advertised.host.name',
  'advertised.listeners',
  'controller.quorum.voters',
  'host.name',
  'listeners',
  'zookeeper.connect',
]);

interface DescribedConfig {
  readonly name: string;
  value: string | null;
  isSensitive: boolean;
  readonly synonyms: readonly { readonly name: string; value: string | null }[];
}

function holdsAddress(name: string): boolean {
  return addressConfigs.has(name) || name.endsWith('bootstrap.servers');
}

/** Clients of ours can use no address but ours (R2); tools know configs without a value. */
export function hideAddress(config: DescribedConfig): void {
  for (const synonym of config.synonyms) {
    if (holdsAddress(synonym.name)) synonym.value = null;
  }
  if (!holdsAddress(config.name)) return;
  config.value = null;
  config.isSensitive = true;
}

/** The name of the topic that a resource is. */
export function topicOf({ resourceType, resourceName }: ConfigResource): string | null {
  return resourceType === topicType ? resourceName : null;
}

/** The mirror that a resource is, if it is one. */
export function mirrorOf(services: GatewayServices, resource: ConfigResource) {
  if (resource.resourceType !== topicType) return undefined;
  const view = services.directory.byName(resource.resourceName);
  return view !== undefined && isMirrored(view) ? view : undefined;
}

/**
 * Other configs of mirrors may be changed: the link's config task leaves edits alone. Of a topic
 * that we cannot tell about none may, because it may be a mirror.
 */
export function alterationRefusal(
  services: GatewayServices,
  ownTopics: OwnTopics,
  resource: ConfigResource,
): Refusal | null {
  const topic = topicOf(resource);
  if (topic !== null) {
    if (ownTopics.has({ name: topic })) return ownTopicRefusal();
    const { kind } = topicStanding(services.directory, { name: topic });
    return kind === 'unsettled' ? unsettledRefusal() : null;
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

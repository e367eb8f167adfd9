// Metadata.
//  * Brokers: our addresses under their own ids; the link node is listed while anything is
//    mirrored.
//  * Mirrored, promoted and unsettled topics: see leader-presentation.ts. The controller id and the
//    lists of replicas stay as they are.
//  * A broker for which no port is left is not listed, and what it leads has no leader: as a broker
//    without the listener that the client came by.
//  * A mirror of which only the intent is committed is never created by a client that asks for it
//    by name: automatic creation is turned off in such a request. Versions below 4 cannot say
//    that: the broker is asked in version 4 for them.
import {
  encodeMetadataRequest,
  type MetadataRequest,
  metadataRequestCodec,
} from '../../../protocol/generated/metadata-request.ts';
import {
  createMetadataResponseBroker,
  type MetadataResponse,
  metadataResponseCodec,
} from '../../../protocol/generated/metadata-response.ts';
import { ErrorCode, encodeRequestFrame } from '../../../protocol/index.ts';
import type { AdvertisedEpochs } from '../advertised-epochs.ts';
import type { GatewayServices, Handler, RequestContext } from '../handler.ts';
import { presentLeaders, type WirePartition } from '../leader-presentation.ts';
import { decodeBody, rewriting } from '../messages.ts';
import { advertiseNodes } from '../node-endpoints.ts';
import type { OwnTopics } from '../own-topics.ts';

const canDenyCreationFrom = 4;
const listenerNotFoundFrom = 6;

export function createMetadataHandler(parts: {
  epochs: AdvertisedEpochs;
  ownTopics: OwnTopics;
}): Handler {
  const { epochs, ownTopics } = parts;
  return (context) => {
    const { services } = context.session;
    const changed = withoutCreation(context);
    const { apiVersion } = context.header;
    const version = changed === null ? apiVersion : Math.max(apiVersion, canDenyCreationFrom);
    const present = async (response: MetadataResponse): Promise<boolean> => {
      await advertiseNodes(services, response.brokers);
      for (const topic of response.topics) {
        ownTopics.learn(topic.name, topic.topicId);
        presentLeaders(services, epochs, topic);
        hideUnserved(services, topic.partitions, version);
      }
      if (services.directory.hasMirrors) {
        const link = services.endpoint(services.linkNodeId);
        if (link !== undefined) response.brokers.push(createMetadataResponseBroker({ ...link }));
      }
      return true;
    };
    const rewrite = rewriting(context.header, metadataResponseCodec, present, version);
    if (changed === null) return { kind: 'forward', rewrite };
    const header = { ...context.header, apiVersion: version };
    const request = encodeRequestFrame(header, (writer) =>
      encodeMetadataRequest(writer, changed, version),
    );
    return { kind: 'forward', request, rewrite };
  };
}

/** Leaders that no client can reach, in the words of a broker that has one at no such listener. */
function hideUnserved(
  services: GatewayServices,
  partitions: readonly WirePartition[],
  version: number,
): void {
  for (const partition of partitions) {
    const { leaderId } = partition;
    if (leaderId < 0 || services.endpoint(leaderId) !== undefined) continue;
    partition.errorCode =
      version >= listenerNotFoundFrom
        ? ErrorCode.LISTENER_NOT_FOUND
        : ErrorCode.LEADER_NOT_AVAILABLE;
    partition.leaderId = -1;
  }
}

function withoutCreation(context: RequestContext): MetadataRequest | null {
  const request = decodeBody(context, metadataRequestCodec);
  if (!request.allowAutoTopicCreation || request.topics === null) return null;
  const { directory } = context.session.services;
  const namesIntent = request.topics.some(
    ({ name }) => name !== null && directory.byName(name)?.topicId === null,
  );
  return namesIntent ? { ...request, allowAutoTopicCreation: false } : null;
}

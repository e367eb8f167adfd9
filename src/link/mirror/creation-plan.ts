// What is to be known of source topics before mirrors of them are made: that they are there and
// may be mirrored, their configs, where each partition begins. Many topics by the same few
// requests. Refuses to know shells and states, and changes nothing. Invariant: each topic that
// was asked for has a plan or the reason why it has none; one topic's reason is never another's.

import { ErrorCode, errorName } from '../../../protocol/index.ts';
import { type Cluster, ClusterError, type TopicInfo } from '../../cluster/cluster.ts';
import { grantCommand } from '../../cluster/grant-command.ts';
import { originsOf } from '../../gateway/mirror-origins.ts';
import type { LinkRecord, PendingCreation } from '../../state/records.ts';
import type { LinkRuntime } from '../link.ts';
import { LinkError } from '../link-error.ts';
import { unconfirmedSources } from '../source-identity.ts';
import { manyTopicConfigs } from './cluster-configs.ts';
import { earliestStart, manySourceStarts, type SourceStart } from './start-offset.ts';
import { shellConfigs, syncedConfigs } from './topic-configs.ts';

export interface Plan {
  readonly source: TopicInfo;
  /** What was taken over from the source. */
  readonly synced: Readonly<Record<string, string>>;
  /** With the operator's own on top. */
  readonly configs: Readonly<Record<string, string>>;
  readonly starts: readonly SourceStart[];
  /** Clusters that the records came through before the source. */
  readonly origins: readonly string[];
}

export interface ToPlan {
  /** Of the mirror. */
  readonly name: string;
  readonly sourceTopic: string;
  readonly creating: PendingCreation;
}

/** Up to the starts. */
type Draft = Omit<Plan, 'starts'>;

/** By the mirror's name. @throws LinkError when the source or the destination does not answer */
export async function planMirrors(
  clusters: { readonly link: LinkRuntime; readonly destination: Cluster },
  wanted: readonly ToPlan[],
): Promise<ReadonlyMap<string, Plan | LinkError>> {
  const plans = new Map<string, Plan | LinkError>();
  if (wanted.length === 0) return plans;
  const destinationId = await clusterIdOf(clusters.destination);
  try {
    const source = await clusters.link.connected();
    const drafts = await draftAll(source, clusters.link, { wanted, destinationId });
    for (const [name, draft] of drafts) if (draft instanceof LinkError) plans.set(name, draft);
    for (const [spec, some] of bySpec(wanted)) {
      const ready = some.flatMap((one) => {
        const draft = drafts.get(one.name);
        return draft === undefined || draft instanceof LinkError ? [] : [{ ...one, draft }];
      });
      const infos = new Map(ready.map(({ draft }) => [draft.source.name, draft.source] as const));
      const starts = await manySourceStarts(source, [...infos.values()], { spec });
      for (const { name, sourceTopic, draft } of ready) {
        const own = starts.get(sourceTopic);
        plans.set(name, own === undefined ? noStarts(sourceTopic) : { ...draft, starts: own });
      }
    }
    await refuseOthers({ cluster: source, record: clusters.link.record }, wanted, plans);
    return plans;
  } catch (error) {
    if (!(error instanceof ClusterError)) throw error;
    throw new LinkError('SOURCE_UNREACHABLE', error.message, { cause: error });
  }
}

/** Ids, configs and starts are three answers, the last two by name: they are of one topic. */
async function refuseOthers(
  source: { readonly cluster: Cluster; readonly record: LinkRecord },
  wanted: readonly ToPlan[],
  plans: Map<string, Plan | LinkError>,
): Promise<void> {
  const planned = wanted.flatMap(({ name, sourceTopic }) => {
    const plan = plans.get(name);
    if (plan === undefined || plan instanceof LinkError) return [];
    return [{ name, sourceTopic, sourceTopicId: plan.source.topicId, partitions: [] }];
  });
  for (const [name, { cause }] of await unconfirmedSources(source, planned)) {
    plans.set(name, new LinkError('SOURCE_UNREACHABLE', `It changed while it was read: ${cause}`));
  }
}

function bySpec(wanted: readonly ToPlan[]): ReadonlyMap<string, readonly ToPlan[]> {
  const found = new Map<string, ToPlan[]>();
  for (const one of wanted) {
    const { startOffset = earliestStart } = one.creating;
    const same = found.get(startOffset);
    if (same) same.push(one);
    else found.set(startOffset, [one]);
  }
  return found;
}

function noStarts(sourceTopic: string): LinkError {
  const message = `The log starts of source topic '${sourceTopic}' cannot be read now`;
  return new LinkError('SOURCE_UNREACHABLE', message);
}

async function clusterIdOf(destination: Cluster): Promise<string | null> {
  try {
    return (await destination.metadata([])).clusterId;
  } catch (error) {
    if (!(error instanceof ClusterError)) throw error;
    const message = `The destination does not answer: ${error.message}`;
    throw new LinkError('DESTINATION_REFUSED', message, { cause: error });
  }
}

async function draftAll(
  source: Cluster,
  link: LinkRuntime,
  { wanted, destinationId }: { wanted: readonly ToPlan[]; destinationId: string | null },
): Promise<ReadonlyMap<string, Draft | LinkError>> {
  const names = [...new Set(wanted.map(({ sourceTopic }) => sourceTopic))];
  const { sourceClusterId } = link.record;
  const infos = await sourceTopics(source, names, sourceClusterId);
  const readable = names.filter((name) => !(infos.get(name) instanceof LinkError));
  const told = readable.length === 0 ? new Map() : await manyTopicConfigs(source, readable);
  const { include } = link.settings.configSync;
  const draftOf = ({ sourceTopic, creating }: ToPlan): Draft | LinkError => {
    const info = infos.get(sourceTopic) ?? notThere(sourceTopic);
    if (info instanceof LinkError) return info;
    const found = told.get(sourceTopic) ?? notThere(sourceTopic);
    if (found instanceof LinkError) return found;
    const origins = originsOf(found);
    const loop = whyLoop(sourceTopic, [...origins, sourceClusterId], destinationId);
    if (loop !== null) return loop;
    const synced = syncedConfigs(found, include);
    return { source: info, synced, configs: shellConfigs(synced, creating.configs), origins };
  };
  return new Map(wanted.map((one) => [one.name, draftOf(one)]));
}

/** Records must not come back into a cluster that they came from, under whatever name. */
function whyLoop(
  sourceTopic: string,
  clusters: readonly string[],
  destinationId: string | null,
): LinkError | null {
  if (destinationId === null || !clusters.includes(destinationId)) return null;
  const chain = [...clusters, destinationId].join(' -> ');
  return new LinkError('LOOP', `Source topic '${sourceTopic}' came from here: ${chain} is a loop`);
}

function notThere(topic: string): LinkError {
  return new LinkError('SOURCE_TOPIC_NOT_FOUND', `Source topic '${topic}' does not exist`);
}

async function sourceTopics(
  source: Cluster,
  names: readonly string[],
  clusterId: string,
): Promise<ReadonlyMap<string, TopicInfo | LinkError>> {
  const metadata = await source.metadata(names);
  if (metadata.clusterId !== clusterId) {
    throw new LinkError(
      'CLUSTER_ID_MISMATCH',
      `The source is cluster ${metadata.clusterId}, the link is to ${clusterId}`,
    );
  }
  return new Map(names.map((name) => [name, usableTopic(name, metadata.topics.get(name))]));
}

function usableTopic(topic: string, info: TopicInfo | undefined): TopicInfo | LinkError {
  if (info === undefined || info.errorCode === ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) {
    return notThere(topic);
  }
  if (info.errorCode === ErrorCode.TOPIC_AUTHORIZATION_FAILED) {
    const message =
      `No right to describe source topic '${topic}'; grant it with ` +
      grantCommand({ topic }, 'Read', 'DescribeConfigs');
    return new LinkError('SOURCE_UNAUTHORIZED', message);
  }
  if (info.errorCode !== ErrorCode.NONE) {
    const message = `Source topic '${topic}' cannot be read: ${errorName(info.errorCode)}`;
    return new LinkError('SOURCE_UNREACHABLE', message);
  }
  if (!info.isInternal) return info;
  return new LinkError('INVALID_NAME', `Topic '${topic}' is internal and is never mirrored`);
}

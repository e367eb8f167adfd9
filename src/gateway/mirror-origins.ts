// Which clusters a mirror's records have come through, told to whoever describes its configs: a
// read-only entry of our own among the topic's configs. Another Causeway that wants to mirror the
// mirror reads it there, so that no chain of links leads back into a cluster that it came from.
// Refuses to know links. Invariant: only mirrors have it; a promoted topic is the destination's.
import { createDescribeConfigsResourceResult } from '../../protocol/generated/describe-configs-response.ts';
import type { TopicDirectory } from './topic-directory.ts';
import { isMirrored } from './topic-standing.ts';

/** Cluster ids, the first one first, the mirror's own source last. */
export const originsConfig = 'causeway.mirror.source.clusters';

const topicResource = 2;
const stringType = 2;
/** As a default: tools that show what was set on a topic leave it out. Java dies of -1. */
const defaultSource = 5;

interface Asked {
  readonly resourceType: number;
  readonly resourceName: string;
  readonly configurationKeys: readonly string[] | null;
}

/** By topic; only of those that were asked for it. */
export function originsAskedFor(
  directory: TopicDirectory,
  resources: readonly Asked[],
): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, readonly string[]>();
  if (!directory.hasMirrors) return found;
  for (const { resourceType, resourceName, configurationKeys } of resources) {
    if (resourceType !== topicResource) continue;
    if (configurationKeys !== null && !configurationKeys.includes(originsConfig)) continue;
    const view = directory.byName(resourceName);
    if (view?.sourceClusters === undefined || !isMirrored(view)) continue;
    found.set(resourceName, view.sourceClusters);
  }
  return found;
}

export function originsEntry(clusters: readonly string[]) {
  return createDescribeConfigsResourceResult({
    name: originsConfig,
    value: clusters.join(','),
    readOnly: true,
    configSource: defaultSource,
    configType: stringType,
    documentation: 'The clusters that this mirror came through',
  });
}

/** What a source tells of its topic; empty when it is no mirror, or its mirror has no Causeway. */
export function originsOf(
  configs: readonly { readonly name: string; readonly value: string | null }[],
): readonly string[] {
  const value = configs.find(({ name }) => name === originsConfig)?.value ?? '';
  return value.split(',').filter((id) => id !== '');
}

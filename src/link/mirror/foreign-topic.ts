// Whether a topic that has the name of one that we were making is the one that we asked for. Owns
// what counts as proof; refuses to know what is done with the answer. Invariant: only what can be
// seen tells (partitions, no records, exactly the configs asked for), and what cannot be looked at
// now is an error, never a topic of ours.
import { ErrorCode, errorName } from '../../../protocol/index.ts';
import { type Cluster, ClusterError, type TopicInfo } from '../../cluster/cluster.ts';
import type { TopicRecord } from '../../state/records.ts';
import { LinkError } from '../link-error.ts';
import { topicConfigs } from './cluster-configs.ts';
import { measureShells } from './shell-measure.ts';
import { otherConfigs, shellConfigs } from './topic-configs.ts';

/**
 * Nothing had this name when the intent was committed. Null: what has it now is ours.
 * @throws LinkError, ClusterError when it cannot be told now
 */
export async function whyForeign(
  destination: Cluster,
  found: TopicInfo,
  asked: { readonly intent: TopicRecord; readonly partitionsCount: number },
): Promise<string | null> {
  const { intent, partitionsCount } = asked;
  if (found.errorCode !== ErrorCode.NONE) {
    throw new LinkError('DESTINATION_REFUSED', errorName(found.errorCode));
  }
  if (found.partitions.length !== partitionsCount) return 'it has another number of partitions';
  const shell = { name: found.name, topicId: found.topicId, partitionsCount };
  const measure = (await measureShells(destination, [shell])).get(found.name);
  if (measure?.kind !== 'refused') return whyOtherConfigs(destination, found.name, intent);
  // Only records prove that it is somebody else's; everything else is tried again.
  if (measure.error.code !== 'ILLEGAL_STATE') throw measure.error;
  return measure.error.message;
}

async function whyOtherConfigs(
  destination: Cluster,
  name: string,
  intent: TopicRecord,
): Promise<string | null> {
  const asked = shellConfigs(intent.syncedConfigs ?? {}, intent.creating?.configs ?? {});
  try {
    return otherConfigs(asked, await topicConfigs(destination, name));
  } catch (error) {
    if (!(error instanceof ClusterError || error instanceof LinkError)) throw error;
    throw new LinkError('DESTINATION_REFUSED', error.message, { cause: error });
  }
}

// What each broker of a cluster has in its metadata of some topics: one that was just started, that
// its controller does not reach, or that was left behind, tells what is not so any more. Owns who
// is asked and who counts; refuses to know what follows. Invariant: a broker that does not answer,
// or that was told nothing yet, says nothing.
import { ErrorCode } from '../../protocol/index.ts';
import { metadataApi } from '../cluster/apis.ts';
import { type Cluster, ClusterError, type ClusterMetadata } from '../cluster/cluster.ts';
import { clusterMetadata, metadataRequest } from '../cluster/metadata.ts';
import { forEachLimited } from './signal.ts';

const brokersInFlight = 16;
/** A broker that takes longer says nothing. */
const answerTimeoutMs = 2_000;

export interface BrokersWord {
  /** Of those that say something. */
  readonly seen: readonly ClusterMetadata[];
  /** Whether so many are most of the brokers that there were to ask. */
  isMost(count: number): boolean;
}

export async function askEveryBroker(
  cluster: Cluster,
  names: readonly string[],
  /** A connection that hangs holds up nothing else. */
  lane: string,
): Promise<BrokersWord> {
  const { brokers } = cluster;
  const request = metadataRequest(names);
  const seen: ClusterMetadata[] = [];
  await forEachLimited(brokers, brokersInFlight, async ({ nodeId }) => {
    try {
      const options = { lane, timeoutMs: answerTimeoutMs };
      const answer = await cluster.send({ kind: 'node', nodeId }, metadataApi, request, options);
      if (answer.errorCode !== ErrorCode.NONE) return;
      const metadata = clusterMetadata(answer);
      // One that does not know itself was told nothing yet, of topics neither.
      if (metadata.brokers.some((broker) => broker.nodeId === nodeId)) seen.push(metadata);
    } catch (error) {
      // Counted as one that does not answer.
      if (!(error instanceof ClusterError)) throw error;
    }
  });
  return { seen, isMost: (count) => count > brokers.length / 2 };
}

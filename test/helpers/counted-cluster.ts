// A client of a cluster that counts what it sends, by the name of the API.
//
// Owns: the counting. Knows nothing of what is sent. Invariant: answers pass unchanged.

import type { Cluster } from '../../src/cluster/cluster.ts';

/** Emptied by a quota of the broker. */
function isHeldBack(answer: unknown): boolean {
  if (typeof answer !== 'object' || answer === null) return false;
  if (!('throttleTimeMs' in answer && 'responses' in answer)) return false;
  const { throttleTimeMs, responses } = answer;
  return Number(throttleTimeMs) > 0 && Array.isArray(responses) && responses.length === 0;
}

/**
 * The same cluster, its requests counted; also as `NAME by WHO`, as `NAME on LANE`, and as `held
 * back on LANE` when a quota had emptied the answer.
 */
export function counted(cluster: Cluster, sent: Map<string, number>, who = 'us'): Cluster {
  const count = (...names: readonly string[]): void => {
    for (const name of names) sent.set(name, (sent.get(name) ?? 0) + 1);
  };
  return {
    send: async (target, api, request, options) => {
      count(api.name, `${api.name} by ${who}`);
      if (target.kind === 'node') count(`${api.name} of ${target.nodeId}`);
      const { lane } = options ?? {};
      if (lane !== undefined) count(`${api.name} on ${lane}`);
      const answer = await cluster.send(target, api, request, options);
      if (isHeldBack(answer)) count(`held back on ${lane}`);
      return answer;
    },
    metadata: (topics) => {
      count('Metadata', `Metadata by ${who}`);
      return cluster.metadata(topics);
    },
    apiVersions: (nodeId) => cluster.apiVersions(nodeId),
    reach: (host, port) => cluster.reach(host, port),
    get brokers() {
      return cluster.brokers;
    },
    bootstrap: cluster.bootstrap,
    close: () => cluster.close(),
  };
}

// A client of a cluster that counts what it sends, by the name of the API.
//
// Owns: the counting. Knows nothing of what is sent. Invariant: answers pass unchanged.

import type { Cluster } from '../../src/cluster/cluster.ts';

/** The same cluster, its requests counted; also as `NAME by WHO`. */
export function counted(cluster: Cluster, sent: Map<string, number>, who = 'us'): Cluster {
  const count = (...names: readonly string[]): void => {
    for (const name of names) sent.set(name, (sent.get(name) ?? 0) + 1);
  };
  return {
    send: (target, api, request, options) => {
      count(api.name, `${api.name} by ${who}`);
      if (target.kind === 'node') count(`${api.name} of ${target.nodeId}`);
      return cluster.send(target, api, request, options);
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

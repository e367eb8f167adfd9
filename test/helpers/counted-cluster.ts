// A client of a cluster that counts what it sends, by the name of the API.
//
// Owns: the counting. Knows nothing of what is sent. Invariant: answers pass unchanged.

import type { Cluster } from '../../src/cluster/cluster.ts';

/** The same cluster, its requests counted. */
export function counted(cluster: Cluster, sent: Map<string, number>): Cluster {
  return {
    send: (target, api, request, options) => {
      const ofNode = target.kind === 'node' ? [`${api.name} of ${target.nodeId}`] : [];
      for (const name of [api.name, ...ofNode]) sent.set(name, (sent.get(name) ?? 0) + 1);
      return cluster.send(target, api, request, options);
    },
    metadata: (topics) => {
      sent.set('Metadata', (sent.get('Metadata') ?? 0) + 1);
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

// Two guarded clusters, a link with every task on and a proxy, whose principals have the rights of
// docs/sync-tasks.md and no others.
//
// Owns: granting and taking rights, something to do for every task, and whether all of it was done.
// Knows nothing of which right is needed for what. Invariant: `done` looks at the clusters, not
// only at what the tasks say of themselves.

import type { Cluster } from '../../src/cluster/cluster.ts';
import { alterTopicConfigs, readTopicConfigs } from '../../src/cluster/config-requests.ts';
import type { Acl } from '../../src/state/records.ts';
import { aclKey } from '../../src/tasks/acl-diff.ts';
import { anyAcl } from '../../src/tasks/acl-filters.ts';
import { createAcls, deleteAcls, readAcls } from '../../src/tasks/acl-requests.ts';
import { type CausewayProcess, prepareCauseway } from './causeway-process.ts';
import { commitOffsets, committedOffsets } from './group-offsets.ts';
import type { KafkaCluster } from './kafka-cluster.ts';
import {
  documentedRights,
  guardedLogin,
  guardedPassword,
  type Right,
  startGuardedCluster,
} from './minimal-rights.ts';
import { openCluster } from './raw-batches.ts';
import { values, write } from './raw-writes.ts';
import { securedAddress } from './secured-clusters.ts';
import { createTopic } from './topic-admin.ts';
import { until } from './wait.ts';

const names = { link: 'dr', topicPrefix: 't.', groupPrefix: 'g.', principal: 'User:causeway' };
const group = 'g.one';
const first = 't.0';
const reference = (name: string): string => `\${env:${name}}`;

interface TaskView {
  readonly name: string;
  readonly state: string;
  readonly errors: readonly { readonly code: string; readonly message: string }[];
}

interface MirrorCauses {
  readonly partitions: readonly { readonly stallCause: string | null }[];
}

interface LinkView {
  readonly linkErrorMessage?: string | null;
  readonly tasks: readonly TaskView[];
}

function readingOf(topic: string): Acl {
  return {
    resourceType: 2,
    resourceName: topic,
    patternType: 3,
    principal: 'User:reader',
    host: '*',
    operation: 3,
    permissionType: 3,
  };
}

export class RightsStage {
  readonly rights = documentedRights(names);
  readonly source: KafkaCluster;
  readonly destination: KafkaCluster;
  readonly causeway: CausewayProcess;
  readonly atSource: Cluster;
  readonly atDestination: Cluster;
  /** How often there was something to do. */
  #count = 0;

  constructor(parts: {
    source: KafkaCluster;
    destination: KafkaCluster;
    causeway: CausewayProcess;
  }) {
    this.source = parts.source;
    this.destination = parts.destination;
    this.causeway = parts.causeway;
    this.atSource = openCluster(parts.source);
    this.atDestination = openCluster(parts.destination);
  }

  async grant(rights: readonly Right[]): Promise<void> {
    await this.#change(rights, createAcls);
  }

  async take(rights: readonly Right[]): Promise<void> {
    await this.#change(rights, deleteAcls);
  }

  async #change(rights: readonly Right[], change: typeof createAcls): Promise<void> {
    for (const side of ['source', 'destination'] as const) {
      const acls = rights.filter((right) => right.side === side).map(({ acl }) => acl);
      if (acls.length === 0) continue;
      const cluster = side === 'source' ? this.atSource : this.atDestination;
      const problem = (await change(cluster, acls)).find((one) => one !== null);
      if (problem) throw new Error(`ACLs of the ${side}: ${problem.message}`);
    }
  }

  async createLink(): Promise<void> {
    const topicFilters = [{ name: 't.', patternType: 'PREFIXED', filterType: 'INCLUDE' }];
    const groupFilters = [{ name: 'g.', patternType: 'PREFIXED', filterType: 'INCLUDE' }];
    const aclFilters = [
      {
        resourceFilter: { resourceType: 'topic' },
        accessFilter: { principal: 'User:reader', operation: 'any', permissionType: 'any' },
      },
    ];
    const settings: Record<string, string> = {
      ...guardedLogin(reference('SOURCE_PASSWORD')),
      'auto.create.mirror.topics.enable': 'true',
      'auto.create.mirror.topics.filters': JSON.stringify({ topicFilters }),
      'consumer.offset.sync.enable': 'true',
      'consumer.offset.group.filters': JSON.stringify({ groupFilters }),
      'acl.sync.enable': 'true',
      'acl.sync.ms': '1000',
      'acl.filters': JSON.stringify({ aclFilters }),
      'topic.config.sync.ms': '1000',
      'emit.checkpoints.enabled': 'true',
      'emit.checkpoints.interval.seconds': '1',
      'emit.heartbeats.enabled': 'true',
    };
    const configs = Object.entries(settings).flatMap(([name, value]) => [
      '--config',
      `${name}=${value}`,
    ]);
    const from = ['--source', securedAddress(this.source)];
    await this.causeway.cli('link', 'create', names.link, ...from, ...configs);
  }

  /** A new topic, a record, a commit, a config, an ACL. */
  async giveWork(): Promise<void> {
    const count = this.#count++;
    const topic = `t.${count}`;
    await createTopic(this.atSource, topic);
    await write(this.atSource, first, 0, values('more', 1));
    await commitOffsets(this.atSource, group, first, [count + 1]);
    const change = [{ name: 'retention.ms', value: String(1_000_000 + count) }];
    await alterTopicConfigs(this.atSource, new Map([[first, change]]));
    const [problem] = await createAcls(this.atSource, [readingOf(topic)], 'source');
    if (problem) throw new Error(problem.message);
  }

  /** What is not done yet of the last work; null when all of it is. */
  async missing(): Promise<string | null> {
    const count = this.#count - 1;
    const topic = `t.${count}`;
    const mirrors = await this.causeway.get<{ mirrors: { name: string; state: string }[] }>(
      '/causeway/v1/mirrors',
    );
    const found = mirrors.mirrors.find(({ name }) => name === topic);
    if (found?.state !== 'ACTIVE') return `mirror ${topic} is ${found?.state}`;
    const [offset] = await committedOffsets(this.atDestination, group, first, 1);
    if (offset !== count + 1) return `${group} is at ${offset}`;
    const read = await readTopicConfigs(this.atDestination, [first], ['retention.ms']);
    const retention = read.get(first)?.configs[0]?.value;
    if (retention !== String(1_000_000 + count)) return `retention.ms is ${retention}`;
    const acls = (await readAcls(this.atDestination, anyAcl, 'destination')).map(aclKey);
    if (!acls.includes(aclKey(readingOf(topic)))) return `the ACL of ${topic}`;
    return this.#unwell();
  }

  async #unwell(): Promise<string | null> {
    const { link, tasks } = await this.troubles();
    if (link !== null) return link;
    const task = tasks.find(({ state }) => state !== 'ACTIVE');
    if (task !== undefined) return `${task.name} is ${task.state}: ${messages([task])}`;
    const metrics = await (await fetch(`${this.causeway.adminUrl}/metrics`)).text();
    return /causeway_link_heartbeat_age_seconds\{link="dr"\} [\d.]+/.test(metrics)
      ? null
      : 'no heartbeat has come through';
  }

  async troubles(): Promise<{ link: string | null; tasks: readonly TaskView[] }> {
    const view = await this.causeway.get<LinkView>(`/causeway/v1/links/${names.link}`);
    return { link: view.linkErrorMessage ?? null, tasks: view.tasks };
  }

  /** Everything that is said of what is wrong. */
  async said(): Promise<string> {
    const { link, tasks } = await this.troubles();
    const { mirrors } = await this.causeway.get<{ mirrors: readonly MirrorCauses[] }>(
      '/causeway/v1/mirrors',
    );
    const causes = mirrors.flatMap(({ partitions }) =>
      partitions.map(({ stallCause }) => stallCause ?? ''),
    );
    return [link ?? '', messages(tasks), ...causes].join('\n');
  }

  async allDone(): Promise<void> {
    let seen: string | null = '';
    await until(
      'all work of all tasks',
      async () => {
        seen = await this.missing();
        return seen === null;
      },
      { deadlineMs: 90_000, intervalMs: 200, describe: () => `last: ${seen}` },
    );
  }

  async stop(): Promise<void> {
    await Promise.all([this.atSource.close(), this.atDestination.close()]);
    await this.causeway.stop();
    await Promise.all([this.source.stop(), this.destination.stop()]);
  }
}

function messages(tasks: readonly TaskView[]): string {
  return tasks
    .flatMap(({ name, errors }) => errors.map(({ message }) => `${name}: ${message}`))
    .join('\n');
}

/** All rights are given, and the link is made. */
export async function startRightsStage(): Promise<RightsStage> {
  const started = await Promise.allSettled([
    startGuardedCluster('source'),
    startGuardedCluster('destination'),
  ]);
  const clusters = started.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  const [source, destination] = clusters;
  if (source === undefined || destination === undefined) {
    await Promise.all(clusters.map((cluster) => cluster.stop()));
    throw new Error('two clusters are needed');
  }
  const causeway = await prepareCauseway({
    destination,
    env: { SOURCE_PASSWORD: guardedPassword, DESTINATION_PASSWORD: guardedPassword },
    config: {
      destination: {
        'bootstrap.servers': securedAddress(destination),
        ...guardedLogin(`\${DESTINATION_PASSWORD}`),
      },
    },
  });
  const stage = new RightsStage({ source, destination, causeway });
  try {
    await stage.grant(stage.rights);
    await causeway.start();
    await stage.createLink();
    return stage;
  } catch (error) {
    await stage.stop();
    throw error;
  }
}

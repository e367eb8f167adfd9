// Two clusters with Kafka's authorizer, one without, and a world of links over them: what the tests
// of ACLs share.
//
// Owns: the brokers, and looking at ACLs until they are as wanted. Refuses to know what is tested.
// Invariant: ACLs that a test makes are of names of its own.
import assert from 'node:assert/strict';
import type { Cluster } from '../../src/cluster/cluster.ts';
import type { TaskStatus } from '../../src/link/service.ts';
import type { Acl } from '../../src/state/records.ts';
import { aclKey } from '../../src/tasks/acl-diff.ts';
import { anyAcl } from '../../src/tasks/acl-filters.ts';
import { createAcls, deleteAcls, readAcls } from '../../src/tasks/acl-requests.ts';
import { type KafkaCluster, startKafkaCluster } from '../helpers/kafka-cluster.ts';
import { uniqueName, until } from '../helpers/wait.ts';
import { LinkWorld } from './link-fixture.ts';

const guarded = {
  'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
  'super.users': 'User:ANONYMOUS',
};

const read = 3;
export const write = 4;

export function acl(topic: string, principal: string, operation = read): Acl {
  return {
    resourceType: 2,
    resourceName: topic,
    patternType: 3,
    principal: `User:${principal}`,
    host: '*',
    operation,
    permissionType: 3,
  };
}

export async function add(cluster: Cluster, ...acls: readonly Acl[]): Promise<void> {
  for (const problem of await createAcls(cluster, acls)) assert.equal(problem, null);
}

export async function remove(cluster: Cluster, ...acls: readonly Acl[]): Promise<void> {
  for (const problem of await deleteAcls(cluster, acls)) assert.equal(problem, null);
}

/** ACLs on topics that begin so. */
export async function aclsOf(cluster: Cluster, prefix: string): Promise<readonly string[]> {
  const all = await readAcls(cluster, anyAcl, 'destination');
  return all
    .filter(({ resourceName }) => resourceName.startsWith(prefix))
    .map(aclKey)
    .sort();
}

export function filtersFor(prefix: string): string {
  const aclFilters = [
    {
      resourceFilter: { resourceType: 'topic', patternType: 'any' },
      accessFilter: { principal: `User:${prefix}`, operation: 'any', permissionType: 'any' },
    },
  ];
  return JSON.stringify({ aclFilters });
}

export class AclScene {
  readonly source: KafkaCluster;
  readonly destination: KafkaCluster;
  /** Without an authorizer. */
  readonly plain: KafkaCluster;
  readonly world: LinkWorld;

  constructor(parts: {
    source: KafkaCluster;
    destination: KafkaCluster;
    plain: KafkaCluster;
    world: LinkWorld;
  }) {
    this.source = parts.source;
    this.destination = parts.destination;
    this.plain = parts.plain;
    this.world = parts.world;
  }

  async close(): Promise<void> {
    await this.world.close();
    await Promise.all([this.source.stop(), this.destination.stop(), this.plain.stop()]);
  }

  /** Waits until the destination has these on topics that begin so, and no others. */
  async become(prefix: string, wanted: readonly Acl[]): Promise<void> {
    const keys = wanted.map(aclKey).sort();
    let seen: readonly string[] = [];
    await until(
      `ACLs of ${prefix}`,
      async () => {
        seen = await aclsOf(this.world.destination, prefix);
        return JSON.stringify(seen) === JSON.stringify(keys);
      },
      { deadlineMs: 15_000, describe: () => `${seen}\nwanted ${keys}` },
    );
  }

  /** A link that syncs the ACLs of one principal. */
  async aclLink(principal: string, configs: Record<string, string>): Promise<string> {
    const link = uniqueName('acls');
    await this.world.createLink(link, {
      'acl.sync.enable': 'true',
      'acl.sync.ms': '300',
      'acl.filters': filtersFor(principal),
      ...configs,
    });
    return link;
  }

  task(link: string): TaskStatus {
    const { tasks } = this.world.service.describeLink(link);
    const found = tasks.find(({ name }) => name === 'AclSync');
    assert.ok(found);
    return found;
  }

  async rounds(link: string, count: number): Promise<void> {
    for (let round = 0; round < count; round++) {
      const { lastSuccessTimeMs } = this.task(link);
      await until('a round', () => this.task(link).lastSuccessTimeMs > lastSuccessTimeMs, {
        describe: () => JSON.stringify(this.task(link)),
      });
    }
  }

  async alter(link: string, name: string, value: string): Promise<void> {
    const options = { validateOnly: false, actor: 'test' };
    await this.world.service.alterLink(link, [{ name, value }], options);
  }
}

export async function openAclScene(): Promise<AclScene> {
  const [source, destination, plain] = await Promise.all([
    startKafkaCluster({ name: 'source', settings: guarded }),
    startKafkaCluster({ name: 'destination', advertise: 'reachable', settings: guarded }),
    startKafkaCluster({ name: 'plain', advertise: 'reachable' }),
  ]);
  const world = await new LinkWorld({ source, destination }).open();
  return new AclScene({ source, destination, plain, world });
}

// The rights that docs/sync-tasks.md says our principals need, as ACLs, and brokers that give
// nobody anything else.
//
// Owns: reading the table of that page, and clusters with Kafka's authorizer whose inner listener
// asks for a login. Knows nothing of what the rights are for. Invariant: every row of the table is
// understood, or reading it is a failure; set-up goes over the plain listener, whose anonymous user
// may do everything.

import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { Acl } from '../../src/state/records.ts';
import {
  operations,
  patternTypes,
  permissionTypes,
  resourceTypes,
} from '../../src/tasks/acl-filters.ts';
import { type KafkaCluster, startKafkaCluster } from './kafka-cluster.ts';
import { rootDirectory } from './repository.ts';
import { jaasLine } from './secured-clusters.ts';

export interface Right {
  /** The task, or what else it is for. */
  readonly purpose: string;
  readonly side: 'source' | 'destination';
  readonly acl: Acl;
  /** As kafka-acls has it: `DescribeConfigs`. */
  readonly operation: string;
}

export interface RightNames {
  readonly link: string;
  /** Of the link's topics, which keep their names, and of its groups. */
  readonly topicPrefix: string;
  readonly groupPrefix: string;
  readonly principal: string;
}

type Resource = Pick<Acl, 'resourceType' | 'resourceName' | 'patternType'>;

function resourceOf(text: string, names: RightNames): Resource {
  const { topic, group, cluster, transactionalId } = resourceTypes;
  const { literal, prefixed } = patternTypes;
  const fixed: Record<string, Resource> = {
    topics: { resourceType: topic, resourceName: names.topicPrefix, patternType: prefixed },
    shells: { resourceType: topic, resourceName: names.topicPrefix, patternType: prefixed },
    groups: { resourceType: group, resourceName: names.groupPrefix, patternType: prefixed },
    'the cluster': {
      resourceType: cluster,
      resourceName: 'kafka-cluster',
      patternType: literal,
    },
  };
  const found = fixed[text];
  if (found !== undefined) return found;
  const [, kind, quoted = ''] = /^(topics?|transactional ids) `([^`]+)`$/.exec(text) ?? [];
  if (kind === undefined) throw new Error(`the table of rights has a resource '${text}'`);
  const name = quoted.replace('<link>', names.link);
  return {
    resourceType: kind === 'transactional ids' ? transactionalId : topic,
    resourceName: name.replace(/\*$/, ''),
    patternType: name.endsWith('*') ? prefixed : literal,
  };
}

function operationOf(text: string): { name: keyof typeof operations; shown: string } {
  const shown = text
    .split('_')
    .map((word) => `${word[0]}${word.slice(1).toLowerCase()}`)
    .join('');
  const name = `${shown[0]?.toLowerCase()}${shown.slice(1)}`;
  if (!Object.hasOwn(operations, name)) throw new Error(`there is no operation ${text}`);
  return { name: name as keyof typeof operations, shown };
}

/** The table of docs/sync-tasks.md, one entry for each operation. */
export function documentedRights(names: RightNames): readonly Right[] {
  const page = readFileSync(path.join(rootDirectory, 'docs/sync-tasks.md'), 'utf8');
  const [, section = ''] = page.split('## Rights of our principals\n');
  const lines = section.split('\n').filter((line) => line.startsWith('| '));
  return lines.slice(1).flatMap((line) => {
    const [purpose = '', side, on = '', list = ''] = line
      .slice(2, -2)
      .split(' | ')
      .map((cell) => cell.trim());
    if (side !== 'source' && side !== 'destination') throw new Error(`which side: ${line}`);
    return list.split(', ').map((text) => {
      const { name, shown } = operationOf(text);
      const acl = {
        ...resourceOf(on, names),
        principal: names.principal,
        host: '*',
        operation: operations[name],
        permissionType: permissionTypes.allow,
      };
      return { purpose: purpose.replaceAll('`', ''), side, acl, operation: shown };
    });
  });
}

const password = 'of-our-principal';

/** `User:causeway` may log in at the inner listener, and do nothing. */
export function startGuardedCluster(
  name: string,
  settings: Readonly<Record<string, string>> = {},
): Promise<KafkaCluster> {
  const login = jaasLine('PLAIN', 'admin', password).slice(0, -1);
  const users = `user_admin="${password}" user_causeway="${password}"`;
  return startKafkaCluster({
    name,
    advertise: 'reachable',
    settings: {
      'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
      'super.users': 'User:ANONYMOUS;User:admin',
      'listener.security.protocol.map':
        'CLIENT:PLAINTEXT,INTERNAL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT',
      'sasl.enabled.mechanisms': 'PLAIN',
      'sasl.mechanism.inter.broker.protocol': 'PLAIN',
      'listener.name.internal.plain.sasl.jaas.config': `${login} ${users};`,
      ...settings,
    },
  });
}

/** How User:causeway logs in there; `secret` is how the password is told. */
export function guardedLogin(secret = password): Readonly<Record<string, string>> {
  return {
    'security.protocol': 'SASL_PLAINTEXT',
    'sasl.mechanism': 'PLAIN',
    'sasl.jaas.config': jaasLine('PLAIN', 'causeway', secret),
  };
}

export const guardedPassword = password;

// Everything that the proxy has made in its clusters and that would be left when it goes: topics,
// topic configs, ACLs, committed offsets of groups. Owns the list and what to do about each entry;
// refuses to remove anything. Invariant: what cannot be listed is an error, never a shorter list.
import type { Acl, TopicRecord } from '../state/records.ts';
import { describeAcl } from '../tasks/acls.ts';
import { readTopicCommits } from '../tasks/group-shift.ts';
import { openNativeExtent } from '../timeline/timeline.ts';
import type { LinkContext } from './context.ts';
import { LinkError } from './link-error.ts';
import type { Leftover } from './service.ts';

/** @throws ClusterError, LinkError DESTINATION_REFUSED when groups cannot be read */
export async function listLeftovers(context: LinkContext): Promise<readonly Leftover[]> {
  const { view } = context.state;
  const topics = [...view.topics.values()];
  const acls = [...view.linkAcls.values()].flatMap(({ link, acls: own }) =>
    own.map((acl) => aclOf(acl, `destination, made by link '${link}'`, 'kafka-acls --remove')),
  );
  return [
    ...topics.map(topicOf),
    ...topics.flatMap(configsOf),
    ...acls,
    ...topics.flatMap(fenceOf),
    ...(await commitsOf(context, topics)),
  ];
}

function topicOf({ name, state, link }: TopicRecord): Leftover {
  const isSwitched = state === 'STOPPED';
  return {
    kind: 'topic',
    subject: name,
    detail: isSwitched
      ? `promoted, history and offsets by way of the proxy (link '${link}')`
      : `shell of a mirror of link '${link}', ${state}, empty at its brokers`,
    remedy: isSwitched ? `causeway mirror detach ${name}` : `causeway mirror delete ${name}`,
  };
}

function configsOf({ name, syncedConfigs = {} }: TopicRecord): Leftover[] {
  return Object.entries(syncedConfigs).map(([key, value]) => ({
    kind: 'config',
    subject: `${name} ${key}`,
    detail: `${value}, taken over from the source`,
    remedy: 'kafka-configs --alter, where the destination wants another value',
  }));
}

function aclOf(acl: Acl, where: string, remedy: string): Leftover {
  return { kind: 'acl', subject: describeAcl(acl), detail: where, remedy };
}

function fenceOf({ name, link, fence }: TopicRecord): Leftover[] {
  const where = `source of link '${link}', made for the promotion of '${name}'`;
  return (fence?.acls ?? []).map((acl) =>
    aclOf(acl, where, 'kafka-acls --remove at the source, when it may be written to again'),
  );
}

async function commitsOf(
  { destination }: LinkContext,
  topics: readonly TopicRecord[],
): Promise<Leftover[]> {
  if (topics.length === 0) return [];
  const byName = new Map(topics.map((record) => [record.name, record] as const));
  const { commits, problems } = await readTopicCommits(destination, new Set(byName.keys()));
  const [problem] = problems;
  if (problem !== undefined) throw new LinkError('DESTINATION_REFUSED', problem);
  return commits.map(({ group, topic, partition, offset }) => {
    const record = byName.get(topic);
    const timeline = record?.partitions[partition];
    const extent = timeline === undefined ? null : openNativeExtent(timeline);
    const isMirrored = record?.state !== 'STOPPED';
    const shift = isMirrored ? null : (extent?.offsetShift ?? 0n);
    return {
      kind: 'group',
      subject: `${group} ${topic}-${partition}`,
      detail:
        shift === null
          ? `at ${offset}, an offset of the source`
          : `at ${offset}, which its broker knows as ${offset - shift}`,
      remedy: isMirrored
        ? 'kafka-consumer-groups --delete-offsets, or promote and detach the topic'
        : `causeway mirror detach ${topic}`,
    };
  });
}

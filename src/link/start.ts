// Puts the link layer together: directory, links with their tasks, commands, and the regular look
// at what was left behind. Owns the order of start and stop; refuses to know anything else.
// Invariant: the directory has opened every log (and hides what an uncommitted switch appended)
// before a link or a client is served.
import type { GroupGate } from '../gateway/handler.ts';
import type { TopicDirectory } from '../gateway/topic-directory.ts';
import type { TopicRecord } from '../state/records.ts';
import { LinkTasks } from '../tasks/link-tasks.ts';
import { PrefixRetention } from '../tasks/prefix-retention.ts';
import { defaultLinkLimits, type LinkClock, type LinkContext, type LinkLimits } from './context.ts';
import { LinkServiceImpl } from './link-service.ts';
import { Links } from './links.ts';
import { MirrorCreator } from './mirror/create-mirror.ts';
import { LogRemovals } from './mirror/log-removals.ts';
import { MirrorTopics } from './mirror/mirror-topics.ts';
import { PendingCreations } from './mirror/pending-creations.ts';
import { ShellWatch } from './mirror/shell-watch.ts';
import { TopicChanges } from './mirror/topic-changes.ts';
import { MirrorCommands, newReceiptId } from './mirror-commands.ts';
import { MirrorStatuses } from './mirror-statuses.ts';
import type { LinkService } from './service.ts';
import { StallWatch } from './stall-watch.ts';
import { Detach } from './switch/detach.ts';
import { Failover } from './switch/failover.ts';
import { Promotions } from './switch/promote.ts';
import type { ReceiptParts } from './switch/receipt.ts';
import { SourceFence } from './switch/source-fence.ts';
import { SwitchedWatch } from './switch/switched-watch.ts';
import { WriteGrants } from './switch/write-grants.ts';

export interface StartLinksOptions extends Omit<LinkContext, 'limits' | 'ownTopicPrefix'> {
  readonly limits?: Partial<LinkLimits>;
  /** Topics with this prefix are ours and are never mirrored. Default `__causeway`. */
  readonly ownTopicPrefix?: string;
  /** How often promoted prefixes are aged out. Default: as Kafka, every five minutes. */
  readonly retentionCheckMs?: number;
  /** An operator's word that what is missing from mirror logs is lost. */
  readonly acceptLoss?: boolean;
}

export interface StartedLinks {
  readonly service: LinkService;
  readonly directory: TopicDirectory;
  /** Groups that are being handed over from a source. */
  readonly groupGate: GroupGate;
  /** Stops fetching and tasks; logs and state stay open, they are not ours to close. */
  close(): Promise<void>;
}

function contextOf(options: StartLinksOptions): LinkContext {
  return {
    state: options.state,
    storage: options.storage,
    destination: options.destination,
    connectSource: options.connectSource,
    events: options.events,
    clock: options.clock,
    limits: { ...defaultLinkLimits, ...options.limits },
    ownTopicPrefix: options.ownTopicPrefix ?? '__causeway',
  };
}

/** What is told of a switch beside its ends: lag and groups, as the links know them. */
function receiptParts(clock: LinkClock, links: Links<LinkTasks>): ReceiptParts {
  return {
    clock,
    lag: (link, topic, partition) => links.entry(link)?.runtime.feeds.lag(topic, partition),
    groups: (link, topics) => links.entry(link)?.tasks.groups.positions(topics) ?? [],
    groupsReadMs: (link, topic) => links.entry(link)?.tasks.groups.readTimeMs(topic) ?? -1,
  };
}

function makeParts(context: LinkContext, options: StartLinksOptions) {
  const { state, events, clock } = context;
  const topics = new MirrorTopics({ ...context, acceptLoss: options.acceptLoss ?? false });
  const changes = new TopicChanges({ state, events, clock, touch: (topic) => topics.touch(topic) });
  const removals = new LogRemovals({ context, topics, changes });
  const creator = new MirrorCreator({ context, topics, changes, removals });
  const links = new Links<LinkTasks>({
    context,
    topics,
    changes,
    makeTasks: (link) => new LinkTasks({ context, topics, link, changes, creator }),
  });
  const link = (name: string) => links.entry(name)?.runtime;
  const creations = new PendingCreations({ context, creator, link });
  const receipts = receiptParts(clock, links);
  const common = { context, topics, changes, removals };
  const failover = new Failover({ ...common, link, receipts });
  const fence = new SourceFence({
    ...{ context, changes },
    link: (record) => links.of(record)?.runtime,
  });
  const grants = new WriteGrants({ context, changes });
  const promotions = new Promotions({
    ...common,
    link,
    fence,
    finalGroups: async (name, topic) => (await links.entry(name)?.tasks.final(topic)) ?? [],
    receiptId: newReceiptId,
    receipts,
  });
  const switched = new SwitchedWatch({
    ...common,
    links: () => [...links.entries].map(({ runtime }) => runtime),
  });
  const statuses = new MirrorStatuses({ context, topics, links, promotions, switched });
  const detach = new Detach({ ...common, statuses });
  return {
    ...common,
    creator,
    creations,
    links,
    failover,
    promotions,
    switched,
    statuses,
    detach,
    fence,
    grants,
    receipts,
  };
}

export async function startLinks(options: StartLinksOptions): Promise<StartedLinks> {
  const context = contextOf(options);
  const parts = makeParts(context, options);
  const { topics, changes, creations, links, failover, promotions, switched, detach } = parts;
  const { fence, grants, removals } = parts;
  const takeUp = async (): Promise<void> => {
    await failover.undoInterrupted();
    promotions.resume();
    fence.lowerStale();
    grants.carryOut();
    await detach.resume();
    creations.takeUp();
    await removals.resume();
  };
  const onFailed = async (topic: string): Promise<void> => {
    await links.entry(topics.byName(topic)?.link ?? '')?.runtime.feeds.stop(topic);
  };
  const sourcePartitions = ({ link, sourceTopic }: TopicRecord): number | null =>
    links.entry(link)?.runtime.sourceTopic(sourceTopic)?.partitions.length ?? null;
  const common = { context, changes };
  const watch = new ShellWatch({ ...common, takeUp, onFailed, sourcePartitions });
  const stalls = new StallWatch({
    ...{ context, topics },
    linkOf: ({ record }) => links.of(record)?.runtime,
  });
  const retention = new PrefixRetention({ context, topics, checkMs: options.retentionCheckMs });

  await topics.start();
  grants.start();
  links.start();
  watch.start();
  stalls.start();
  retention.start();
  switched.start();

  return {
    service: new LinkServiceImpl({ ...parts, commands: new MirrorCommands(parts) }),
    directory: topics,
    groupGate: gateOf(links),
    close: async () => {
      changes.close();
      // Its looks end with the connections of the links.
      const switchedClosed = switched.close();
      await watch.close();
      await stalls.close();
      await retention.close();
      await promotions.close();
      await fence.close();
      await grants.close();
      await links.close();
      await creations.close();
      await switchedClosed;
      topics.close();
    },
  };
}

function gateOf(links: Links<LinkTasks>): GroupGate {
  const handovers = () => [...links.entries].map(({ tasks }) => tasks.handovers);
  return {
    get isAnyHeld() {
      return handovers().some((one) => one.isAnyHeld);
    },
    isHeld: (group) => handovers().some((one) => one.isHeld(group)),
  };
}

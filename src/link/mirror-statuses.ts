// Mirrors as the commands find and show them: by name, with their link, with what blocks and what
// there is to know. Owns no data; refuses to change any. Invariant: a name that is no mirror is an
// error with a code, never an empty status.
import type { LinkTasks } from '../tasks/link-tasks.ts';
import type { LinkContext } from './context.ts';
import type { LinkRuntime } from './link.ts';
import { LinkError } from './link-error.ts';
import type { Links } from './links.ts';
import { shownState } from './mirror/mirror-state.ts';
import type { MirrorTopic, MirrorTopics } from './mirror/mirror-topics.ts';
import type { MirrorStatus } from './service.ts';
import { goneLink, mirrorStatus } from './status.ts';
import { type Blocking, blocking } from './switch/blocking.ts';
import type { Promotions } from './switch/promote.ts';
import { hasSingleCopy } from './switch/receipt.ts';
import type { SwitchedWatch } from './switch/switched-watch.ts';

const damageShownMax = 5;

export interface MirrorStatusesParts {
  readonly context: LinkContext;
  readonly topics: MirrorTopics;
  readonly links: Links<LinkTasks>;
  readonly promotions: Promotions;
  readonly switched: SwitchedWatch;
}

export class MirrorStatuses {
  readonly #parts: MirrorStatusesParts;

  constructor(parts: MirrorStatusesParts) {
    this.#parts = parts;
  }

  /** @throws LinkError MIRROR_NOT_FOUND */
  topic(name: string): MirrorTopic {
    const topic = this.#parts.topics.byName(name);
    if (topic === undefined) {
      throw new LinkError('MIRROR_NOT_FOUND', `There is no mirror '${name}'`);
    }
    return topic;
  }

  /** Undefined when the link was deleted. */
  link(topic: MirrorTopic): LinkRuntime | undefined {
    return this.#parts.links.of(topic.record)?.runtime;
  }

  /** The state that is shown: the stored one, seen through the condition of its link. */
  shown(topic: MirrorTopic) {
    return shownState(topic.record.state, this.link(topic)?.conditions ?? goneLink);
  }

  of(topic: MirrorTopic): MirrorStatus {
    const { context, promotions, switched } = this.#parts;
    return mirrorStatus(topic, this.link(topic), {
      context,
      blocking: promotions.blocking(topic.name),
      notices: this.#notices(topic),
      strayRecords: topic.record.state === 'STOPPED' ? switched.strays(topic.topicId) : null,
    });
  }

  /** Why a command of this link cannot be about this name; null when it can. */
  wrongName(name: string, link: string | null): LinkError | null {
    const topic = this.#parts.topics.byName(name);
    if (topic === undefined) {
      return new LinkError('MIRROR_NOT_FOUND', `There is no mirror '${name}'`);
    }
    if (link !== null && !this.#parts.links.isOf(topic.record, link)) {
      const whose = topic.link === link ? `a deleted link '${link}'` : `link '${topic.link}'`;
      const message = `Topic '${name}' is mirrored by ${whose}, not by '${link}'`;
      return new LinkError('MIRROR_NOT_FOUND', message);
    }
    return null;
  }

  #notices(topic: MirrorTopic): readonly Blocking[] {
    return [
      ...this.#liveGroups(topic),
      ...fenceOf(topic),
      ...this.#grants(topic),
      ...singleCopy(topic),
      ...damagedRecords(topic),
    ];
  }

  #grants({ name }: MirrorTopic): readonly Blocking[] {
    const count = this.#parts.context.state.view.topicGrants.get(name)?.acls.length ?? 0;
    if (count === 0) return [];
    return [blocking('WRITE_GRANTS_PENDING', `${count} grants of WRITE are not made yet`)];
  }

  /** Groups with members here are left as they are, also by a promotion. */
  #liveGroups(topic: MirrorTopic): readonly Blocking[] {
    if (topic.record.state !== 'PENDING_STOPPED') return [];
    const { groups } = this.#parts.links.entry(topic.link)?.tasks ?? {};
    const live = (groups?.status(new Set([topic.name])) ?? []).filter(
      ({ held }) => held === 'live',
    );
    return [...new Set(live.map(({ group }) => group))].map((group) =>
      blocking('GROUP_LIVE_AT_DESTINATION', `group '${group}' has members at the destination`),
    );
  }
}

export function fenceOf({ record }: MirrorTopic): readonly Blocking[] {
  const count = record.fence?.acls.length ?? 0;
  if (count === 0) return [];
  return [blocking('SOURCE_FENCED', `WRITE on '${record.sourceTopic}' is denied at the source`)];
}

/** One for all ranges, of which there may be very many. */
export function damagedRecords({ partitions }: MirrorTopic): readonly Blocking[] {
  const ranges = partitions.flatMap(({ partition, log }) =>
    (log?.damage ?? []).map(({ from, to }) => `partition ${partition}: offsets [${from}, ${to})`),
  );
  if (ranges.length === 0) return [];
  const shown = ranges.slice(0, damageShownMax).join(', ');
  const more = ranges.length > damageShownMax ? ` and ${ranges.length - damageShownMax} more` : '';
  return [blocking('RECORDS_DAMAGED', `readers get KAFKA_STORAGE_ERROR in ${shown}${more}`)];
}

function singleCopy(topic: MirrorTopic): readonly Blocking[] {
  const { state } = topic.record;
  if ((state !== 'PENDING_STOPPED' && state !== 'STOPPED') || !hasSingleCopy(topic)) return [];
  return [blocking('HISTORY_SINGLE_COPY', 'of what lies below S there is one copy')];
}

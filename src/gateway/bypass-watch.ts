// Groups on mirrored or promoted topics whose members come to the destination past us: they read
// native offsets, or an empty shell, and commit what is wrong for everybody else. Owns the regular
// look and who was found; refuses to know requests. Invariant: what is shown is of one look at all
// groups; a look that failed leaves what was known.
import { type Cluster, ClusterError } from '../cluster/cluster.ts';
import { pauseMs } from '../cluster/pause.ts';
import type { Events } from '../observe/events.ts';
import { type GroupWithMembers, groupsWithMembers } from './group-members.ts';
import type { TopicDirectory } from './topic-directory.ts';
import { topicStanding } from './topic-standing.ts';
import type { UpstreamAddresses } from './upstream-addresses.ts';

export interface BypassGroup {
  readonly group: string;
  readonly members: readonly { readonly clientId: string; readonly host: string }[];
  /** Mirrored or promoted ones. */
  readonly topics: readonly string[];
}

export interface BypassWatchOptions {
  readonly cluster: Cluster;
  readonly directory: TopicDirectory;
  readonly events: Events;
  readonly addresses: Pick<UpstreamAddresses, 'has'>;
  readonly periodMs?: number;
}

const periodMsDefault = 10_000;

export class BypassWatch {
  readonly #options: BypassWatchOptions;
  readonly #closing = new AbortController();
  #groups: readonly BypassGroup[] = [];
  #isFailing = false;

  constructor(options: BypassWatchOptions) {
    this.#options = options;
  }

  /** Found at the last look. */
  get groups(): readonly BypassGroup[] {
    return this.#groups;
  }

  start(): void {
    void this.#run();
  }

  /** A look that is under way, and may hang, is left to end with the cluster's connections. */
  close(): void {
    this.#closing.abort();
  }

  async #run(): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      await this.look();
      await pauseMs(this.#options.periodMs ?? periodMsDefault, signal);
    }
  }

  async look(): Promise<void> {
    const { cluster, directory, events } = this.#options;
    if (!directory.hasMirrors && !directory.hasPromoted) {
      this.#show([]);
      return;
    }
    try {
      const all = await groupsWithMembers(cluster);
      if (this.#closing.signal.aborted) return;
      this.#show(all.flatMap((one) => this.#bypassing(one) ?? []));
      this.#isFailing = false;
    } catch (error) {
      if (!(error instanceof ClusterError)) throw error;
      if (this.#isFailing || this.#closing.signal.aborted) return;
      this.#isFailing = true;
      const message = `groups that bypass this proxy are not looked for: ${error.message}`;
      events.warn('bypass_watch_failed', message);
    }
  }

  #bypassing({ group, members }: GroupWithMembers): BypassGroup | null {
    const { directory, addresses } = this.#options;
    const topics = new Set<string>();
    const past = members.filter((member) => {
      if (addresses.has(member.host)) return false;
      const ours = member.topics.filter((one) => topicStanding(directory, one).kind === 'known');
      for (const { name } of ours) topics.add(name);
      return ours.length > 0;
    });
    if (past.length === 0) return null;
    return {
      group,
      members: past.map(({ clientId, host }) => ({ clientId, host: host.replace(/^.*\//, '') })),
      topics: [...topics].sort(),
    };
  }

  #show(groups: readonly BypassGroup[]): void {
    const before = new Set(this.#groups.map(({ group }) => group));
    this.#groups = groups;
    for (const { group, members, topics } of groups) {
      if (before.has(group)) continue;
      const hosts = [...new Set(members.map(({ host }) => host))].join(', ');
      const message =
        `Group '${group}' reads ${topics.join(', ')} past this proxy (from ${hosts}): ` +
        'its offsets are not those of the mirror';
      this.#options.events.warn('group_bypasses', message, { group, hosts });
    }
  }
}

// Which groups of the destination have, or had, members of the classic protocol there: their
// offsets expire by the time since the last member left, whatever is committed meanwhile. So when
// such a group is gone altogether, it may have expired although its offsets were renewed. Owns that
// one list; refuses to know offsets. Invariant: while the list cannot be read every group counts,
// since an offset made again harms less than one that is lost.
import type { LinkContext } from '../link/context.ts';
import { listGroups } from './group-listing.ts';

export class GroupsWithMembers {
  readonly #context: LinkContext;
  /** The last two lists: a group may go between a list and the look at its offsets. */
  #names: ReadonlySet<string> | null = null;
  #namesBefore: ReadonlySet<string> | null = null;
  #readAtMs = Number.NEGATIVE_INFINITY;
  #problem = '';

  constructor(context: LinkContext) {
    this.#context = context;
  }

  /** Why the list could not be read; empty when it was. */
  get problem(): string {
    return this.#problem;
  }

  had(group: string): boolean {
    if (this.#names === null || this.#namesBefore === null) return true;
    return this.#names.has(group) || this.#namesBefore.has(group);
  }

  /** True when the list was read, now or less than `ageMaxMs` ago. @throws ClusterError */
  async refresh(ageMaxMs: number): Promise<boolean> {
    const nowMs = this.#context.clock.monotonicMs();
    if (nowMs - this.#readAtMs < ageMaxMs) return this.#problem === '';
    const { groups, failures } = await listGroups(this.#context.destination);
    this.#readAtMs = nowMs;
    const before = this.#names;
    const [failure] = failures;
    if (failure !== undefined) {
      this.#names = null;
      const { nodeId, cause } = failure;
      this.#problem = `groups of destination broker ${nodeId} cannot be listed: ${cause}`;
      return false;
    }
    this.#problem = '';
    const classic = [...groups].filter(([, { kind }]) => kind === 'classic');
    this.#names = new Set(classic.map(([group]) => group));
    this.#namesBefore = before ?? this.#names;
    return true;
  }
}

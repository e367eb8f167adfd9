// The handover of a group from the source to the destination: from its start until the last commit
// of the source is here, members that want to join at the destination are told to wait. Owns the
// gate, the deadline and what is still missing; refuses to know how offsets are synced. Invariants:
// a gate opens again whatever happens, at the latest at the deadline; it is done only when the
// source's group has no members and each of its offsets for mirrored topics is here, exactly; one
// that is under way is on record before anybody waits, and a restart goes on with it.
import type { LinkContext } from '../link/context.ts';
import { LinkError } from '../link/link-error.ts';
import type { TopicChanges } from '../link/mirror/topic-changes.ts';
import type { HandoverStatus } from '../link/service.ts';
import { Loop, messageOf } from '../link/signal.ts';
import type { WaitingHandover } from '../state/records.ts';
import { StateError } from '../state/state.ts';
import { hasMembers } from './group-listing.ts';
import type { GroupLook } from './groups.ts';
import { problemOf } from './sync-task.ts';

const lookMs = 250;
/** While nothing waits; a handover that begins ends it. */
const idleMs = 60_000;
const recordRetryMs = 1_000;
/** Kept after their end, to be shown. */
const endedMax = 100;

export interface HandoverParts {
  readonly context: LinkContext;
  readonly changes: Pick<TopicChanges, 'commit' | 'locks'>;
  readonly link: string;
  readonly mayAct: () => boolean;
  readonly nameHere: (sourceGroup: string) => string;
  readonly lookAt: (sourceGroup: string) => Promise<GroupLook>;
}

interface Handover {
  status: HandoverStatus;
  readonly actor: string;
  readonly deadlineMs: number;
  /** By an earlier process; it may have ended without a word of it. */
  isResumed: boolean;
}

/** What keeps a group from being handed over; null when nothing does. */
export function missing(look: GroupLook): string | null {
  const [problem] = look.problems;
  if (problem !== undefined) return problem.message;
  const { listed, behind, isLiveHere } = look;
  if (listed !== null && hasMembers(listed)) {
    return `the source's group is ${listed.state === '' ? 'in an unknown state' : listed.state}`;
  }
  if (isLiveHere) return 'the group has members at the destination';
  const [first] = behind;
  if (first === undefined) return null;
  const place = `${first.topic}-${first.partition}`;
  return `${behind.length} offsets are not here yet, that of ${place} first`;
}

export class GroupHandovers {
  readonly #parts: HandoverParts;
  /** By the group's name at the destination; those under way come first. */
  readonly #handovers = new Map<string, Handover>();
  readonly #loop = new Loop(() => this.#turn());

  constructor(parts: HandoverParts) {
    this.#parts = parts;
  }

  start(): void {
    const { context, link, nameHere } = this.#parts;
    for (const { group, ...rest } of context.state.view.handovers.get(link)?.waiting ?? []) {
      const leftMs = rest.deadlineTimeMs - context.clock.unixMs();
      const status: HandoverStatus = {
        group: nameHere(group),
        sourceGroup: group,
        link,
        state: 'WAITING',
        waitingFor: 'Causeway has just started',
        deadlineTimeMs: rest.deadlineTimeMs,
        endTimeMs: -1,
      };
      const deadlineMs = context.clock.monotonicMs() + leftMs;
      this.#handovers.set(status.group, { status, actor: rest.actor, deadlineMs, isResumed: true });
    }
    this.#loop.start();
  }

  async close(): Promise<void> {
    await this.#loop.close();
  }

  get isAnyHeld(): boolean {
    for (const { status } of this.#handovers.values()) if (status.state === 'WAITING') return true;
    return false;
  }

  /** Whether members of the group have to wait, by its name at the destination. */
  isHeld(group: string): boolean {
    return this.#handovers.get(group)?.status.state === 'WAITING';
  }

  get statuses(): readonly HandoverStatus[] {
    return [...this.#handovers.values()].map(({ status }) => status);
  }

  /** @throws LinkError when the group is not there, or is live at the destination already */
  async begin(
    sourceGroup: string,
    options: { deadlineMs: number; actor: string; validateOnly: boolean },
  ): Promise<HandoverStatus> {
    const { context, link, lookAt, nameHere } = this.#parts;
    const group = nameHere(sourceGroup);
    const running = this.#handovers.get(group);
    if (running?.status.state === 'WAITING') return running.status;
    await context.state.owned();
    const look = await lookAt(sourceGroup);
    if (look.listed === null) {
      throw new LinkError(
        'GROUP_NOT_FOUND',
        `The source has no group '${sourceGroup}' that link '${link}' synchronises`,
      );
    }
    if (look.isLiveHere) {
      throw new LinkError('ILLEGAL_STATE', `Group '${group}' has members at the destination`);
    }
    const status: HandoverStatus = {
      group,
      sourceGroup,
      link,
      state: 'WAITING',
      waitingFor: missing(look),
      deadlineTimeMs: context.clock.unixMs() + options.deadlineMs,
      endTimeMs: -1,
    };
    if (options.validateOnly) return status;
    const deadlineMs = context.clock.monotonicMs() + options.deadlineMs;
    this.#handovers.delete(group);
    this.#handovers.set(group, { status, actor: options.actor, deadlineMs, isResumed: false });
    try {
      await this.#record();
    } catch (error) {
      this.#handovers.delete(group);
      throw error;
    }
    this.#tell('group_handover_begun', group, `members of group '${group}' wait`, options.actor);
    this.#loop.wake();
    return status;
  }

  /** @throws LinkError when none is under way */
  cancel(sourceGroup: string, actor: string): HandoverStatus {
    const group = this.#parts.nameHere(sourceGroup);
    if (!this.isHeld(group)) {
      throw new LinkError('ILLEGAL_STATE', `Group '${group}' is not being handed over`);
    }
    return this.#end(group, 'CANCELLED', `cancelled by ${actor}`);
  }

  async #turn(): Promise<number> {
    const waiting = [...this.#handovers.values()].filter(
      ({ status }) => status.state === 'WAITING',
    );
    for (const handover of waiting) await this.#look(handover);
    const pauseMs = (await this.#tryRecord()) ? idleMs : recordRetryMs;
    return waiting.length > 0 ? lookMs : pauseMs;
  }

  async #look(handover: Handover): Promise<void> {
    const { context, mayAct, lookAt } = this.#parts;
    const { group, sourceGroup } = handover.status;
    let waitingFor: string | null = 'this instance may not act for the link now';
    if (mayAct()) {
      try {
        const look = await lookAt(sourceGroup);
        if (handover.isResumed && look.isLiveHere) {
          this.#end(group, 'CANCELLED', 'it has members here, as after its end');
          return;
        }
        handover.isResumed = false;
        waitingFor = missing(look);
      } catch (error) {
        if (problemOf(error) === null) {
          context.events.error('group_handover_fault', messageOf(error), { group });
        }
        waitingFor = messageOf(error);
      }
    }
    if (!this.isHeld(group)) return;
    if (waitingFor === null) {
      this.#end(group, 'DONE', 'the last commit of the source is here');
    } else if (context.clock.monotonicMs() >= handover.deadlineMs) {
      this.#end(group, 'EXPIRED', `deadline passed: ${waitingFor}`);
    } else handover.status = { ...handover.status, waitingFor };
  }

  #end(group: string, state: HandoverStatus['state'], why: string): HandoverStatus {
    const handover = this.#handovers.get(group);
    if (handover === undefined) throw new TypeError(`no handover of ${group}`);
    if (handover.status.state !== 'WAITING') return handover.status;
    const { clock } = this.#parts.context;
    const waitingFor = state === 'DONE' ? null : handover.status.waitingFor;
    handover.status = { ...handover.status, state, waitingFor, endTimeMs: clock.unixMs() };
    this.#loop.wake();
    this.#tell('group_handover_ended', group, `handover of '${group}' is ${state}: ${why}`);
    const ended = [...this.#handovers].filter(([, one]) => one.status.state !== 'WAITING');
    for (const [name] of ended.slice(0, -endedMax)) this.#handovers.delete(name);
    return handover.status;
  }

  /** What is under way, as a restart finds it. @throws StateError */
  async #record(): Promise<void> {
    const { context, changes, link } = this.#parts;
    await changes.locks.run(`handovers/${link}`, async () => {
      const waiting: WaitingHandover[] = [];
      for (const { status, actor } of this.#handovers.values()) {
        const { sourceGroup: group, deadlineTimeMs, state } = status;
        if (state === 'WAITING') waiting.push({ group, actor, deadlineTimeMs });
      }
      const { view } = context.state;
      const before = view.handovers.get(link)?.waiting ?? [];
      if (isSame(before, waiting) || !view.links.has(link)) return;
      await changes.commit([{ put: { kind: 'handovers', link, waiting } }]);
    });
  }

  async #tryRecord(): Promise<boolean> {
    if (!this.#parts.mayAct()) return false;
    try {
      await this.#record();
      return true;
    } catch (error) {
      if (!(error instanceof StateError)) throw error;
      return false;
    }
  }

  #tell(event: string, group: string, text: string, actor = 'causeway'): void {
    const { context, link } = this.#parts;
    context.events.info(event, `Link '${link}': ${text}`, { link, group, actor });
  }
}

function isSame(left: readonly WaitingHandover[], right: readonly WaitingHandover[]): boolean {
  const key = ({ group, deadlineTimeMs }: WaitingHandover) => `${deadlineTimeMs} ${group}`;
  return left.map(key).sort().join('\n') === right.map(key).sort().join('\n');
}

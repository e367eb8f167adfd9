// The frame of a link's sync task: a round every period, its state with errors and counts,
// back-off after failures, a dry run. Owns when rounds run and what is shown of them; refuses to
// know what is synchronised. Invariants: no round runs without a valid lease or while the link is
// paused, failed or without its source; a failure is the task's own and is over when a round
// succeeds again; each new problem is told once.
import { Serial } from '../../storage/disk/serial.ts';
import { ClusterError } from '../cluster/cluster.ts';
import type { LinkContext } from '../link/context.ts';
import type { LinkRuntime } from '../link/link.ts';
import { LinkError } from '../link/link-error.ts';
import type { TaskPlan, TaskStatus } from '../link/service.ts';
import { Loop, messageOf } from '../link/signal.ts';
import { StateError } from '../state/state.ts';
import { backOffMs, type TaskProblem } from './back-offs.ts';

export interface TaskRound {
  readonly problems: readonly TaskProblem[];
  readonly counts: Readonly<Record<string, number>>;
}

/** What one task does; everything else is the frame's. */
export interface TaskWork {
  /** Cluster Linking's name. */
  readonly name: string;
  readonly isEnabled: boolean;
  readonly periodMs: number;
  /** @throws TaskError, or whatever the clusters and the state throw */
  round(): Promise<TaskRound>;
  /** What a round would do now, and why not more. Changes nothing. */
  plan(): Promise<Omit<TaskPlan, 'task'>>;
  /** The link's settings have changed: what was refused may be possible now. */
  settingsChanged?(): void;
}

/** A round cannot go on; the code is Cluster Linking's. */
export class TaskError extends Error {
  readonly code: string;

  constructor(code: string, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'TaskError';
    this.code = code;
  }
}

const idlePollMs = 1_000;
const retryFirstMs = 1_000;
const retryMaxMs = 10_000;
const problemsShown = 10;

/** How a failure is shown. Faults of ours (anything unexpected) are null. */
export function problemOf(error: unknown): TaskProblem | null {
  const message = messageOf(error);
  if (error instanceof TaskError) return { code: error.code, message };
  if (error instanceof ClusterError) {
    const isDenied = error.code === 'AUTHENTICATION';
    return { code: isDenied ? 'AUTHENTICATION_ERROR' : 'INTERNAL_ERROR', message };
  }
  if (error instanceof StateError) return { code: 'INTERNAL_ERROR', message };
  if (error instanceof LinkError) return { code: linkErrorCode(error), message };
  return null;
}

function linkErrorCode(error: LinkError): string {
  switch (error.code) {
    case 'TOPIC_EXISTS':
      return 'TOPIC_EXISTS_ERROR';
    case 'INVALID_NAME':
      return 'INVALID_TOPIC';
    case 'SOURCE_UNAUTHORIZED':
      return 'AUTHORIZATION_ERROR';
    case 'SOURCE_TOPIC_NOT_FOUND':
      return 'UNKNOWN_TOPIC_OR_PARTITION_ERROR';
    case 'LOOP':
    case 'INVALID_CONFIG':
      return 'MISCONFIGURATION_ERROR';
    case 'DESTINATION_REFUSED':
      if (/POLICY_VIOLATION/.test(error.message)) return 'POLICY_VIOLATION_ERROR';
      return /AUTHORIZATION_FAILED/.test(error.message)
        ? 'BROKER_AUTHORIZATION_ERROR'
        : 'INVALID_REQUEST_ERROR';
    default:
      return 'INTERNAL_ERROR';
  }
}

export class SyncTask {
  readonly #context: LinkContext;
  readonly #link: LinkRuntime;
  readonly #work: TaskWork;
  readonly #loop = new Loop(() => this.#turn());
  #problems: readonly TaskProblem[] = [];
  #counts: Readonly<Record<string, number>> = {};
  #told: ReadonlySet<string> = new Set();
  #lastSuccessTimeMs = -1;
  #failuresCount = 0;
  #seenConfigs: unknown = null;
  readonly #rounds = new Serial();

  constructor(parts: { context: LinkContext; link: LinkRuntime; work: TaskWork }) {
    this.#context = parts.context;
    this.#link = parts.link;
    this.#work = parts.work;
  }

  start(): void {
    this.#loop.start();
  }

  async close(): Promise<void> {
    await this.#loop.close();
    await this.#rounds.idle();
  }

  /** The next round begins now. */
  wake(): void {
    this.#loop.wake();
  }

  get status(): TaskStatus {
    const { conditions } = this.#link;
    const { isEnabled, name } = this.#work;
    let state: TaskStatus['state'] = this.#problems.length > 0 ? 'IN_ERROR' : 'ACTIVE';
    if (conditions.sourceLost) state = 'LINK_UNAVAILABLE';
    if (conditions.linkPaused) state = 'LINK_PAUSED';
    if (conditions.linkFailed) state = 'LINK_FAILED';
    if (!isEnabled) state = 'NOT_CONFIGURED';
    return {
      name,
      state,
      errors: isEnabled ? this.#problems.slice(0, problemsShown) : [],
      lastSuccessTimeMs: this.#lastSuccessTimeMs,
      counts: isEnabled ? { ...this.#counts, problems: this.#problems.length } : {},
    };
  }

  async plan(): Promise<TaskPlan> {
    const { name, isEnabled } = this.#work;
    if (!isEnabled) {
      const problem = { code: 'NOT_CONFIGURED', message: `Task ${name} is not switched on` };
      return { task: name, changes: [], problems: [problem] };
    }
    try {
      return { task: name, ...(await this.#rounds.run(() => this.#work.plan())) };
    } catch (error) {
      const problem = problemOf(error);
      if (problem === null) throw error;
      return { task: name, changes: [], problems: [problem] };
    }
  }

  /**
   * Work of the task that does not wait for a round (before a promotion), under the conditions of
   * one; a failure is told, and the next round meets it again.
   */
  async beside(work: () => Promise<void>): Promise<void> {
    if (!this.#mayRun()) return;
    try {
      await work();
    } catch (error) {
      this.#tell(this.#failureOf(error));
    }
  }

  #mayRun(): boolean {
    const isReachable = this.#link.isConnected && !this.#link.conditions.sourceLost;
    return !this.#loop.isClosed && this.#work.isEnabled && isReachable && this.#link.mayAct();
  }

  async #turn(): Promise<number> {
    const startedMs = this.#context.clock.monotonicMs();
    this.#lookAtSettings();
    if (this.#mayRun()) await this.#rounds.run(() => this.#round());
    const tookMs = this.#context.clock.monotonicMs() - startedMs;
    const pauseMs = this.#pauseMs();
    return Math.max(pauseMs - tookMs, pauseMs / 10);
  }

  #pauseMs(): number {
    const { periodMs } = this.#work;
    if (this.#failuresCount > 0) return backOffMs(this.#failuresCount, retryFirstMs, retryMaxMs);
    return this.#mayRun() ? periodMs : Math.min(periodMs, idlePollMs);
  }

  #lookAtSettings(): void {
    const { configs } = this.#link.record;
    if (configs === this.#seenConfigs) return;
    this.#seenConfigs = configs;
    this.#failuresCount = 0;
    this.#work.settingsChanged?.();
  }

  async #round(): Promise<void> {
    try {
      const { problems, counts } = await this.#work.round();
      this.#failuresCount = 0;
      this.#counts = counts;
      this.#show(problems);
      const isWell = problems.every(({ isHarmless }) => isHarmless === true);
      if (isWell) this.#lastSuccessTimeMs = this.#context.clock.unixMs();
    } catch (error) {
      this.#failuresCount++;
      this.#show([this.#failureOf(error)]);
    }
  }

  #failureOf(error: unknown): TaskProblem {
    const problem = problemOf(error);
    if (problem !== null) return problem;
    this.#context.events.error('task_fault', messageOf(error), {
      link: this.#link.name,
      task: this.#work.name,
      code: 'INTERNAL_ERROR',
    });
    return { code: 'INTERNAL_ERROR', message: messageOf(error) };
  }

  #tell({ code, message }: TaskProblem): void {
    const { name } = this.#work;
    const text = `Task ${name} of link '${this.#link.name}': ${message}`;
    const place = { link: this.#link.name, task: name };
    this.#context.events.warn('task_problem', text, { ...place, code });
  }

  #show(problems: readonly TaskProblem[]): void {
    const { events } = this.#context;
    const place = { link: this.#link.name, task: this.#work.name };
    for (const problem of problems) {
      if (!this.#told.has(`${problem.code} ${problem.message}`)) this.#tell(problem);
    }
    if (problems.length === 0 && this.#problems.length > 0) {
      events.info(
        'task_recovered',
        `Task ${place.task} of link '${place.link}' is well again`,
        place,
      );
    }
    this.#told = new Set(problems.map(({ code, message }) => `${code} ${message}`));
    this.#problems = problems;
  }
}

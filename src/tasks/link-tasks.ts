// The sync tasks of one link: groups, topics, configs, ACLs, and what is told to MirrorMaker 2's
// tools. Owns their start and stop; refuses to
// know what each does. Invariant: a task's failure is its own.
import type { LinkContext } from '../link/context.ts';
import type { LinkRuntime } from '../link/link.ts';
import type { MirrorCreator } from '../link/mirror/create-mirror.ts';
import type { MirrorTopics } from '../link/mirror/mirror-topics.ts';
import type { TopicChanges } from '../link/mirror/topic-changes.ts';
import type { TaskPlan, TaskStatus } from '../link/service.ts';
import { Together } from '../link/switch/together.ts';
import { AclSync } from './acls.ts';
import type { TaskProblem } from './back-offs.ts';
import { CheckpointEmit } from './checkpoints.ts';
import { ConfigSync } from './configs.ts';
import { GroupHandovers } from './group-handover.ts';
import { GroupSync } from './groups.ts';
import { HeartbeatEmit } from './heartbeats.ts';
import { SyncTask, type TaskWork } from './sync-task.ts';
import { TopicSync } from './topics.ts';

/** Their groups' offsets are asked for by topic: groups times topics are in one request. */
const finalsTogetherMax = 100;

export interface LinkTasksParts {
  readonly context: LinkContext;
  readonly link: LinkRuntime;
  readonly topics: MirrorTopics;
  readonly changes: TopicChanges;
  readonly creator: MirrorCreator;
}

export class LinkTasks {
  readonly groups: GroupSync;
  readonly handovers: GroupHandovers;
  readonly #configs: { readonly task: SyncTask; readonly work: ConfigSync };
  readonly #tasks: readonly SyncTask[];
  readonly #finals = new Together<string, readonly TaskProblem[]>(
    (topics) => this.#final(new Set(topics)),
    { questionsMax: finalsTogetherMax },
  );

  constructor(parts: LinkTasksParts) {
    const { context, link } = parts;
    const task = (work: TaskWork) => new SyncTask({ context, link, work });
    const configs = new ConfigSync(parts);
    this.#configs = { task: task(configs), work: configs };
    const groups = new GroupSync(parts);
    this.groups = groups;
    this.handovers = new GroupHandovers({
      context,
      changes: parts.changes,
      link: link.name,
      mayAct: () => link.mayAct(),
      nameHere: (group) => groups.nameHere(group),
      lookAt: (group) => groups.lookAt(group),
    });
    const topics = task(new TopicSync(parts));
    const checkpoints = new CheckpointEmit({ context, link, groups: () => groups.status() });
    this.#tasks = [
      task(groups),
      topics,
      this.#configs.task,
      task(new AclSync(parts)),
      task(checkpoints),
      task(new HeartbeatEmit(parts)),
    ];
  }

  start(): void {
    for (const task of this.#tasks) task.start();
    this.handovers.start();
  }

  wake(): void {
    for (const task of this.#tasks) task.wake();
  }

  async close(): Promise<void> {
    await Promise.all([this.handovers.close(), ...this.#tasks.map((task) => task.close())]);
  }

  get statuses(): readonly TaskStatus[] {
    return this.#tasks.map((task) => task.status);
  }

  async plan(): Promise<readonly TaskPlan[]> {
    return Promise.all(this.#tasks.map((task) => task.plan()));
  }

  /**
   * What the source says of a topic last is taken over before it is promoted; what it returns
   * stands in the way.
   */
  final(topic: string): Promise<readonly TaskProblem[]> {
    return this.#finals.ask(topic);
  }

  async #final(topics: ReadonlySet<string>): Promise<(topic: string) => readonly TaskProblem[]> {
    const { task, work } = this.#configs;
    const [problems] = await Promise.all([
      this.groups.finalRound(topics),
      task.beside(() => work.once(topics)),
    ]);
    return (topic) => problems.get(topic) ?? [];
  }
}

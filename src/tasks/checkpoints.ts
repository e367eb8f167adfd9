// The checkpoint task of a link: what the group task has written is told once more in MirrorMaker
// 2's format, in `<link>.checkpoints.internal` at the destination, so that its client library
// (`RemoteClusterUtils.translateOffsets`) works unchanged. Owns what was told last; refuses to know
// groups. Invariants: an offset that is not at the destination as the source has it is not told;
// without a change nothing is written.
import type { LinkContext } from '../link/context.ts';
import type { LinkRuntime } from '../link/link.ts';
import type { GroupStatus, TaskPlan } from '../link/service.ts';
import { checkpointRecord } from './mm2-records.ts';
import { Mm2Topic } from './mm2-topic.ts';
import type { TaskRound, TaskWork } from './sync-task.ts';

export function checkpointsTopic(link: string): string {
  return `${link}.checkpoints.internal`;
}

export interface CheckpointParts {
  readonly context: LinkContext;
  readonly link: LinkRuntime;
  readonly groups: () => readonly GroupStatus[];
}

function keyOf({ group, topic, partition }: GroupStatus): string {
  return `${group} ${topic}/${partition}`;
}

export class CheckpointEmit implements TaskWork {
  readonly name = 'CheckpointEmit';
  readonly #context: LinkContext;
  readonly #link: LinkRuntime;
  readonly #groups: () => readonly GroupStatus[];
  readonly #topic: Mm2Topic;
  #told = new Map<string, bigint>();

  constructor(parts: CheckpointParts) {
    const { context, link } = parts;
    this.#context = context;
    this.#link = link;
    this.#groups = parts.groups;
    this.#topic = new Mm2Topic({
      cluster: () => context.destination,
      name: checkpointsTopic(link.name),
      side: 'destination',
      checkLeave: () => context.state.lease.check(),
    });
  }

  get isEnabled(): boolean {
    return this.#link.settings.emit.checkpoints;
  }

  get periodMs(): number {
    return this.#link.settings.emit.checkpointsPeriodMs;
  }

  async round(): Promise<TaskRound> {
    const changed = this.#changed();
    const records = changed.map((row) =>
      checkpointRecord({ ...row, offset: row.destinationOffset }),
    );
    await this.#topic.write(records, this.#context.clock.unixMs());
    for (const row of changed) this.#told.set(keyOf(row), row.destinationOffset);
    return { problems: [], counts: { written: records.length, checkpoints: this.#told.size } };
  }

  async plan(): Promise<Omit<TaskPlan, 'task'>> {
    const changes = this.#changed().map((row) => ({
      action: 'set' as const,
      subject: `checkpoint of group ${row.group}`,
      detail: `${row.topic}-${row.partition}: ${row.destinationOffset}`,
    }));
    return { changes, problems: [] };
  }

  /** Offsets that are here as the source has them, and were not told yet. */
  #changed(): readonly GroupStatus[] {
    const rows = this.#groups();
    const known = new Set(rows.map(keyOf));
    this.#told = new Map([...this.#told].filter(([key]) => known.has(key)));
    return rows.filter(
      (row) =>
        (row.held === null || row.held === 'clamped') &&
        row.destinationOffset >= 0n &&
        this.#told.get(keyOf(row)) !== row.destinationOffset,
    );
  }
}

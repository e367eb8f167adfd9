// The heartbeat task of a link: a record a second in MirrorMaker 2's format into `heartbeats` at
// the source, and a mirror of that topic under `<link>.heartbeats`. It is off unless asked for,
// since it is the only thing that a link ever writes at its source. Owns the age of the last
// heartbeat that has come through; refuses to know how mirrors are made. Invariant: an age is
// measured from the copy, never from what was sent.
import { readBatchHeader } from '../../protocol/index.ts';
import type { LinkContext } from '../link/context.ts';
import type { LinkRuntime } from '../link/link.ts';
import type { MirrorCreator } from '../link/mirror/create-mirror.ts';
import type { MirrorTopics } from '../link/mirror/mirror-topics.ts';
import type { TaskPlan } from '../link/service.ts';
import { heartbeatRecord } from './mm2-records.ts';
import { Mm2Topic } from './mm2-topic.ts';
import type { TaskRound, TaskWork } from './sync-task.ts';

const sourceTopic = 'heartbeats';
const batchBytesMax = 64 * 1024;

export function heartbeatsMirror(link: string): string {
  return `${link}.${sourceTopic}`;
}

export interface HeartbeatParts {
  readonly context: LinkContext;
  readonly link: LinkRuntime;
  readonly topics: MirrorTopics;
  readonly creator: MirrorCreator;
}

export class HeartbeatEmit implements TaskWork {
  readonly name = 'HeartbeatEmit';
  readonly #context: LinkContext;
  readonly #link: LinkRuntime;
  readonly #topics: MirrorTopics;
  readonly #creator: MirrorCreator;
  readonly #topic: Mm2Topic;

  constructor(parts: HeartbeatParts) {
    const { context, link } = parts;
    this.#context = context;
    this.#link = link;
    this.#topics = parts.topics;
    this.#creator = parts.creator;
    this.#topic = new Mm2Topic({
      cluster: () => link.cluster,
      name: sourceTopic,
      side: 'source',
      checkLeave: () => context.state.lease.check(),
    });
  }

  get isEnabled(): boolean {
    return this.#link.settings.emit.heartbeats;
  }

  get periodMs(): number {
    return this.#link.settings.emit.heartbeatsPeriodMs;
  }

  async round(): Promise<TaskRound> {
    const { clock, destination } = this.#context;
    const nowMs = clock.unixMs();
    // As MirrorMaker 2 does: it is the way back that sends them.
    const source = (await destination.metadata([])).clusterId ?? '';
    const heartbeat = heartbeatRecord({ source, target: this.#link.name, timeMs: nowMs });
    await this.#topic.write([heartbeat], nowMs);
    await this.#ensureMirror();
    const arrivedMs = await this.#arrived();
    const ageMs = arrivedMs === null ? -1 : Math.max(0, clock.unixMs() - arrivedMs);
    return { problems: [], counts: { ageMs } };
  }

  async plan(): Promise<Omit<TaskPlan, 'task'>> {
    const name = heartbeatsMirror(this.#link.name);
    const detail = `heartbeats to '${sourceTopic}' of the source`;
    const changes: TaskPlan['changes'][number][] = [
      { action: 'set', subject: `topic ${sourceTopic}`, detail },
    ];
    if (this.#topics.byName(name) === undefined) {
      const of = `of source topic ${sourceTopic}`;
      changes.unshift({ action: 'create', subject: `mirror ${name}`, detail: of });
    }
    return { changes, problems: [] };
  }

  async #ensureMirror(): Promise<void> {
    const mirrorTopic = heartbeatsMirror(this.#link.name);
    if (this.#topics.byName(mirrorTopic) !== undefined) return;
    const request = { link: this.#link.name, sourceTopic, mirrorTopic };
    const options = { ...request, validateOnly: false, actor: 'causeway' };
    await this.#creator.create(this.#link, options);
  }

  /** When the last heartbeat that is here was sent; null before the first. */
  async #arrived(): Promise<number | null> {
    const log = this.#topics.byName(heartbeatsMirror(this.#link.name))?.partition(0)?.log ?? null;
    if (log === null || log.visibleEnd <= log.logStart) return null;
    const { chunks } = await log.read(log.visibleEnd - 1n, {
      bytesMax: batchBytesMax,
      atLeastOneBatch: true,
    });
    const bytes = Buffer.concat(chunks);
    return bytes.length === 0 ? null : Number(readBatchHeader(bytes, 0).maxTimestamp);
  }
}

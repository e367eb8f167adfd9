// For tests only: every topic of the destination looks as if it were a promoted mirror whose
// copied part is empty: virtual offset = native + D, leader epoch = native + E. So that foreign
// test suites run through the whole splice. Owns the made-up views; topics of links stay what
// they are. Invariants: a topic whose name begins with two underscores, and our own, are never
// shifted.
import { zeroUuid } from '../../protocol/bytes/uuid.ts';
import type { MirrorLog, MirrorStorage } from '../../storage/mirror-log.ts';
import type { Cluster } from '../cluster/cluster.ts';
import type { Events } from '../observe/events.ts';
import { virtualEpoch, virtualOffset } from '../timeline/offsets.ts';
import type { PartitionView, TopicDirectory, TopicView } from './topic-directory.ts';

export interface OffsetShift {
  /** D */
  readonly offset: bigint;
  /** E */
  readonly epoch: number;
}

/** How often the ids of topics are learned; until then a topic is known by name or id alone. */
const idsCheckMs = 500;
const internalPrefix = '__';
/** Of the one empty log that all views share. */
const emptyLogId = { topicId: zeroUuid, partition: 0 };

/** @throws Error naming what is wrong: it is a developer's switch */
export function parseOffsetShift(text: string): OffsetShift {
  const match = /^(\d+):(\d+)$/.exec(text);
  const [, offset, epoch] = match ?? [];
  if (offset === undefined || epoch === undefined) {
    throw new Error(`CAUSEWAY_TEST_OFFSET_SHIFT is '${text}': it wants OFFSETS:EPOCHS`);
  }
  return { offset: BigInt(offset), epoch: Number(epoch) };
}

function shiftedPartition(index: number, shift: OffsetShift, log: MirrorLog): PartitionView {
  const start = virtualOffset(shift.offset);
  const firstEpoch = virtualEpoch(shift.epoch);
  return {
    partition: index,
    log,
    advertisedEpoch: firstEpoch,
    timeline: {
      extents: [
        { where: 'mirror', start, end: start },
        {
          where: 'native',
          start,
          end: null,
          offsetShift: shift.offset,
          epochShift: shift.epoch,
          firstEpoch,
        },
      ],
    },
  };
}

/** Ids and names of the destination's topics, learned now and then. */
class LearnedTopics {
  readonly names = new Map<string, string>();
  readonly ids = new Map<string, string>();
  readonly #cluster: Cluster;
  readonly #timer: NodeJS.Timeout;

  readonly #events: Events;

  constructor(cluster: Cluster, events: Events) {
    this.#cluster = cluster;
    this.#events = events;
    this.#timer = setInterval(() => this.#learn(), idsCheckMs);
    this.#learn();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #learn(): void {
    this.#cluster.metadata('all').then(
      ({ topics }) => {
        for (const { name, topicId } of topics.values()) {
          this.names.set(topicId, name);
          this.ids.set(name, topicId);
        }
      },
      (error: unknown) => {
        const reason = error instanceof Error ? error.message : String(error);
        this.#events.warn('offset_shift_blind', `Cannot learn the ids of topics: ${reason}`);
      },
    );
  }
}

export interface ShiftedDirectory extends TopicDirectory {
  close(): void;
}

export async function shiftedDirectory(parts: {
  inner: TopicDirectory;
  storage: MirrorStorage;
  destination: Cluster;
  events: Events;
  shift: OffsetShift;
}): Promise<ShiftedDirectory> {
  const { inner, storage, destination, events, shift } = parts;
  events.warn(
    'offset_shift',
    `For tests: offsets are shown ${shift.offset} and epochs ${shift.epoch} higher than they are.`,
    { offset: String(shift.offset), epoch: shift.epoch },
  );
  const log = await storage.create(emptyLogId, shift.offset);
  const learned = new LearnedTopics(destination, events);
  const partitions = new Map<number, PartitionView>();
  const partition = (index: number): PartitionView => {
    const view = partitions.get(index) ?? shiftedPartition(index, shift, log);
    partitions.set(index, view);
    return view;
  };
  const view = (name: string, topicId: string): TopicView => ({
    name,
    topicId,
    link: '',
    mode: 'promoted',
    partition,
    partitionCount: Number.MAX_SAFE_INTEGER,
  });
  const isShifted = (name: string): boolean => !name.startsWith(internalPrefix);
  return {
    byName: (name) =>
      inner.byName(name) ??
      (isShifted(name) ? view(name, learned.ids.get(name) ?? `id of ${name}`) : undefined),
    byId: (topicId) => {
      const name = learned.names.get(topicId) ?? '';
      return inner.byId(topicId) ?? (isShifted(name) ? view(name, topicId) : undefined);
    },
    get hasMirrors() {
      return inner.hasMirrors;
    },
    hasPromoted: true,
    get isSettled() {
      return inner.isSettled;
    },
    onChangeOf: (topics, listener) => inner.onChangeOf(topics, listener),
    close: () => learned.close(),
  };
}

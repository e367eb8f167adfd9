// What every part of the link layer is given: the state, the storage, the two clusters' clients,
// clock and limits. Refuses to know how any of them is made, so that tests can put scripted ones in
// their place.
import type { MirrorStorage } from '../../storage/mirror-log.ts';
import type { Cluster } from '../cluster/cluster.ts';
import type { Events } from '../observe/events.ts';
import type { LinkRecord } from '../state/records.ts';
import type { State } from '../state/state.ts';

export interface LinkClock {
  /** Monotonic milliseconds: ages and deadlines. */
  monotonicMs(): number;
  /** Unix milliseconds: what is shown and recorded. */
  unixMs(): number;
}

export interface LinkLimits {
  /**
   * Largest Fetch response, per source broker; a link's `replica.fetch.response.max.bytes` wins.
   */
  readonly fetchBytesMax: number;
  /** Largest share of one partition in it; a link's `replica.fetch.max.bytes` wins. */
  readonly fetchPartitionBytesMax: number;
  readonly fetchWaitMs: number;
  /** How often the topics of a source are looked at when nothing asks for it. */
  readonly sourceWatchMs: number;
  /** How often the shells are looked at. */
  readonly shellWatchMs: number;
  /** Without contact for so long a source is shown as unavailable. */
  readonly sourceUnavailableMs: number;
  /** What was heard of a source is written down so often, and when it is found to be lost. */
  readonly sourceSeenMs: number;
  /** A partition with lag and no progress for so long is STALLED; older samples are UNKNOWN. */
  readonly sampleAgeMaxMs: number;
  /** How often it is looked at which partitions are STALLED, to tell of it. */
  readonly stallWatchMs: number;
  readonly promoteDeadlineMs: number;
  /** The source must not have been written to for so long; `promote.quiet.ms` of a link wins. */
  readonly promoteQuietMs: number;
  /** How long writers are held with a retriable error while a promotion switches. */
  readonly switchMaxMs: number;
  /** How often, and for how long after a switch, the source's ends are read on. */
  readonly switchedWatchMs: number;
  readonly switchedWatchForMs: number;
  /** Topics that one state transaction switches at most. */
  readonly switchBatchTopics: number;
  /** Groups whose offsets are read and written together. */
  readonly groupBatch: number;
  /** How often the copies of compacted topics are compared with their sources' sizes. */
  readonly rebuildCheckMs: number;
  /** A smaller copy is not built anew for its size. */
  readonly rebuildBytesMin: number;
  /** So much room a rebuild leaves to what is fetched meanwhile. */
  readonly rebuildReserveBytes: number;
  /** How often the source's log starts and ends are asked for while the disk is full. */
  readonly sourceWhileFullMs: number;
  /** In-step offsets are compared again so often, to see a group that moves at the destination. */
  readonly groupRecheckMs: number;
  readonly requestsInFlight: number;
  /** A mirror so young begins where its source starts by the time that it is read. */
  readonly mirrorBeginsMs: number;
}

export const defaultLinkLimits: LinkLimits = {
  fetchBytesMax: 8 * 1024 * 1024,
  fetchPartitionBytesMax: 4 * 1024 * 1024,
  fetchWaitMs: 500,
  sourceWatchMs: 2_000,
  shellWatchMs: 2_000,
  sourceUnavailableMs: 10_000,
  sourceSeenMs: 60_000,
  sampleAgeMaxMs: 15_000,
  stallWatchMs: 2_000,
  promoteDeadlineMs: 300_000,
  promoteQuietMs: 2_000,
  switchMaxMs: 3_000,
  switchedWatchMs: 5_000,
  switchedWatchForMs: 7 * 24 * 3600 * 1000,
  switchBatchTopics: 500,
  groupBatch: 100,
  rebuildCheckMs: 60_000,
  rebuildBytesMin: 64 * 1024 * 1024,
  rebuildReserveBytes: 64 * 1024 * 1024,
  sourceWhileFullMs: 10_000,
  groupRecheckMs: 30_000,
  requestsInFlight: 16,
  mirrorBeginsMs: 60_000,
};

export interface LinkContext {
  readonly state: State;
  readonly storage: MirrorStorage;
  readonly destination: Cluster;
  /** A client for the link's source; rejects with ClusterError when it cannot be reached. */
  readonly connectSource: (record: LinkRecord) => Promise<Cluster>;
  readonly events: Events;
  readonly clock: LinkClock;
  readonly limits: LinkLimits;
  /** Prefix of our own topics, which are never mirrored: `__causeway`. */
  readonly ownTopicPrefix: string;
}

export const systemClock: LinkClock = {
  monotonicMs: () => performance.now(),
  unixMs: () => Date.now(),
};

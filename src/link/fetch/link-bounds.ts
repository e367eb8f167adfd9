// What reading beside the fetchers (to build a copy anew, to repair one) may take of what it shares
// with them: the link's bytes per second, its memory, and the free space of all links. Owns these
// limits; refuses to know what is read and written. Invariant: a rebuild ends before the disk is
// full for everybody, and what is read counts like what is fetched.
import { StorageError } from '../../../storage/errors.ts';
import type { MirrorStorage } from '../../../storage/mirror-log.ts';
import type { LinkClock, LinkLimits } from '../context.ts';
import { AtMost, Signal } from '../signal.ts';
import type { ByteThrottle } from './byte-throttle.ts';
import { repairsMax } from './limits.ts';

/** Whoever waits looks so often whether it is to go on at all. */
const lookMs = 200;

export interface LinkBoundsParts {
  readonly clock: LinkClock;
  readonly limits: Pick<LinkLimits, 'rebuildReserveBytes'>;
  /** Of the whole link. */
  readonly throttle: ByteThrottle;
  readonly settings: () => {
    readonly partitionBytesMax: number;
    readonly bytesPerSecond: number | null;
  };
  readonly storage: Pick<MirrorStorage, 'roomBytes'>;
}

export class LinkBounds {
  /** Of all damaged partitions of the link: each holds a range more than once. */
  readonly repairs = new AtMost(repairsMax);
  readonly #parts: LinkBoundsParts;

  constructor(parts: LinkBoundsParts) {
    this.#parts = parts;
  }

  /**
   * Resolves when the link may read again, with how much to ask for. `assertGoingOn` throws when
   * there is nothing to wait for any more.
   */
  async turn(assertGoingOn: () => void): Promise<number> {
    const { throttle, settings } = this.#parts;
    for (;;) {
      assertGoingOn();
      const waitMs = throttle.waitMs(this.#now());
      const { partitionBytesMax, bytesPerSecond } = settings();
      if (waitMs <= 0) return Math.min(partitionBytesMax, bytesPerSecond ?? partitionBytesMax);
      await new Signal().wait(Math.min(waitMs, lookMs));
    }
  }

  /** So much has been read. */
  took(bytes: number): void {
    this.#parts.throttle.take(bytes, this.#now());
  }

  /** @throws StorageError DISK_FULL unless so much can be written and fetching goes on. */
  async assertRoom(bytes: number): Promise<void> {
    const { storage, limits } = this.#parts;
    const roomBytes = await storage.roomBytes();
    if (roomBytes >= bytes + limits.rebuildReserveBytes) return;
    throw new StorageError(
      'DISK_FULL',
      `a new copy takes its space beside the old one: ${bytes} bytes more are needed, and ` +
        `${limits.rebuildReserveBytes} for what is fetched meanwhile, ${Math.max(0, roomBytes)} ` +
        'are left before fetching stops',
    );
  }

  #now(): { nowMs: number; bytesPerSecond: number | null } {
    const { clock, settings } = this.#parts;
    return { nowMs: clock.monotonicMs(), bytesPerSecond: settings().bytesPerSecond };
  }
}

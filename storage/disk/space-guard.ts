// Whether the file system has room for more records.
//
// Owns: the comparison of free space with the configured minimum, at most once a second. It has no
// timer: it looks when somebody appends or asks. Invariant: a verdict that lets records in is never
// older than two seconds plus one look, and a change of it is reported.

import type { Clock } from '../clock.ts';
import { StorageError } from '../errors.ts';
import type { Disk } from './device.ts';
import type { OnReport } from './reports.ts';

/** Below which free space fetching stops: bytes, or a share of the file system. */
export interface MinFree {
  readonly kind: 'bytes' | 'percent';
  readonly value: number;
}

const intervalMs = 1000;

export class SpaceGuard {
  readonly #disk: Disk;
  readonly #directory: string;
  readonly #clock: Clock;
  readonly #minFree: MinFree;
  readonly #onReport: OnReport;
  #full = false;
  #lookedAtMs: number | null = null;
  #looking: Promise<void> | null = null;

  constructor(options: {
    readonly disk: Disk;
    readonly directory: string;
    readonly clock: Clock;
    readonly minFree: MinFree;
    readonly onReport: OnReport;
  }) {
    this.#disk = options.disk;
    this.#directory = options.directory;
    this.#clock = options.clock;
    this.#minFree = options.minFree;
    this.#onReport = options.onReport;
  }

  /** The last verdict; an old one is renewed in the background, so that waiting ends by itself. */
  get isFull(): boolean {
    void this.refresh();
    return this.#full;
  }

  /** There is room for certain, without a look; an old verdict is renewed in the background. */
  get hasRoom(): boolean {
    void this.refresh();
    if (this.#lookedAtMs === null || this.#full) return false;
    return this.#clock.nowMs() - this.#lookedAtMs < 2 * intervalMs;
  }

  minFreeBytes(totalBytes: number): number {
    const { kind, value } = this.#minFree;
    return kind === 'bytes' ? value : (totalBytes * value) / 100;
  }

  async assertRoom(): Promise<void> {
    await this.refresh();
    if (this.#full) {
      throw new StorageError('DISK_FULL', 'free space is below the configured minimum');
    }
  }

  /** Looks at the file system unless that was done less than a second ago. Never rejects. */
  refresh(): Promise<void> {
    const now = this.#clock.nowMs();
    if (this.#lookedAtMs !== null && now - this.#lookedAtMs < intervalMs) return Promise.resolve();
    this.#looking ??= this.#look(now).finally(() => {
      this.#looking = null;
    });
    return this.#looking;
  }

  async #look(now: number): Promise<void> {
    try {
      const { freeBytes, totalBytes } = await this.#disk.space(this.#directory);
      const minFreeBytes = this.minFreeBytes(totalBytes);
      const full = freeBytes < minFreeBytes;
      if (full !== this.#full) {
        this.#full = full;
        this.#onReport({ kind: 'disk-full', full, freeBytes, minFreeBytes });
      }
    } catch (error) {
      this.#onReport({ kind: 'space-unknown', error });
    }
    this.#lookedAtMs = now;
  }
}

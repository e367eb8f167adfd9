// A generation that is being built beside the one that readers see.
//
// Owns: the order of what is done to it before it counts. It refuses to know where its content
// comes from. Invariant: it takes the place of the log once, whole and durable, and only if readers
// lose nothing by it: not shorter, in no older epoch, and not while anything is held back.

import { StorageError } from '../errors.ts';
import type { AppendResult, LogRebuild, ReadOptions, ReadResult } from '../mirror-log.ts';
import type { LogGeneration } from './log-generation.ts';
import type { LogState } from './log-state.ts';
import { Serial } from './serial.ts';

export interface RebuildParts {
  readonly generation: LogGeneration;
  /** Puts it in the place of the one that readers see. Rejects when it may not. */
  readonly swap: (rebuild: DiskLogRebuild) => Promise<void>;
  /** Removes its files. */
  readonly discard: (rebuild: DiskLogRebuild) => Promise<void>;
}

export class DiskLogRebuild implements LogRebuild {
  readonly generation: LogGeneration;
  readonly #parts: RebuildParts;
  readonly #changes = new Serial();

  constructor(parts: RebuildParts) {
    this.generation = parts.generation;
    this.#parts = parts;
  }

  get logStart(): bigint {
    return this.generation.state.logStart;
  }

  get end(): bigint {
    return this.generation.state.end;
  }

  get sizeBytes(): number {
    return this.generation.state.sizeBytes;
  }

  append(records: Buffer): Promise<AppendResult> {
    return this.#changes.run(() => this.generation.append(records));
  }

  async read(offset: bigint, options: ReadOptions): Promise<ReadResult> {
    await this.#changes.run(() => this.generation.durability.flush());
    return this.generation.reader.read(offset, options);
  }

  swap(): Promise<void> {
    return this.#changes.run(() => this.#parts.swap(this));
  }

  discard(): Promise<void> {
    return this.#changes.run(() => this.#parts.discard(this));
  }
}

/** @throws StorageError OFFSET_OUT_OF_ORDER */
export function assertReplaces(next: LogState, log: LogState): void {
  if (log.hold !== null) throw refused(`offsets from ${log.hold} on are held back`);
  if (next.end < log.end) throw refused(`it ends at ${next.end}, the log at ${log.end}`);
  const epoch = next.epochs.epochAt(log.end - 1n);
  const { lastEpoch } = log.epochs;
  if (log.end > log.logStart && epoch !== lastEpoch) {
    throw refused(`offset ${log.end - 1n} is in epoch ${epoch}, in the log in ${lastEpoch}`);
  }
}

function refused(detail: string): StorageError {
  return new StorageError('OFFSET_OUT_OF_ORDER', `not a new generation of the log: ${detail}`);
}

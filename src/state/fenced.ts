// The answers by which a broker says that another writer has taken over our transactional id.
import { ErrorCode, errorName } from '../../protocol/index.ts';

const fencedCodes: ReadonlySet<number> = new Set([
  ErrorCode.INVALID_PRODUCER_EPOCH,
  ErrorCode.INVALID_PRODUCER_ID_MAPPING,
  ErrorCode.PRODUCER_FENCED,
]);

export function isFencedCode(code: number): boolean {
  return fencedCodes.has(code);
}

export class FencedError extends Error {
  /** The commit had been asked for before: it may have been carried out. */
  readonly wasInDoubt: boolean;

  constructor(code: number, wasInDoubt: boolean) {
    super(`fenced by another instance: ${errorName(code)}`);
    this.name = 'FencedError';
    this.wasInDoubt = wasInDoubt;
  }
}

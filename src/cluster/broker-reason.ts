// Why a broker refused, in words: what it says itself, or the name of its error code. Pure.
// Invariant: never empty. Brokers fill the message of some errors with "" instead of null.
import { errorName } from '../../protocol/index.ts';

export function brokerReason(errorCode: number, errorMessage: string | null | undefined): string {
  return errorMessage ? errorMessage : errorName(errorCode);
}

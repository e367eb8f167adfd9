// Fetch answers that a quota of the broker has emptied (`consumer_byte_rate` and others): no error,
// no topics, and a time to wait. Owns how they are told from others, and for how long one
// is asked for again. Pure. Invariant: such an answer says nothing of any partition.
import type { FetchResponse } from '../../protocol/generated/fetch-response.ts';
import { ErrorCode } from '../../protocol/index.ts';

/**
 * Without anything but such answers for so long, it counts as an error. A broker says at most about
 * `quota.window.num` seconds (11) each time; who else reads under the quota may come first.
 */
export const heldBackMsMax = 120_000;

type HeldBack = Pick<FetchResponse, 'errorCode' | 'throttleTimeMs' | 'responses'>;

export function isHeldBack({ errorCode, throttleTimeMs, responses }: HeldBack): boolean {
  return errorCode === ErrorCode.NONE && throttleTimeMs > 0 && responses.length === 0;
}

// Why an operator's command, or the work on one topic, was refused: a code that callers act upon
// and a sentence for a person. Knows nothing of who shows it.
import { StorageError } from '../../storage/errors.ts';
import { ClusterError } from '../cluster/cluster.ts';
import { StateError } from '../state/state.ts';

export type LinkErrorCode =
  | 'LINK_EXISTS'
  | 'LINK_NOT_FOUND'
  | 'LINK_IN_USE' // delete with live mirrors, without force
  | 'MIRROR_NOT_FOUND'
  | 'GROUP_NOT_FOUND'
  | 'TOPIC_EXISTS'
  | 'SOURCE_TOPIC_NOT_FOUND'
  | 'SOURCE_UNREACHABLE'
  | 'SOURCE_UNAUTHORIZED'
  | 'LOOP' // the source topic came from the destination
  | 'CLUSTER_ID_MISMATCH' // the source is not who it should be, or is the destination itself
  | 'INVALID_CONFIG'
  | 'INVALID_NAME'
  | 'ILLEGAL_STATE' // the command is not allowed in the mirror's state
  | 'ATOMIC_REFUSED' // fine by itself, but another topic of the same command is not
  | 'NOT_OWNER'
  | 'DESTINATION_REFUSED'
  | 'STATE_UNAVAILABLE'
  | 'IN_DOUBT'
  | 'STORAGE_ERROR'
  | 'NOT_SUPPORTED';

export class LinkError extends Error {
  readonly code: LinkErrorCode;

  constructor(code: LinkErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'LinkError';
    this.code = code;
  }
}

/** What can go wrong in work on a topic without a fault of ours. */
export function isOperatingError(
  error: unknown,
): error is ClusterError | LinkError | StateError | StorageError {
  return (
    error instanceof ClusterError ||
    error instanceof LinkError ||
    error instanceof StateError ||
    error instanceof StorageError
  );
}

// What went wrong, as HTTP: one status and error code (Confluent's, §10.3 of its REST v3) for each
// kind of error. Invariant: every failing answer has the body `{error_code, message}` (and `code`,
// by name, in our own API), and the message holds no secret and no stack.

import { LinkError, type LinkErrorCode } from '../link/link-error.ts';
import type { Events } from '../observe/events.ts';
import { scrubSecrets } from '../observe/scrub.ts';
import { StateError } from '../state/state.ts';

export interface HttpAnswer {
  readonly status: number;
  readonly errorCode: number;
  readonly message: string;
  /** What went wrong, by its stable name: many of them share one number. */
  readonly code?: string;
}

/** An error of a request itself, with the answer that it gets. */
export class RequestError extends Error {
  readonly status: number;
  readonly errorCode: number;

  constructor(status: number, errorCode: number, message: string) {
    super(message);
    this.name = 'RequestError';
    this.status = status;
    this.errorCode = errorCode;
  }
}

type Codes = readonly [status: number, errorCode: number];

const rejected: Codes = [400, 40002];
const retriable: Codes = [503, 50003];

const linkErrors: Readonly<Record<LinkErrorCode, Codes>> = {
  LINK_EXISTS: [409, 40902],
  LINK_NOT_FOUND: [404, 404],
  LINK_IN_USE: [403, 40301],
  MIRROR_NOT_FOUND: [404, 40403],
  GROUP_NOT_FOUND: [404, 404],
  TOPIC_EXISTS: rejected,
  SOURCE_TOPIC_NOT_FOUND: [404, 40403],
  SOURCE_UNREACHABLE: rejected,
  SOURCE_UNAUTHORIZED: rejected,
  LOOP: rejected,
  CLUSTER_ID_MISMATCH: rejected,
  INVALID_CONFIG: rejected,
  INVALID_NAME: [400, 400],
  ILLEGAL_STATE: rejected,
  ATOMIC_REFUSED: rejected,
  NOT_OWNER: retriable,
  DESTINATION_REFUSED: rejected,
  STATE_UNAVAILABLE: retriable,
  IN_DOUBT: retriable,
  STORAGE_ERROR: [500, 500],
  NOT_SUPPORTED: [501, 40035],
};

function httpStatus(error: unknown): number {
  if (!(error instanceof Error) || !('statusCode' in error)) return 500;
  return typeof error.statusCode === 'number' ? error.statusCode : 500;
}

/** The answer to an error; undefined when it is a fault of ours that nobody planned. */
export function plannedAnswer(error: unknown): HttpAnswer | undefined {
  if (error instanceof LinkError) {
    const [status, errorCode] = linkErrors[error.code];
    return { status, errorCode, message: scrubSecrets(error.message), code: error.code };
  }
  if (error instanceof RequestError) {
    return {
      status: error.status,
      errorCode: error.errorCode,
      message: scrubSecrets(error.message),
    };
  }
  if (error instanceof StateError) {
    const [status, errorCode] = error.code === 'CORRUPT' ? ([500, 500] as const) : retriable;
    return { status, errorCode, message: scrubSecrets(error.message), code: error.code };
  }
  const status = httpStatus(error);
  if (status >= 500 || !(error instanceof Error)) return undefined;
  return { status, errorCode: status, message: scrubSecrets(error.message) };
}

/** The answer to any error; unplanned ones are an event, with the details in the log only. */
export function answerTo(error: unknown, events: Events, what: string): HttpAnswer {
  const planned = plannedAnswer(error);
  if (planned !== undefined) return planned;
  const detail = error instanceof Error ? (error.stack ?? error.message) : String(error);
  events.error('admin_request_failed', `The admin request ${what} failed.`, {
    detail: scrubSecrets(detail),
  });
  return { status: 500, errorCode: 500, message: 'Internal error; the log says more.' };
}

/**
 * Row error of a command on one topic, as a number: the HTTP status that it would have had alone.
 */
export function rowErrorCode(error: LinkError): number {
  return linkErrors[error.code][1];
}

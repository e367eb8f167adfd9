/**
 * The one error of this package. It owns the closed set of codes and the wording; it refuses to
 * know who catches it. Invariant: whatever bytes a peer sends, decoding ends with a value or with
 * a ProtocolError that says which message, version, field and offset were at fault, and never
 * with a RangeError, a TypeError or an allocation that the peer chose the size of.
 */

export const protocolErrorCodes = [
  'TRUNCATED', // a field needs more bytes than there are
  'INVALID_LENGTH', // a length or count that is negative, above a limit, or larger than the rest
  'INVALID_VARINT', // more than five (or ten) bytes
  'INVALID_TAGS', // tagged fields out of order, repeated, or longer than their content
  'UNEXPECTED_NULL', // null where this version does not allow it
  'INVALID_VALUE', // a value that the type cannot hold
  'UNSUPPORTED_VERSION', // the version is unknown, or lacks a field that was set
  'UNKNOWN_API', // an API key that nobody defined
  'INVALID_FRAME', // a size prefix that cannot be right
  'INVALID_BATCH', // a record batch whose header contradicts itself
  'UNSUPPORTED_MAGIC', // message formats before magic 2
  'CORRUPT_RECORDS', // compressed or record data that do not parse
  'TOO_LARGE', // decompressed data above the caller's limit
] as const;

export type ProtocolErrorCode = (typeof protocolErrorCodes)[number];

export interface ProtocolErrorContext {
  messageName?: string | undefined;
  version?: number | undefined;
  field?: string | undefined;
  offset?: number | undefined;
  cause?: unknown;
}

export class ProtocolError extends Error {
  readonly code: ProtocolErrorCode;
  readonly messageName: string | undefined;
  readonly version: number | undefined;
  readonly field: string | undefined;
  readonly offset: number | undefined;

  constructor(code: ProtocolErrorCode, detail: string, context: ProtocolErrorContext = {}) {
    super(
      describe(detail, context),
      context.cause === undefined ? undefined : { cause: context.cause },
    );
    this.name = 'ProtocolError';
    this.code = code;
    this.messageName = context.messageName;
    this.version = context.version;
    this.field = context.field;
    this.offset = context.offset;
  }
}

function describe(detail: string, context: ProtocolErrorContext): string {
  const where: string[] = [];
  if (context.messageName !== undefined) {
    const version = context.version === undefined ? '' : ` v${context.version}`;
    where.push(`${context.messageName}${version}`);
  }
  if (context.field !== undefined) where.push(`field ${context.field}`);
  if (context.offset !== undefined) where.push(`offset ${context.offset}`);
  return where.length === 0 ? detail : `${where.join(', ')}: ${detail}`;
}

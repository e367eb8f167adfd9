/**
 * The public surface of the protocol package. Single messages are imported from `generated/`
 * directly, so that nobody loads more schemas than it uses.
 */
import type { MessageCodec } from './codec.ts';
import { ProtocolError } from './errors.ts';
import { loaders, type MessageName, requestNames, responseNames } from './generated/loaders.ts';

export * from './api-keys.ts';
export { emptyBytes, type RawTag, Reader } from './bytes/reader.ts';
export { isUuid, uuidFromBytes, zeroUuid } from './bytes/uuid.ts';
export { Writer } from './bytes/writer.ts';
export type { MessageCodec } from './codec.ts';
export { crc32c, crc32cIsNative } from './crc32c.ts';
export * from './error-codes.ts';
export { ProtocolError, type ProtocolErrorCode, protocolErrorCodes } from './errors.ts';
export * from './field-audit.ts';
export * from './frame-scanner.ts';
export type { MessageName } from './generated/loaders.ts';
export * from './headers.ts';
export * from './produce-endpoints.ts';
export * from './produce-scanner.ts';
export * from './record-batch.ts';
export {
  type OpenedRecord,
  type OpenRecordsOptions,
  openRecords,
  type RecordHeader,
} from './records.ts';

/** The codec of a body by API key; its file is loaded on first use. */
export async function loadMessage(
  apiKey: number,
  direction: 'request' | 'response',
): Promise<MessageCodec> {
  const name = (direction === 'request' ? requestNames : responseNames)[apiKey];
  if (name === undefined) {
    throw new ProtocolError('UNKNOWN_API', `no ${direction} for API key ${apiKey}`);
  }
  return loaders[name]();
}

/** The codec of any message by Kafka's name: `FetchRequest`, `EndTxnMarker` ... */
export async function loadMessageByName(name: MessageName): Promise<MessageCodec> {
  return loaders[name]();
}

export function messageNames(): MessageName[] {
  return Object.keys(loaders) as MessageName[];
}

/**
 * Request and response headers, and whole frames with their size prefix. It owns the choice of the
 * header version (by key and version of the body) and nothing of bodies.
 *
 *   request  v1: apiKey int16, apiVersion int16, correlationId int32, clientId nullable string
 *   request  v2: the same (the client id stays non-compact), then tagged fields
 *   response v0: correlationId int32
 *   response v1: the same, then tagged fields
 */
import { findResponseHeaderVersion, requestHeaderVersion } from './api-keys.ts';
import type { RawTag, Reader } from './bytes/reader.ts';
import { Writer } from './bytes/writer.ts';
import { ProtocolError } from './errors.ts';

export interface RequestHeader {
  apiKey: number;
  apiVersion: number;
  correlationId: number;
  clientId: string | null;
  unknownTags?: RawTag[] | undefined;
}

export interface ResponseHeader {
  correlationId: number;
  unknownTags?: RawTag[] | undefined;
}

const sizePrefixBytes = 4;

function unknownApi(apiKey: number, apiVersion: number): ProtocolError {
  return new ProtocolError('UNKNOWN_API', `API key ${apiKey} is not defined`, {
    messageName: 'RequestHeader',
    version: apiVersion,
  });
}

/** Leaves the reader at the first byte of the body. */
export function decodeRequestHeader(reader: Reader): RequestHeader {
  reader.beginMessage('RequestHeader', 1, 1, 2);
  const apiKey = reader.readInt16('RequestHeader.requestApiKey');
  const apiVersion = reader.readInt16('RequestHeader.requestApiVersion');
  const correlationId = reader.readInt32('RequestHeader.correlationId');
  const headerVersion = requestHeaderVersion(apiKey, apiVersion);
  if (headerVersion === undefined) throw unknownApi(apiKey, apiVersion);
  reader.beginMessage('RequestHeader', headerVersion, 1, 2);
  const clientId = reader.readNullableString('RequestHeader.clientId');
  const unknownTags = headerVersion === 2 ? reader.readUnknownTags('RequestHeader') : undefined;
  return { apiKey, apiVersion, correlationId, clientId, unknownTags };
}

export function encodeRequestHeader(writer: Writer, header: RequestHeader): void {
  const headerVersion = requestHeaderVersion(header.apiKey, header.apiVersion);
  if (headerVersion === undefined) throw unknownApi(header.apiKey, header.apiVersion);
  writer.beginMessage('RequestHeader', headerVersion, 1, 2);
  writer.writeInt16(header.apiKey, 'RequestHeader.requestApiKey');
  writer.writeInt16(header.apiVersion, 'RequestHeader.requestApiVersion');
  writer.writeInt32(header.correlationId, 'RequestHeader.correlationId');
  writer.writeNullableString(header.clientId, 'RequestHeader.clientId');
  if (headerVersion === 2) writer.writeTags(header.unknownTags, 'RequestHeader');
  else writer.refuseTags(header.unknownTags, 'RequestHeader');
}

export function responseHeaderVersion(apiKey: number, apiVersion: number): 0 | 1 {
  const headerVersion = findResponseHeaderVersion(apiKey, apiVersion);
  if (headerVersion === undefined) throw unknownApi(apiKey, apiVersion);
  return headerVersion;
}

/** Leaves the reader at the first byte of the body. */
export function decodeResponseHeader(
  reader: Reader,
  apiKey: number,
  apiVersion: number,
): ResponseHeader {
  const headerVersion = responseHeaderVersion(apiKey, apiVersion);
  reader.beginMessage('ResponseHeader', headerVersion, 0, 1);
  const correlationId = reader.readInt32('ResponseHeader.correlationId');
  const unknownTags = headerVersion === 1 ? reader.readUnknownTags('ResponseHeader') : undefined;
  return { correlationId, unknownTags };
}

export function encodeResponseHeader(
  writer: Writer,
  header: ResponseHeader & { apiKey: number; apiVersion: number },
): void {
  const headerVersion = responseHeaderVersion(header.apiKey, header.apiVersion);
  writer.beginMessage('ResponseHeader', headerVersion, 0, 1);
  writer.writeInt32(header.correlationId, 'ResponseHeader.correlationId');
  if (headerVersion === 1) writer.writeTags(header.unknownTags, 'ResponseHeader');
  else writer.refuseTags(header.unknownTags, 'ResponseHeader');
}

/** A whole frame as chunks for writev: size prefix, request header, body. */
export function encodeRequestFrame(
  header: RequestHeader,
  encodeBody: (writer: Writer) => void,
): Buffer[] {
  return encodeFrame((writer) => {
    encodeRequestHeader(writer, header);
    encodeBody(writer);
  });
}

/** A whole frame as chunks for writev: size prefix, response header, body. */
export function encodeResponseFrame(
  header: ResponseHeader & { apiKey: number; apiVersion: number },
  encodeBody: (writer: Writer) => void,
): Buffer[] {
  return encodeFrame((writer) => {
    encodeResponseHeader(writer, header);
    encodeBody(writer);
  });
}

function encodeFrame(encode: (writer: Writer) => void): Buffer[] {
  const writer = new Writer();
  writer.writeInt32(0);
  encode(writer);
  const chunks = writer.toChunks();
  // A header always follows the prefix, so the first chunk is our own and holds all four bytes.
  chunks[0]?.writeInt32BE(writer.sizeInBytes - sizePrefixBytes, 0);
  return chunks;
}

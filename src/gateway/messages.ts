// Whole messages for handlers: a request's body out of its frame, a changed frame for the
// destination, an answer, a changed response. Owns no meaning of any message. Invariant: headers
// are kept byte for byte, so correlation id, client id and unknown header tags survive every
// rewriting; sizes are always ours.
import type { MessageCodec } from '../../protocol/codec.ts';
import {
  decodeResponseHeader,
  encodeResponseFrame,
  Reader,
  type RequestHeader,
  Writer,
} from '../../protocol/index.ts';
import type { Api } from '../cluster/cluster.ts';
import type { Disposition, RequestContext } from './handler.ts';

export type Rewrite = (frame: Buffer) => readonly Buffer[] | Promise<readonly Buffer[]>;

export function decodeBody<Message extends object>(
  context: RequestContext,
  codec: MessageCodec<Message>,
): Message {
  const reader = new Reader(context.frame, context.bodyOffset);
  return codec.decode(reader, context.header.apiVersion);
}

/** The request's frame with another body. */
export function requestWith<Message extends object>(
  context: RequestContext,
  codec: MessageCodec<Message>,
  message: Message,
): readonly Buffer[] {
  const writer = new Writer();
  codec.encode(writer, message, context.header.apiVersion);
  return framed(context.frame.subarray(0, context.bodyOffset), writer.toChunks());
}

/** An answer of our own. */
export function responseTo<Message extends object>(
  header: RequestHeader,
  codec: MessageCodec<Message>,
  message: Message,
): readonly Buffer[] {
  return encodeResponseFrame(header, (writer) => codec.encode(writer, message, header.apiVersion));
}

export function answer<Message extends object>(
  context: RequestContext,
  codec: MessageCodec<Message>,
  message: Message,
): Disposition {
  return {
    kind: 'answer',
    response: Promise.resolve(responseTo(context.header, codec, message)),
  };
}

/**
 * A rewrite that decodes the response, lets `change` work on it, and encodes it again. `change`
 * says whether it changed anything; if not, the broker's own bytes go on. `versionUpstream`: in
 * which the broker was asked, when not in the client's; both have the same form of header.
 */
export function rewriting<Message extends object>(
  header: RequestHeader,
  codec: MessageCodec<Message>,
  change: (message: Message) => boolean | Promise<boolean>,
  versionUpstream = header.apiVersion,
): Rewrite {
  const { apiKey, apiVersion } = header;
  return (frame) => {
    const reader = new Reader(frame);
    decodeResponseHeader(reader, apiKey, versionUpstream);
    const headerBytes = reader.offset;
    const message = codec.decode(reader, versionUpstream);
    const finish = (isChanged: boolean): readonly Buffer[] => {
      if (!isChanged) return framed(frame, []);
      const writer = new Writer();
      codec.encode(writer, message, apiVersion);
      return framed(frame.subarray(0, headerBytes), writer.toChunks());
    };
    const outcome = change(message);
    return typeof outcome === 'boolean' ? finish(outcome) : outcome.then(finish);
  };
}

/** Puts the size prefix in front. */
export function framed(head: Buffer, rest: readonly Buffer[]): readonly Buffer[] {
  let size = head.length;
  for (const chunk of rest) size += chunk.length;
  const prefix = Buffer.allocUnsafe(4);
  prefix.writeInt32BE(size, 0);
  return [prefix, head, ...rest];
}

/** The descriptor that `callUpstream` wants, out of the two generated codecs. */
export function apiOf<Request extends object, Response extends object>(
  request: MessageCodec<Request>,
  response: MessageCodec<Response>,
  versions: { readonly min?: number; readonly max?: number } = {},
): Api<Request, Response> {
  return {
    key: request.apiKey ?? -1,
    name: request.name,
    versionMin: versions.min ?? request.versionMin,
    versionMax: versions.max ?? request.versionMax,
    encode: request.encode,
    decode: response.decode,
  };
}

// The request of a client that passes while it comes in. Owns which one it is and what was promised
// about it; refuses to know bytes and sockets. Invariant: what cannot be told from its first bytes
// does not pass: it is handled when it is whole.
import { emptyBytes } from '../../protocol/bytes/reader.ts';
import {
  decodeRequestHeader,
  ProtocolError,
  Reader,
  type RequestHeader,
} from '../../protocol/index.ts';
import type { Inspection, Passage, SessionView } from './handler.ts';
import type { Router } from './router.ts';

interface RequestHead {
  readonly header: RequestHeader;
  readonly bodyOffset: number;
}

const correlationIdAt = 4;
const correlationIdEnd = 8;

export class PassingRequest {
  readonly #heads = new HeadReader();
  #header: RequestHeader | undefined;
  #passage: Passage = {};

  /** Null when the request is wanted whole. */
  inspect(session: SessionView, router: Pick<Router, 'route'>, head: Buffer): Inspection | null {
    const start = this.#heads.read(head);
    if (start === null) return null;
    const { header, bodyOffset } = start;
    const route = router.route(header, session.upstreamVersions);
    if (route.kind === 'refused' || route.inspect === undefined) return null;
    this.#header = header;
    return route.inspect(session, header, bodyOffset);
  }

  /** The one that was inspected last is let through. */
  begin(passage: Passage): RequestHeader {
    if (this.#header === undefined) throw new Error('a request passes that was not inspected');
    this.#passage = passage;
    return this.#header;
  }

  ended(): { readonly header: RequestHeader; readonly passage: Passage } {
    return { header: this.begin(this.#passage), passage: this.#passage };
  }
}

/**
 * Decodes the heads of one client's requests. Most have the same header as the one before, but for
 * the correlation id: only those bytes are decoded then.
 */
class HeadReader {
  #last: RequestHead | null = null;
  /** Begins with the last header as it came. */
  #lastBytes: Buffer = emptyBytes;

  /** Null when the header is not all there, or strange: it is judged whole. */
  read(head: Buffer): RequestHead | null {
    const last = this.#last;
    if (last !== null && this.#isLastButForId(head, last.bodyOffset)) {
      const correlationId = head.readInt32BE(correlationIdAt);
      return { header: { ...last.header, correlationId }, bodyOffset: last.bodyOffset };
    }
    this.#last = decodeHead(head);
    if (this.#last !== null) this.#keep(head, this.#last.bodyOffset);
    return this.#last;
  }

  /** A header says itself how long it is, so what begins with these bytes has the same length. */
  #isLastButForId(head: Buffer, length: number): boolean {
    if (head.length < length) return false;
    const known = this.#lastBytes;
    for (let index = 0; index < length; index++) {
      const isOfId = index >= correlationIdAt && index < correlationIdEnd;
      if (!isOfId && head[index] !== known[index]) return false;
    }
    return true;
  }

  /** A copy: the head lies in memory that is used again. */
  #keep(head: Buffer, length: number): void {
    if (this.#lastBytes.length < length) this.#lastBytes = Buffer.allocUnsafeSlow(length);
    head.copy(this.#lastBytes, 0, 0, length);
  }
}

function decodeHead(head: Buffer): RequestHead | null {
  const reader = new Reader(head);
  try {
    const header = decodeRequestHeader(reader);
    return header.unknownTags === undefined ? { header, bodyOffset: reader.offset } : null;
  } catch (error) {
    if (error instanceof ProtocolError) return null;
    throw error;
  }
}

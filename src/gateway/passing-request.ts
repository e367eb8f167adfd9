// The request of a client that passes while it comes in. Owns which one it is, what was promised
// about it, and how the last one began; refuses to know sockets. Invariants: what cannot be told
// from its first bytes does not pass: it is handled when it is whole; a request is taken for one
// like the last only when every byte that decided about that one is the same, and nothing else that
// did has changed.
import { emptyBytes } from '../../protocol/bytes/reader.ts';
import {
  decodeRequestHeader,
  ProtocolError,
  Reader,
  type RequestHeader,
} from '../../protocol/index.ts';
import type { VersionRange } from '../cluster/cluster.ts';
import type { Inspection, Passage, SessionView } from './handler.ts';
import { requestHeadBytes } from './limits.ts';
import type { Router } from './router.ts';

interface RequestHead {
  readonly header: RequestHeader;
  readonly bodyOffset: number;
}

/** Where a request's bytes lie in what came, its prefix left out. */
export interface FramePlace {
  readonly start: number;
  readonly end: number;
}

/** One that passed, and under which versions of the broker. */
interface Precedent {
  readonly passage: Passage;
  readonly upstreamVersions: ReadonlyMap<number, VersionRange>;
}

const correlationIdAt = 4;
const correlationIdEnd = 8;
const nothingPromised: Passage = {};

export class PassingRequest {
  readonly #heads = new HeadReader();
  readonly #beginning = new Beginning();
  #precedent: Precedent | null = null;
  #header: RequestHeader | null = null;
  #correlationId = 0;
  #passage = nothingPromised;

  get correlationId(): number {
    return this.#correlationId;
  }

  get passage(): Passage {
    return this.#passage;
  }

  /** True when this request passes like the one before; it is the one that passes then. */
  beginLikeLast({ upstreamVersions }: SessionView, bytes: Buffer, place: FramePlace): boolean {
    const precedent = this.#precedent;
    if (precedent === null || precedent.upstreamVersions !== upstreamVersions) return false;
    if (!this.#beginning.isThatOf(bytes, place)) return false;
    const { passage } = precedent;
    if (passage.stillHolds?.() === false) return false;
    this.#correlationId = bytes.readInt32BE(place.start + correlationIdAt);
    this.#passage = passage;
    return true;
  }

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

  /** The one that was inspected last is let through; `bytes`: what has come of it. */
  begin({ upstreamVersions }: SessionView, passage: Passage, bytes: Buffer): RequestHeader {
    const header = this.#header;
    if (header === null) throw new Error('a request passes that was not inspected');
    this.#correlationId = header.correlationId;
    this.#passage = passage;
    const { decidedByBytes = Infinity } = passage;
    const isPrecedent = decidedByBytes <= requestHeadBytes;
    if (isPrecedent) this.#beginning.keep(bytes, decidedByBytes);
    this.#precedent = isPrecedent ? { passage, upstreamVersions } : null;
    return header;
  }

  /** The last bytes went on. Of a request that no other can be like nothing stays. */
  end(): void {
    if (this.#precedent === null) this.#passage = nothingPromised;
  }
}

/** The first bytes of a request, by which others are compared with it, but for its id. */
class Beginning {
  #bytes = emptyBytes;
  #length = 0;

  isThatOf(bytes: Buffer, { start, end }: FramePlace): boolean {
    const known = this.#bytes;
    const length = this.#length;
    if (end - start < length) return false;
    for (let index = 0; index < length; index++) {
      const isOfId = index >= correlationIdAt && index < correlationIdEnd;
      if (!isOfId && bytes[start + index] !== known[index]) return false;
    }
    return true;
  }

  /** A copy: what came lies in memory that is used again. */
  keep(bytes: Buffer, length: number): void {
    if (this.#bytes.length < length) this.#bytes = Buffer.allocUnsafeSlow(length);
    bytes.copy(this.#bytes, 0, 0, length);
    this.#length = length;
  }
}

/**
 * Decodes the heads of one client's requests. Most have the same header as the one before, but for
 * the correlation id: only those bytes are decoded then.
 */
class HeadReader {
  readonly #beginning = new Beginning();
  #last: RequestHead | null = null;

  /** Null when the header is not all there, or strange: it is judged whole. */
  read(head: Buffer): RequestHead | null {
    const last = this.#last;
    // A header says itself how long it is, so what begins with its bytes has the same length.
    if (last !== null && this.#beginning.isThatOf(head, { start: 0, end: head.length })) {
      const correlationId = head.readInt32BE(correlationIdAt);
      return { header: { ...last.header, correlationId }, bodyOffset: last.bodyOffset };
    }
    this.#last = decodeHead(head);
    if (this.#last !== null) this.#beginning.keep(head, this.#last.bodyOffset);
    return this.#last;
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

// The request of a client that passes while it comes in. Owns which one it is and what was promised
// about it; refuses to know bytes and sockets. Invariant: what cannot be told from its first bytes
// does not pass: it is handled when it is whole.
import {
  decodeRequestHeader,
  ProtocolError,
  Reader,
  type RequestHeader,
} from '../../protocol/index.ts';
import type { Inspection, Passage, SessionView } from './handler.ts';
import type { Router } from './router.ts';

export class PassingRequest {
  #header: RequestHeader | undefined;
  #passage: Passage = {};

  /** Null when the request is wanted whole. */
  inspect(session: SessionView, router: Pick<Router, 'route'>, head: Buffer): Inspection | null {
    const start = readHead(head);
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

/** The header, when all of it is in the first bytes; a strange one is judged whole. */
function readHead(head: Buffer): { header: RequestHeader; bodyOffset: number } | null {
  const reader = new Reader(head);
  try {
    const header = decodeRequestHeader(reader);
    return header.unknownTags === undefined ? { header, bodyOffset: reader.offset } : null;
  } catch (error) {
    if (error instanceof ProtocolError) return null;
    throw error;
  }
}

// What one connection knows of the fetch session that its client has at the broker (KIP-227): the
// id, and whether it may hold promoted partitions. Refuses to know partitions and offsets.
// Invariant: a session is taken for one of ordinary topics only when its id was seen here, in the
// answer to a request without promoted ones. Ids belong to no connection: a client may go on with
// one that began elsewhere, and that session may hold anything.
import type { FetchRequest } from '../../protocol/generated/fetch-request.ts';
import { ApiKey, decodeResponseHeader, Reader } from '../../protocol/index.ts';
import type { Disposition, ResponsePatch, SessionView } from './handler.ts';
import { framed } from './messages.ts';

/** The first version of Fetch with sessions. */
const sessionsFrom = 7;
/** A request that begins a session; those of the session count from 1 on, -1 has none. */
const beginsSession = 0;
/** Correlation id, header tags, throttle time, error code, session id. */
const headBytesMost = 4 + 1 + 4 + 2 + 4;

const noteKey = Symbol('fetch session');

export function noteOf(session: SessionView): FetchSessionNote {
  const known = session.scratch.get(noteKey);
  if (known instanceof FetchSessionNote) return known;
  const note = new FetchSessionNote();
  session.scratch.set(noteKey, note);
  return note;
}

export class FetchSessionNote {
  /** Of the last session seen to begin that holds ordinary partitions only; null: of none. */
  #ordinaryId: number | null = null;
  /** A promoted partition was asked for here before: it may be in any session. */
  #hasNamedPromoted = false;

  /** Whether the answer may hold promoted partitions, named by this request or by the session. */
  mayHoldShifted(
    { services }: SessionView,
    { sessionId, sessionEpoch }: FetchRequest,
    namesPromoted: boolean,
  ): boolean {
    const { hasPromoted, isSettled } = services.directory;
    const isIncremental = sessionEpoch > 0;
    const isOrdinary = isIncremental && sessionId === this.#ordinaryId;
    if (namesPromoted) {
      this.#hasNamedPromoted = true;
      if (isOrdinary) this.#ordinaryId = null;
    }
    if (!isIncremental || namesPromoted || isOrdinary) return namesPromoted;
    return hasPromoted || !isSettled || this.#hasNamedPromoted;
  }

  /** How the answer to a request that names nothing promoted is looked at, for the id in it. */
  learning(
    { services }: SessionView,
    { sessionEpoch }: FetchRequest,
    version: number,
  ): Pick<Extract<Disposition, { kind: 'forward' }>, 'rewrite' | 'patch'> {
    const isWanted = version >= sessionsFrom && sessionEpoch === beginsSession;
    if (!isWanted || !services.directory.hasPromoted) return {};
    return {
      rewrite: (frame) => {
        this.#learn(frame, version);
        return framed(frame, []);
      },
      patch: () => this.#learningPatch(version),
    };
  }

  #learningPatch(version: number): ResponsePatch {
    let head: Buffer | null = Buffer.alloc(0);
    return {
      push: (bytes, emit) => {
        if (head !== null) {
          head = Buffer.concat([head, bytes.subarray(0, headBytesMost)]);
          if (head.length >= headBytesMost) {
            this.#learn(head, version);
            head = null;
          }
        }
        emit(bytes);
      },
      finish: () => undefined,
    };
  }

  #learn(frame: Buffer, version: number): void {
    const reader = new Reader(frame);
    decodeResponseHeader(reader, ApiKey.Fetch, version);
    // Throttle time and error code come first.
    reader.readInt32();
    reader.readInt16();
    const sessionId = reader.readInt32();
    if (sessionId !== 0) this.#ordinaryId = sessionId;
  }
}

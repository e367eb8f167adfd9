/**
 * Whether a ProduceResponse names brokers' addresses (version 10 and later, in the last tagged
 * field, with errors that tell of another leader). Hardly any does, so this walks the bytes and
 * keeps nothing, where decoding would make an object for each partition. Invariant: false only when
 * the whole response was walked and nothing of it was strange.
 *
 *   header: correlation id int32, tags
 *   topics [name or id, partitions [index int32, error int16, base offset int64, append time int64,
 *   log start int64, record errors [index int32, message, tags], message, tags], tags],
 *   throttle time int32, tags
 */
import { emptyBytes } from './bytes/reader.ts';
import { ProtocolError } from './errors.ts';
import { ShortCursor } from './short-cursor.ts';

/** Before it there are no addresses, and the lengths are of another form. */
export const produceEndpointsFrom = 10;
const topicIdsFrom = 13;
const uuidBytes = 16;
const partitionBytes = 4 + 2 + 8 + 8 + 8;

const cursor = new ShortCursor();

/** `frame`: the response with its header, without its prefix; of version 10 or later. */
export function mayNameEndpoints(frame: Buffer, version: number): boolean {
  cursor.begin(frame, 0);
  try {
    return !isPlain(version);
  } catch (error) {
    // Whoever decodes it says what is wrong.
    if (error instanceof ProtocolError) return true;
    throw error;
  } finally {
    cursor.begin(emptyBytes, 0);
  }
}

function isPlain(version: number): boolean {
  cursor.skip(4);
  cursor.tags();
  for (let topics = items(); topics > 0 && !cursor.isShort; topics--) {
    if (version >= topicIdsFrom) cursor.skip(uuidBytes);
    else cursor.skip(items());
    for (let partitions = items(); partitions > 0 && !cursor.isShort; partitions--) partition();
    cursor.tags();
  }
  cursor.skip(4);
  const tagsCount = cursor.uvarint();
  return tagsCount === 0 && !cursor.isShort && cursor.offset === cursor.bytes.length;
}

function partition(): void {
  cursor.skip(partitionBytes);
  for (let errors = items(); errors > 0 && !cursor.isShort; errors--) {
    cursor.skip(4);
    cursor.skip(items());
    cursor.tags();
  }
  cursor.skip(items());
  cursor.tags();
}

/** Of a compact array or string; 0 for null. */
function items(): number {
  return Math.max(0, cursor.uvarint() - 1);
}

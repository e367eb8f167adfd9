/**
 * What this package accepts at most, in one place. These are Kafka's own bounds (its 4.4 readers
 * refuse the same), so no healthy peer meets them; they bound what a hostile one can make us hold.
 */

/** Elements of one array; checked, together with the bytes that remain, before it is built. */
export const arrayElementsMax = 1_000_000;

/** Tagged fields of one struct. */
export const tagsMax = 10_000;

/** Bytes of one string in UTF-8: the old int16 length prefix, also enforced for compact ones. */
export const stringBytesMax = 0x7fff;

/** A frame's size prefix may not name more than this unless the caller says otherwise. */
export const frameBytesMaxDefault = 256 * 1024 * 1024;

/** Decompressed bytes of one record batch unless the caller says otherwise. */
export const decompressedBytesMaxDefault = 128 * 1024 * 1024;

/** From this size on, bytes are spliced into a frame as a chunk of their own, not copied. */
export const spliceBytesMin = 1024;

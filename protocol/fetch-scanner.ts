/**
 * Walks the body of a FetchResponse without building it, and points at what lies at a fixed width
 * in each partition: offsets, epochs, the span of its records. It never looks inside records and
 * keeps nothing. Whoever patches at these positions changes no length, so the frame stays whole.
 * Invariant: every position lies inside the frame; one walk, every byte at most once, no copies.
 *
 *   partition: index int32, error int16, high watermark int64, last stable offset int64,
 *              log start int64 (5+), aborted [producer id int64, first offset int64, tags 12+],
 *              preferred replica int32 (11+), records, tags (12+):
 *              0 diverging epoch {int32, int64}, 1 current leader {id int32, epoch int32},
 *              2 snapshot id {int64, int32}
 */
import { Reader } from './bytes/reader.ts';

const partitionBytesMin = 4 + 2 + 8 + 8;
const abortedBytesMin = 16;

export interface ScannedPartition {
  /** Empty from version 13 on. */
  readonly topicName: string;
  /** Undefined before version 13. */
  readonly topicId: string | undefined;
  readonly partition: number;
  readonly errorCode: number;
  readonly highWatermarkAt: number;
  readonly lastStableOffsetAt: number;
  /** -1 before version 5. */
  readonly logStartOffsetAt: number;
  /** Of each aborted transaction, where its first offset is. */
  readonly abortedFirstOffsetsAt: readonly number[];
  /** The records' bytes; both are equal when there are none (or null). */
  readonly recordsStart: number;
  readonly recordsEnd: number;
  /** Epoch int32, then end offset int64; -1 when absent. */
  readonly divergingEpochAt: number;
  /** Leader id int32, then epoch int32; -1 when absent. */
  readonly currentLeaderAt: number;
}

export interface ScannedFetch {
  readonly errorCode: number;
  readonly sessionId: number;
  readonly nodeEndpoints: number;
}

/**
 * `bodyOffset`: behind the response header. Throws ProtocolError on bytes that are no
 * FetchResponse.
 */
export function scanFetchResponse(
  frame: Buffer,
  bodyOffset: number,
  version: number,
  visit: (partition: ScannedPartition) => void,
): ScannedFetch {
  const reader = new Reader(frame, bodyOffset);
  reader.beginMessage('FetchResponse', version, 4, 18);
  const flexible = version >= 12;
  reader.readInt32('FetchResponse.throttleTimeMs');
  const errorCode = version >= 7 ? reader.readInt16('FetchResponse.errorCode') : 0;
  const sessionId = version >= 7 ? reader.readInt32('FetchResponse.sessionId') : 0;
  for (let topics = arrayLength(reader, flexible, 3); topics > 0; topics--) {
    const topicName = version >= 13 ? '' : topicNameOf(reader, flexible);
    const topicId = version >= 13 ? reader.readUuid('FetchableTopicResponse.topicId') : undefined;
    let partitions = arrayLength(reader, flexible, partitionBytesMin);
    for (; partitions > 0; partitions--) {
      visit({ topicName, topicId, ...scanPartition(reader, version) });
    }
    if (flexible) reader.readUnknownTags('FetchableTopicResponse');
  }
  const nodeEndpoints = flexible ? scanTopTags(reader, version) : 0;
  if (reader.remaining > 0) throw reader.error('INVALID_LENGTH', `${reader.remaining} bytes left`);
  return { errorCode, sessionId, nodeEndpoints };
}

function arrayLength(reader: Reader, flexible: boolean, elementBytesMin: number): number {
  return flexible
    ? reader.readCompactArrayLength(elementBytesMin, 'FetchResponse.responses')
    : reader.readArrayLength(elementBytesMin, 'FetchResponse.responses');
}

function topicNameOf(reader: Reader, flexible: boolean): string {
  return flexible
    ? reader.readCompactString('FetchableTopicResponse.topic')
    : reader.readString('FetchableTopicResponse.topic');
}

function scanPartition(
  reader: Reader,
  version: number,
): Omit<ScannedPartition, 'topicName' | 'topicId'> {
  const flexible = version >= 12;
  const partition = reader.readInt32('PartitionData.partitionIndex');
  const errorCode = reader.readInt16('PartitionData.errorCode');
  const highWatermarkAt = skip(reader, 8);
  const lastStableOffsetAt = skip(reader, 8);
  const logStartOffsetAt = version >= 5 ? skip(reader, 8) : -1;
  const abortedFirstOffsetsAt = scanAborted(reader, flexible);
  if (version >= 11) skip(reader, 4);
  const records = flexible
    ? reader.readCompactNullableBytes('PartitionData.records')
    : reader.readNullableBytes('PartitionData.records');
  const recordsEnd = reader.offset;
  return {
    partition,
    errorCode,
    highWatermarkAt,
    lastStableOffsetAt,
    logStartOffsetAt,
    abortedFirstOffsetsAt,
    recordsStart: recordsEnd - (records?.length ?? 0),
    recordsEnd,
    ...(flexible ? scanPartitionTags(reader) : { divergingEpochAt: -1, currentLeaderAt: -1 }),
  };
}

const noneAborted: readonly number[] = [];

function scanAborted(reader: Reader, flexible: boolean): readonly number[] {
  const field = 'PartitionData.abortedTransactions';
  const count = flexible
    ? reader.readCompactNullableArrayLength(abortedBytesMin, field)
    : reader.readNullableArrayLength(abortedBytesMin, field);
  if (count <= 0) return noneAborted;
  const positions: number[] = [];
  for (let index = 0; index < count; index++) {
    skip(reader, 8);
    positions.push(skip(reader, 8));
    if (flexible) reader.readUnknownTags(field);
  }
  return positions;
}

function scanPartitionTags(reader: Reader): { divergingEpochAt: number; currentLeaderAt: number } {
  let divergingEpochAt = -1;
  let currentLeaderAt = -1;
  let tag = -1;
  for (let count = reader.readTagCount('PartitionData'); count > 0; count--) {
    tag = reader.readTag(tag, 'PartitionData');
    const tagEnd = reader.readTagEnd('PartitionData');
    if (tag === 0) divergingEpochAt = skip(reader, 12);
    else if (tag === 1) currentLeaderAt = skip(reader, 8);
    // The struct's own tags (or the whole of a tag that does not matter here) follow.
    skip(reader, tagEnd - reader.offset);
  }
  return { divergingEpochAt, currentLeaderAt };
}

function scanTopTags(reader: Reader, version: number): number {
  let nodeEndpoints = 0;
  let tag = -1;
  for (let count = reader.readTagCount('FetchResponse'); count > 0; count--) {
    tag = reader.readTag(tag, 'FetchResponse');
    const tagEnd = reader.readTagEnd('FetchResponse');
    if (tag === 0 && version >= 16) {
      nodeEndpoints = reader.readCompactArrayLength(1, 'FetchResponse.nodeEndpoints');
    }
    skip(reader, tagEnd - reader.offset);
  }
  return nodeEndpoints;
}

/** Moves over `length` bytes, which must exist; returns where they begin. */
function skip(reader: Reader, length: number): number {
  const start = reader.offset;
  reader.readRaw(length, 'FetchResponse');
  return start;
}

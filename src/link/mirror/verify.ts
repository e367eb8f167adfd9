// Reads source and mirror again, side by side, and compares them batch by batch. Owns the common
// range, the pace and the verdict; refuses to know who asks. Works in steps, each of bounded time
// and size, whose outcome is all that the next one needs: nothing is kept here. Invariant: what is
// called equal was compared byte for byte, and the CRC of both sides was right; a topic that is not
// provably the mirrored one is compared with nothing.
import { createHash } from 'node:crypto';
import { ErrorCode, errorName, forEachBatch, verifyBatchCrc } from '../../../protocol/index.ts';
import { type BatchHeader, batchHeaderBytes, nextOffset } from '../../../protocol/record-batch.ts';
import { StorageError } from '../../../storage/errors.ts';
import type { MirrorLog } from '../../../storage/mirror-log.ts';
import { type Cluster, ClusterError } from '../../cluster/cluster.ts';
import { partitionKey } from '../../cluster/partition-key.ts';
import type { LinkRecord, TopicRecord } from '../../state/records.ts';
import { LinkError } from '../link-error.ts';
import type { VerifyDifference, VerifyRequest, VerifyStep } from '../service.ts';
import { Signal } from '../signal.ts';
import { unconfirmedSources } from '../source-identity.ts';
import { earliestTimestamp, fetchOnce, latestTimestamp, listOffsets } from '../source-offsets.ts';
import { isMirror } from './mirror-state.ts';
import type { MirrorTopic } from './mirror-topics.ts';

/** A step ends after so much of either, so that whoever asks sees progress. */
const stepMs = 5_000;
const stepBytes = 64 * 1024 * 1024;
const readBytes = 1024 * 1024;

const smallerOf = (a: bigint, b: bigint): bigint => (a - b < 0n ? a : b);

/** What is compared, as link-service.ts finds it. */
export interface VerifyPlace {
  readonly link: string;
  readonly cluster: Cluster;
  readonly sourceTopic: string;
  readonly topicId: string;
  readonly leaderId: number;
  readonly log: MirrorLog;
}

interface Batch {
  readonly header: BatchHeader;
  readonly bytes: Buffer;
}

/** Whole batches of a buffer from the one on that reaches to `offset`. */
function batchesFrom(records: Buffer, offset: bigint): Batch[] {
  const found: Batch[] = [];
  forEachBatch(records, (header, position) => {
    if (nextOffset(header) <= offset) return;
    found.push({ header, bytes: records.subarray(position, position + header.sizeInBytes) });
  });
  return found;
}

function describe(header: BatchHeader): string {
  return `offsets ${header.baseOffset} to ${nextOffset(header) - 1n}, ${header.sizeInBytes} bytes`;
}

function difference(
  offset: bigint,
  kind: VerifyDifference['kind'],
  message: string,
): VerifyDifference {
  return { offset, kind, message };
}

/** Why two batches are not the same, or null. */
function compare(source: Batch, mirror: Batch): VerifyDifference | null {
  const { header, bytes } = source;
  const { baseOffset: offset } = header;
  if (!verifyBatchCrc(bytes, 0, bytes.length)) {
    return difference(offset, 'SOURCE_CORRUPT', 'the CRC of the source’s batch is wrong');
  }
  if (!verifyBatchCrc(mirror.bytes, 0, mirror.bytes.length)) {
    const at = mirror.header.baseOffset;
    return difference(at, 'MIRROR_CORRUPT', 'the CRC of the mirror’s batch is wrong');
  }
  if (bytes.equals(mirror.bytes)) return null;
  const at = smallerOf(offset, mirror.header.baseOffset);
  const both = `source: ${describe(header)}; mirror: ${describe(mirror.header)}`;
  const place = bytes.findIndex((byte, index) => byte !== mirror.bytes[index]);
  return difference(at, 'DIFFERENT', `${both}; they differ from byte ${place} on`);
}

export class Comparison {
  readonly #place: VerifyPlace;
  readonly #request: VerifyRequest;
  #readBytes = readBytes;
  #hash: Buffer;
  #next: bigint;
  #batches = 0;
  #bytes = 0;
  #difference: VerifyDifference | null = null;
  /** What was found and could not be found a second time. */
  #repaired: VerifyDifference | null = null;

  constructor(place: VerifyPlace, request: VerifyRequest, from: bigint) {
    this.#place = place;
    this.#request = request;
    this.#hash = Buffer.from(request.hash ?? '', 'hex');
    this.#next = from;
  }

  /** Compares on until a step is over. */
  async run(range: { start: bigint; end: bigint }): Promise<VerifyStep> {
    const { start, end } = range;
    const startedMs = performance.now();
    while (this.#next < end && this.#difference === null) {
      await this.#one(end);
      const spentMs = performance.now() - startedMs;
      if (spentMs > stepMs || this.#bytes > stepBytes) break;
      const dueMs = (this.#bytes / this.#request.bytesPerSecond) * 1000;
      if (dueMs > spentMs) await new Signal().wait(Math.min(dueMs - spentMs, stepMs));
    }
    this.#difference ??= this.#repaired;
    return {
      topic: this.#request.topic,
      partition: this.#request.partition,
      start,
      end,
      next: this.#next,
      batches: this.#batches,
      bytes: this.#bytes,
      hash: this.#hash.toString('hex'),
      isDone: this.#next >= end || this.#difference !== null,
      difference: this.#difference,
    };
  }

  async #one(end: bigint): Promise<void> {
    const offset = this.#next;
    const source = batchesFrom(await this.#readSource(), offset);
    let mirror: Batch[];
    try {
      mirror = batchesFrom(await this.#readMirror(end), offset);
    } catch (error) {
      if (!(error instanceof StorageError) || error.code !== 'CORRUPT') throw error;
      if (this.#readBytes > 1) {
        // Batch by batch up to the one that is damaged, unless it is repaired meanwhile.
        this.#readBytes = 1;
        const at = this.#place.log.damage.find(({ to }) => to > offset)?.from ?? offset;
        const message = `${error.message}; it has been fetched from the source again`;
        this.#repaired = difference(at, 'MIRROR_CORRUPT', message);
        return;
      }
      this.#difference = difference(offset, 'MIRROR_CORRUPT', error.message);
      return;
    }
    const { length } = source.length < mirror.length ? source : mirror;
    for (let index = 0; index < length && this.#difference === null; index++) {
      const ours = mirror[index];
      const theirs = source[index];
      if (ours === undefined || theirs === undefined) break;
      this.#difference = compare(theirs, ours);
      if (this.#difference === null) this.#count(theirs);
      // A batch that reaches over the end is compared, and is the last one.
      if (this.#next >= end) return;
    }
    if (length > 0 || this.#difference !== null) return;
    if (source.length === 0 && mirror.length === 0) {
      // Neither has anything up to the end: a gap, as compaction and transactions leave it.
      this.#next = end;
      return;
    }
    const who = source.length === 0 ? 'the source' : 'the mirror';
    const [first] = source.length === 0 ? mirror : source;
    if (first !== undefined && first.header.baseOffset >= end) {
      this.#next = end;
      return;
    }
    this.#difference = difference(offset, 'MISSING', `${who} has nothing from offset ${offset} on`);
  }

  #count({ header, bytes }: Batch): void {
    // The header holds the CRC of the rest.
    const hash = createHash('sha256').update(this.#hash);
    this.#hash = hash.update(bytes.subarray(0, batchHeaderBytes)).digest();
    this.#next = nextOffset(header);
    this.#batches += 1;
    this.#bytes += bytes.length;
  }

  async #readSource(): Promise<Buffer> {
    const { cluster, link, sourceTopic, topicId, leaderId } = this.#place;
    const { partition } = this.#request;
    const { errorCode, records } = await fetchOnce(cluster, {
      topic: sourceTopic,
      topicId,
      partition,
      leaderId,
      offset: this.#next,
      bytesMax: readBytes,
      lane: `verify-${link}`,
    });
    if (errorCode === ErrorCode.NONE) return records;
    throw new LinkError('SOURCE_UNREACHABLE', `The source answers ${errorName(errorCode)}`);
  }

  async #readMirror(end: bigint): Promise<Buffer> {
    const { log } = this.#place;
    if (this.#next >= log.visibleEnd) return Buffer.alloc(0);
    const options = { bytesMax: this.#readBytes, atLeastOneBatch: true };
    const { chunks, bytes } = await log.read(this.#next, options);
    if (bytes > 0 || this.#next >= end) return Buffer.concat(chunks);
    return Buffer.alloc(0);
  }
}

/** The range that both have now, or from where the last step left off. */
async function commonRange(
  place: VerifyPlace,
  request: VerifyRequest,
): Promise<{ start: bigint; end: bigint }> {
  const { cluster, sourceTopic: topic, leaderId, log } = place;
  const { partition, since } = request;
  const asked = [{ topic, partition, leaderId }];
  const key = partitionKey(topic, partition);
  const starts = await listOffsets(cluster, asked, { timestamp: earliestTimestamp });
  const ends = await listOffsets(cluster, asked, { timestamp: latestTimestamp });
  const first = starts.get(key);
  const last = ends.get(key);
  for (const answer of [first, last]) {
    if (answer?.errorCode === ErrorCode.NONE) continue;
    const code = errorName(answer?.errorCode ?? ErrorCode.UNKNOWN_SERVER_ERROR);
    throw new LinkError('SOURCE_UNREACHABLE', `The source answers ${code} for ${topic}`);
  }
  let start = first?.offset ?? 0n;
  for (const bound of [log.logStart, since ?? 0n]) if (bound > start) start = bound;
  let end = last?.offset ?? 0n;
  if (log.visibleEnd < end) end = log.visibleEnd;
  if (request.end !== null && request.end < end) end = request.end;
  return { start, end: end < start ? start : end };
}

/** Starts and ends are asked for by name, and those of another topic are no common range. */
async function assertMirrored(
  source: { readonly cluster: Cluster; readonly record: LinkRecord },
  record: TopicRecord,
): Promise<void> {
  const doubt = (await unconfirmedSources(source, [record])).get(record.name);
  if (doubt === undefined) return;
  const code = doubt.kind === 'other' ? 'SOURCE_TOPIC_NOT_FOUND' : 'SOURCE_UNREACHABLE';
  throw new LinkError(code, `There is nothing to compare '${record.name}' with: ${doubt.cause}`);
}

async function verifyStep(
  place: VerifyPlace,
  request: VerifyRequest,
  assertStill: () => Promise<void>,
): Promise<VerifyStep> {
  const range = await commonRange(place, request);
  await assertStill();
  // The source's start may have moved over the place where the last step ended.
  const { from } = request;
  const next = from !== null && from > range.start ? from : range.start;
  return new Comparison(place, request, next).run(range);
}

function logOf(topic: MirrorTopic, partition: number): MirrorLog {
  const view = topic.partitions[partition];
  const place = `${topic.name}-${partition}`;
  if (view === undefined) throw new LinkError('MIRROR_NOT_FOUND', `There is no ${place}`);
  if (view.log !== null) return view.log;
  throw new LinkError('STORAGE_ERROR', `The mirror log of ${place} cannot be read`);
}

/** One step of the comparison of one partition. @throws LinkError */
export async function verifyMirror(
  topic: MirrorTopic,
  link: { readonly name: string; readonly record: LinkRecord; connected(): Promise<Cluster> },
  request: VerifyRequest,
): Promise<VerifyStep> {
  const { state, sourceTopic, sourceTopicId: topicId } = topic.record;
  if (!isMirror(state)) {
    const message = `Topic '${topic.name}' is ${state}: only a mirror is compared`;
    throw new LinkError('ILLEGAL_STATE', message);
  }
  const log = logOf(topic, request.partition);
  try {
    const cluster = await link.connected();
    const info = (await cluster.metadata([sourceTopic])).topics.get(sourceTopic);
    const found = info?.partitions.find(({ partition }) => partition === request.partition);
    if (found === undefined) {
      const message = `The source has no partition ${request.partition} of '${sourceTopic}'`;
      throw new LinkError('SOURCE_TOPIC_NOT_FOUND', message);
    }
    const { leaderId } = found;
    const place = { link: link.name, cluster, sourceTopic, topicId, leaderId, log };
    const source = { cluster, record: link.record };
    return await verifyStep(place, request, () => assertMirrored(source, topic.record));
  } catch (error) {
    if (!(error instanceof ClusterError)) throw error;
    throw new LinkError('SOURCE_UNREACHABLE', error.message, { cause: error });
  }
}

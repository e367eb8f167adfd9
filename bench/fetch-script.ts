// The Fetch requests of a reader of a whole topic, written down beforehand, so that a baseline that
// parses nothing can read the same bytes from the same broker as a mirror does. Owns the walk over
// the topic; measures nothing. Invariant: the requests name every partition that has not been read
// to its end, as a mirror's do, and their answers together hold each batch at least once.
import {
  createFetchPartition,
  createFetchRequest,
  createFetchTopic,
} from '../protocol/generated/fetch-request.ts';
import {
  ErrorCode,
  encodeRequestFrame,
  nextOffset,
  readBatchHeader,
  wholeBatches,
} from '../protocol/index.ts';
import { fetchApi } from '../src/cluster/apis.ts';
import type { KafkaCluster } from '../test/helpers/kafka-cluster.ts';
import { RawConnection } from '../test/helpers/raw-connection.ts';

/** What a link asks for unless it is told otherwise. */
const answerBytesMax = 8 << 20;
const partitionBytesMax = 4 << 20;
/** The last one that names topics. */
const version = 12;

export interface FetchScript {
  /** Frames, one behind the other. */
  readonly requests: Buffer;
  /** Of all answers, with their size prefixes. */
  readonly answersBytes: number;
}

/** Of a topic whose only broker is `cluster`'s first. */
export async function fetchScript(
  cluster: KafkaCluster,
  { topic, partitions }: { topic: string; partitions: number },
): Promise<FetchScript> {
  const connection = await RawConnection.open(Number(cluster.bootstrap.split(':').at(-1)));
  const frames: Buffer[] = [];
  let answersBytes = 0;
  let unread = Array.from({ length: partitions }, (_, partition) => ({ partition, offset: 0n }));
  try {
    while (unread.length > 0) {
      const request = createFetchRequest({
        maxBytes: answerBytesMax,
        sessionEpoch: -1,
        topics: [
          createFetchTopic({
            topic,
            partitions: unread.map(({ partition, offset }) =>
              createFetchPartition({
                partition,
                fetchOffset: offset,
                partitionMaxBytes: partitionBytesMax,
              }),
            ),
          }),
        ],
      });
      const { response, frame } = await connection.ask(fetchApi, version, request);
      const header = {
        apiKey: fetchApi.key,
        apiVersion: version,
        correlationId: frames.length,
        clientId: 'sink',
      };
      frames.push(
        ...encodeRequestFrame(header, (writer) => fetchApi.encode(writer, request, version)),
      );
      answersBytes += 4 + frame.length;
      const behind = new Map<number, bigint>();
      for (const { partitionIndex, errorCode, records, highWatermark } of response.responses[0]
        ?.partitions ?? []) {
        if (errorCode !== ErrorCode.NONE)
          throw new Error(`${topic}-${partitionIndex}: error ${errorCode}`);
        const { last } = wholeBatches(records ?? Buffer.alloc(0));
        const from = unread.find(({ partition }) => partition === partitionIndex)?.offset ?? 0n;
        const end =
          records === null || last < 0 ? from : nextOffset(readBatchHeader(records, last));
        behind.set(partitionIndex, end >= highWatermark ? -1n : end);
      }
      const rest = unread.map(({ partition, offset }) => ({
        partition,
        offset: behind.get(partition) ?? offset,
      }));
      // Whoever has just been read comes last: an answer is filled in the order of its request.
      rest.sort((left, right) => Number(left.offset - right.offset));
      unread = rest.filter(({ offset }) => offset >= 0n);
    }
  } finally {
    connection.close();
  }
  return { requests: Buffer.concat(frames), answersBytes };
}

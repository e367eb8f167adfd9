// What a source served to somebody, read out of a recording: the batches of each partition, as
// bytes.
//
// Owns: pairing recorded requests and answers, decoding Fetch answers, and joining them into one
// run of batches for each partition. Knows nothing of who fetched or what became of the bytes.
// Invariant: nothing that was served is left out of `servings`; `servedRun` keeps the first serving
// of each offset, which is what an appender has when its source was never truncated.

import {
  decodeFetchResponse,
  type FetchResponse,
} from '../../protocol/generated/fetch-response.ts';
import {
  ApiKey,
  type BatchHeader,
  decodeRequestHeader,
  decodeResponseHeader,
  FrameCollector,
  forEachBatch,
  nextOffset,
  Reader,
} from '../../protocol/index.ts';
import type { RecordedConnection } from './recording-relay.ts';

export interface ServedBatch {
  readonly header: BatchHeader;
  readonly bytes: Buffer;
}

/** How a topic is named in Fetch answers: by name up to version 12, by id from 13 on. */
export interface TopicNames {
  readonly name: string;
  readonly topicId: string;
}

function frames(chunks: readonly Buffer[]): Buffer[] {
  const collector = new FrameCollector();
  return chunks.flatMap((chunk) => collector.push(chunk));
}

/** All Fetch answers of one connection, in order. */
export function fetchAnswers(connection: RecordedConnection): FetchResponse[] {
  const requests = frames(connection.toServer);
  // The last requests may never have been answered; an answer without a request is a broken
  // recording.
  return frames(connection.toClient).flatMap((frame, index) => {
    const request = requests[index];
    if (request === undefined) throw new Error(`answer ${index} has no request`);
    const { apiKey, apiVersion, correlationId } = decodeRequestHeader(new Reader(request));
    const reader = new Reader(frame);
    const answered = decodeResponseHeader(reader, apiKey, apiVersion);
    if (answered.correlationId !== correlationId)
      throw new Error(`answer ${index} is out of order`);
    return apiKey === ApiKey.Fetch ? [decodeFetchResponse(reader, apiVersion)] : [];
  });
}

/** Every whole batch that was served for a partition, in the order of serving, with repetitions. */
export function servings(
  connections: readonly RecordedConnection[],
  topic: TopicNames,
  partition: number,
): ServedBatch[] {
  const served: ServedBatch[] = [];
  for (const answer of connections.flatMap(fetchAnswers)) {
    const topics = answer.responses.filter(
      (one) => one.topic === topic.name || one.topicId === topic.topicId,
    );
    for (const data of topics.flatMap((one) => one.partitions)) {
      const { records } = data;
      if (data.partitionIndex !== partition || records === null) continue;
      forEachBatch(records, (header, position) => {
        served.push({
          header,
          bytes: records.subarray(position, position + header.sizeInBytes),
        });
      });
    }
  }
  return served;
}

/** The run of batches that an appender of every answer ends up with. */
export function servedRun(
  connections: readonly RecordedConnection[],
  topic: TopicNames,
  partition: number,
): ServedBatch[] {
  const run: ServedBatch[] = [];
  let end = -1n;
  for (const batch of servings(connections, topic, partition)) {
    if (batch.header.baseOffset < end) continue;
    run.push(batch);
    end = nextOffset(batch.header);
  }
  return run;
}

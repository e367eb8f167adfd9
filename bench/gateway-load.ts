// What the benchmark of the gateway sends: one raw connection with prepared frames, so that making
// requests costs little next to passing them. Owns the requests and the counting of answers;
// refuses to know what lies between it and the broker. Invariant: an answer with an error, or none
// at all, ends the measuring.
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import {
  createFetchPartition,
  createFetchRequest,
  createFetchTopic,
  encodeFetchRequest,
} from '../protocol/generated/fetch-request.ts';
import {
  createMetadataRequest,
  encodeMetadataRequest,
} from '../protocol/generated/metadata-request.ts';
import {
  createPartitionProduceData,
  createProduceRequest,
  createTopicProduceData,
  encodeProduceRequest,
} from '../protocol/generated/produce-request.ts';
import { ApiKey, buildBatch, encodeRequestFrame, FrameScanner } from '../protocol/index.ts';

export interface Target {
  readonly port: number;
  readonly usesTls: boolean;
}

/** With topic names, so that a frame can be made before the topic is; has leaders in its answer. */
const produceVersion = 12;
const fetchVersion = 12;
const answerBytesMax = 1 << 30;
const correlationIdAt = 8;
/** Requests under way at a time, as Java's producer has them. */
const producesInFlight = 5;
const fetchesInFlight = 2;

interface LoadShape {
  readonly topic: string;
  readonly partitions: number;
  readonly recordsPerBatch: number;
  readonly recordBytes: number;
}

/** A request as bytes, and where an answer to it has its first error code. */
export interface Prepared {
  readonly bytes: Buffer;
  readonly errorCodeAt: number;
}

export function produceRequest(shape: LoadShape): Prepared {
  const { topic, partitions, recordsPerBatch, recordBytes } = shape;
  const records = buildBatch({
    baseOffset: 0n,
    records: Array.from({ length: recordsPerBatch }, () => ({
      key: null,
      value: Buffer.alloc(recordBytes, 'x'),
      timestamp: BigInt(Date.now()),
    })),
  });
  const partitionData = Array.from({ length: partitions }, (_, index) =>
    createPartitionProduceData({ index, records }),
  );
  const request = createProduceRequest({
    acks: 1,
    timeoutMs: 30_000,
    topicData: [createTopicProduceData({ name: topic, partitionData })],
  });
  const bytes = frame(ApiKey.Produce, produceVersion, (writer) =>
    encodeProduceRequest(writer, request, produceVersion),
  );
  // Header 5, topics 1, name and its length, partitions 1, index 4.
  return { bytes, errorCodeAt: 5 + 1 + 1 + topic.length + 1 + 4 };
}

export function fetchRequest(topic: string, partitions: number): Prepared {
  const request = createFetchRequest({
    maxWaitMs: 500,
    minBytes: 1,
    maxBytes: 50 * 1024 * 1024,
    sessionEpoch: -1,
    topics: [
      createFetchTopic({
        topic,
        partitions: Array.from({ length: partitions }, (_, partition) =>
          createFetchPartition({ partition, fetchOffset: 0n, partitionMaxBytes: 1024 * 1024 }),
        ),
      }),
    ],
  });
  const bytes = frame(ApiKey.Fetch, fetchVersion, (writer) =>
    encodeFetchRequest(writer, request, fetchVersion),
  );
  // Header 5, throttle time 4.
  return { bytes, errorCodeAt: 5 + 4 };
}

function frame(
  apiKey: number,
  apiVersion: number,
  encode: Parameters<typeof encodeRequestFrame>[1],
): Buffer {
  const header = { apiKey, apiVersion, correlationId: 0, clientId: 'bench' };
  return Buffer.concat(encodeRequestFrame(header, encode));
}

export class LoadConnection {
  readonly #socket: Socket;
  readonly #scanner = new FrameScanner({ headBytes: 64, frameBytesMax: answerBytesMax });
  #nextCorrelationId = 1;
  #answerBytes = 0;
  #check: (head: Buffer) => void = () => undefined;
  #onAnswer: (bytes: number) => void = () => undefined;
  #onFault: (error: Error) => void = () => undefined;

  private constructor(socket: Socket) {
    this.#socket = socket;
    const sink = {
      onHead: (head: Buffer, bytes: number) => {
        this.#answerBytes = bytes;
        this.#check(head);
      },
      onBody: () => undefined,
      onEnd: () => this.#onAnswer(this.#answerBytes),
    };
    socket.on('data', (chunk: Buffer) => this.#scanner.push(chunk, sink));
    socket.on('error', (error) => this.#onFault(error));
    socket.on('close', () => this.#onFault(new Error('the connection was closed')));
  }

  static open({ port, usesTls }: Target): Promise<LoadConnection> {
    return new Promise((resolve, reject) => {
      const place = { host: '127.0.0.1', port, noDelay: true };
      const socket = usesTls ? connectTls({ ...place, rejectUnauthorized: false }) : connect(place);
      socket.once('error', reject);
      socket.once(usesTls ? 'secureConnect' : 'connect', () => {
        socket.off('error', reject);
        resolve(new LoadConnection(socket));
      });
    });
  }

  /** One small exchange, so that everything behind the connection is there. */
  async touch(): Promise<void> {
    const request = createMetadataRequest({ topics: [] });
    const touching = frame(ApiKey.Metadata, 12, (writer) =>
      encodeMetadataRequest(writer, request, 12),
    );
    await this.#run({ bytes: touching, inFlight: 1, isEnough: () => true });
  }

  /** Sends so many requests and more until the first of them are answered. */
  async produce(request: Prepared, bytes: number): Promise<number> {
    const count = Math.ceil(bytes / request.bytes.length);
    let answered = 0;
    await this.#run({
      ...request,
      inFlight: producesInFlight,
      isEnough: (answers) => {
        answered = answers;
        return answers >= count;
      },
    });
    return (answered + producesInFlight - 1) * request.bytes.length;
  }

  /** Reads at least so many bytes; resolves with what was read. */
  async consume(request: Prepared, bytes: number): Promise<number> {
    let read = 0;
    await this.#run({
      ...request,
      inFlight: fetchesInFlight,
      isEnough: (_answers, size) => {
        read += size;
        return read >= bytes;
      },
    });
    return read;
  }

  /** Milliseconds of each of so many requests, one after the other. */
  async latencies(request: Prepared, count: number): Promise<readonly number[]> {
    const all: number[] = [];
    let begunMs = performance.now();
    await this.#run({
      ...request,
      inFlight: 1,
      isEnough: () => {
        const nowMs = performance.now();
        all.push(nowMs - begunMs);
        begunMs = nowMs;
        return all.length >= count;
      },
    });
    return all;
  }

  close(): void {
    this.#onFault = () => undefined;
    this.#socket.destroy();
  }

  /** Sends again on each answer until there are enough, then waits for those under way. */
  #run(load: {
    bytes: Buffer;
    inFlight: number;
    isEnough(answers: number, bytes: number): boolean;
    /** Where each answer has its first error code. */
    errorCodeAt?: number;
  }): Promise<void> {
    const { errorCodeAt } = load;
    return new Promise((resolve, reject) => {
      this.#check = (head) => {
        const code = errorCodeAt === undefined ? 0 : head.readInt16BE(errorCodeAt);
        if (code !== 0) reject(new Error(`the broker answered with error ${code}`));
      };
      let answers = 0;
      let underWay = load.inFlight;
      let isOver = false;
      this.#onFault = reject;
      this.#onAnswer = (bytes) => {
        answers++;
        isOver ||= load.isEnough(answers, bytes);
        if (!isOver) this.#send(load.bytes);
        else if (--underWay === 0) resolve();
      };
      for (let index = 0; index < load.inFlight; index++) this.#send(load.bytes);
    });
  }

  #send(request: Buffer): void {
    const copy = Buffer.from(request.subarray(0, 64));
    copy.writeInt32BE(this.#nextCorrelationId++, correlationIdAt);
    this.#socket.cork();
    this.#socket.write(copy);
    this.#socket.write(request.subarray(64));
    this.#socket.uncork();
  }
}

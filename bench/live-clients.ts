// Clients that live through a failover, by the hundred, without the weight of real ones: each
// reads some topics at the link node, is told by its parked Fetch that they have moved, asks for
// metadata, writes one record at the new leader and reads it there, as an application would.
//
// Owns: the steps of one client, and when its first record after the switch came. Knows nothing of
// commands. Invariant: every answer is looked at; one that is neither data nor "moved" is an error.
import {
  createFetchPartition,
  createFetchRequest,
  createFetchTopic,
} from '../protocol/generated/fetch-request.ts';
import {
  createMetadataRequest,
  createMetadataRequestTopic,
} from '../protocol/generated/metadata-request.ts';
import { fetchApi, metadataApi, produceApi } from '../src/cluster/apis.ts';
import { RawConnection } from '../test/helpers/raw-connection.ts';
import { produceRequest } from '../test/helpers/raw-writes.ts';

const versions = { fetch: 12, metadata: 12, produce: 9 } as const;
const notLeader = 6;
const waitMaxMs = 30_000;
const retryMs = 20;

interface Leaders {
  /** Topic -> node id. */
  readonly byTopic: ReadonlyMap<string, number>;
  /** Node id -> port. */
  readonly ports: ReadonlyMap<number, number>;
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

export class LiveClient {
  readonly #bootstrapPort: number;
  readonly #topics: readonly string[];
  readonly #linkNodeId: number;
  readonly #connections = new Map<number, RawConnection>();
  /** Of metadata answers since the last call of `watch`. */
  metadataBytes = 0;
  /** When it knew the new leader of every topic of its own, on the clock of performance.now(). */
  leadersKnownMs = 0;
  firstRecordMs = 0;

  constructor(options: { bootstrapPort: number; topics: readonly string[]; linkNodeId: number }) {
    this.#bootstrapPort = options.bootstrapPort;
    this.#topics = options.topics;
    this.#linkNodeId = options.linkNodeId;
  }

  async #connection(port: number): Promise<RawConnection> {
    const open = this.#connections.get(port) ?? (await RawConnection.open(port));
    this.#connections.set(port, open);
    return open;
  }

  async #leaders(): Promise<Leaders> {
    const connection = await this.#connection(this.#bootstrapPort);
    const topics = this.#topics.map((name) => createMetadataRequestTopic({ name }));
    const request = createMetadataRequest({ topics, allowAutoTopicCreation: false });
    const answer = await connection.ask(metadataApi, versions.metadata, request);
    this.metadataBytes += answer.frame.length;
    return {
      byTopic: new Map(
        answer.response.topics.map(({ name, partitions }) => [
          name ?? '',
          partitions[0]?.leaderId ?? -1,
        ]),
      ),
      ports: new Map(answer.response.brokers.map(({ nodeId, port }) => [nodeId, port])),
    };
  }

  /** One Fetch of these topics; resolves with what each was answered. */
  async #fetch(
    port: number,
    topics: readonly string[],
    offset: bigint,
  ): Promise<{ topic: string; errorCode: number; hasRecords: boolean }[]> {
    const partitions = () => [
      createFetchPartition({ partition: 0, fetchOffset: offset, partitionMaxBytes: 1 << 16 }),
    ];
    const request = createFetchRequest({
      ...{ maxWaitMs: waitMaxMs, minBytes: 1, maxBytes: 1 << 20, sessionEpoch: -1 },
      topics: topics.map((topic) => createFetchTopic({ topic, partitions: partitions() })),
    });
    const connection = await this.#connection(port);
    const { response } = await connection.ask(fetchApi, versions.fetch, request);
    return response.responses.flatMap(({ topic, partitions: answers }) =>
      answers.map(({ errorCode, records }) => {
        return { topic, errorCode, hasRecords: (records?.length ?? 0) > 0 };
      }),
    );
  }

  /** Connects and resolves when it is known to read at the link node. */
  async start(): Promise<void> {
    const { byTopic, ports } = await this.#leaders();
    for (const [topic, leader] of byTopic) {
      if (leader !== this.#linkNodeId) throw new Error(`${topic} is led by ${leader}`);
    }
    await this.#connection(ports.get(this.#linkNodeId) ?? 0);
  }

  /** Reads at the end of every topic until it was told of the switch, and on at the new leader. */
  async watch(): Promise<void> {
    this.metadataBytes = 0;
    const { ports } = await this.#leaders();
    for (;;) {
      const answers = await this.#fetch(ports.get(this.#linkNodeId) ?? 0, this.#topics, 1n);
      const strange = answers.find(({ errorCode }) => ![0, notLeader].includes(errorCode));
      if (strange) throw new Error(`Fetch of ${strange.topic}: error ${strange.errorCode}`);
      if (answers.some(({ errorCode }) => errorCode === notLeader)) break;
    }
    const [first = ''] = this.#topics;
    let leaders = await this.#leaders();
    while (leaders.byTopic.get(first) === this.#linkNodeId) {
      await pause(retryMs);
      leaders = await this.#leaders();
    }
    const port = leaders.ports.get(leaders.byTopic.get(first) ?? -1) ?? 0;
    await this.#write(port, first);
    for (let hasRecords = false; !hasRecords; ) {
      const [answer] = await this.#fetch(port, [first], 1n);
      if (answer?.errorCode) throw new Error(`Fetch of ${first}: error ${answer.errorCode}`);
      hasRecords = answer?.hasRecords ?? false;
    }
    this.firstRecordMs = performance.now();
    while ([...leaders.byTopic.values()].includes(this.#linkNodeId)) {
      await pause(retryMs);
      leaders = await this.#leaders();
    }
    this.leadersKnownMs = performance.now();
  }

  async #write(port: number, topic: string): Promise<void> {
    for (;;) {
      const connection = await this.#connection(port);
      const request = produceRequest(topic, 0, ['after the switch']);
      const { response } = await connection.ask(produceApi, versions.produce, request);
      const errorCode = response.responses[0]?.partitionResponses[0]?.errorCode;
      if (errorCode === 0) return;
      if (errorCode !== notLeader) throw new Error(`Produce to ${topic}: error ${errorCode}`);
      await pause(retryMs);
    }
  }

  close(): void {
    for (const connection of this.#connections.values()) connection.close();
  }
}

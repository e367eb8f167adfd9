// What the tests of reading handlers share: topics in a directory, a session whose upstream is a
// shell broker in memory, and an exchange that plays the session: real request bytes in, decoded
// response out.
import assert from 'node:assert/strict';
import type { MessageCodec } from '../../../protocol/codec.ts';
import { metadataRequestCodec } from '../../../protocol/generated/metadata-request.ts';
import {
  createMetadataResponse,
  createMetadataResponseBroker,
  createMetadataResponsePartition,
  createMetadataResponseTopic,
  metadataResponseCodec,
} from '../../../protocol/generated/metadata-response.ts';
import {
  decodeRequestHeader,
  decodeResponseHeader,
  encodeRequestFrame,
  encodeResponseFrame,
  Reader,
  Writer,
} from '../../../protocol/index.ts';
import { type Api, ClusterError, type VersionRange } from '../../../src/cluster/cluster.ts';
import type {
  Disposition,
  Handler,
  ListenerRole,
  SessionView,
} from '../../../src/gateway/handler.ts';
import { HeldBytes } from '../../../src/gateway/held-bytes.ts';
import { ReadMemory } from '../../../src/gateway/read-memory.ts';
import type {
  PartitionView,
  TopicDirectory,
  TopicMode,
  TopicView,
} from '../../../src/gateway/topic-directory.ts';
import { VerdictBudget } from '../../../src/gateway/verdict-budget.ts';
import { Events } from '../../../src/observe/events.ts';
import {
  nativeEpoch,
  nativeOffset,
  virtualEpoch,
  virtualOffset,
} from '../../../src/timeline/offsets.ts';
import { newMirror, splice, type Timeline } from '../../../src/timeline/timeline.ts';
import type { MirrorLog } from '../../../storage/mirror-log.ts';

export const linkNodeId = 1_000_000;
export const ordersId = 'BAAAAAAAAAAAAAAAAAAAAA';
export const otherId = 'CAAAAAAAAAAAAAAAAAAAAA';
export const READ = 1 << 3;
export const DESCRIBE = 1 << 8;
/** With write, delete, alter, and alter configs. */
export const ALL = READ | DESCRIBE | (1 << 4) | (1 << 6) | (1 << 7) | (1 << 11);

/** S = 100, n = 8, native epoch 2 = V0 = 6. */
export function promotedAt100(start = 0n): Timeline {
  return splice(newMirror(virtualOffset(start)), {
    virtualEnd: virtualOffset(100n),
    nativeEnd: nativeOffset(8n),
    nativeEpoch: nativeEpoch(2),
    lastVirtualEpoch: virtualEpoch(5),
  });
}

export interface TopicFixture {
  name: string;
  topicId?: string | null;
  mode: TopicMode;
  log: MirrorLog | null;
  timeline?: Timeline;
  advertisedEpoch?: number;
  sourceClusters?: readonly string[];
}

export const mirror: TopicFixture = { name: 'orders', mode: 'mirror', log: null };
export const promoted: TopicFixture = {
  name: 'orders',
  mode: 'promoted',
  log: null,
  timeline: promotedAt100(),
};

export class FakeDirectory implements TopicDirectory {
  readonly topics = new Map<string, TopicFixture>();
  readonly listeners = new Set<(topic: string) => void>();
  isSettled = true;

  put(topic: TopicFixture): void {
    this.topics.set(topic.name, topic);
    for (const listener of [...this.listeners]) listener(topic.name);
  }
  byName(name: string): TopicView | undefined {
    const topic = this.topics.get(name);
    return topic === undefined ? undefined : viewOf(topic);
  }
  byId(topicId: string): TopicView | undefined {
    const topic = [...this.topics.values()].find((one) => idOf(one) === topicId);
    return topic === undefined ? undefined : viewOf(topic);
  }
  get hasMirrors(): boolean {
    return [...this.topics.values()].some(({ mode }) => mode === 'mirror' || mode === 'switching');
  }
  get hasPromoted(): boolean {
    return [...this.topics.values()].some(({ mode }) => mode === 'promoted');
  }
  onChangeOf(topics: Iterable<string>, listener: () => void): () => void {
    const names = new Set(topics);
    const own = (topic: string): void => {
      if (names.has(topic)) listener();
    };
    this.listeners.add(own);
    return () => this.listeners.delete(own);
  }
}

function idOf({ topicId }: TopicFixture): string | null {
  return topicId === undefined ? ordersId : topicId;
}

function viewOf(topic: TopicFixture): TopicView {
  const partition: PartitionView = {
    partition: 0,
    timeline: topic.timeline ?? newMirror(virtualOffset(0n)),
    log: topic.log,
    advertisedEpoch: virtualEpoch(topic.advertisedEpoch ?? 5),
  };
  return {
    name: topic.name,
    topicId: idOf(topic),
    link: 'dr',
    mode: topic.mode,
    partition: (index) => (index === 0 ? partition : undefined),
    partitionCount: 1,
    ...(topic.sourceClusters === undefined ? {} : { sourceClusters: topic.sourceClusters }),
  };
}

/** Answers one API as a broker: the decoded request in, the response out. */
type Answer<Request, Response> = (request: Request, version: number) => Response;

interface Served {
  readonly request: MessageCodec;
  readonly response: MessageCodec;
  readonly answer: Answer<object, object>;
}

/** The destination's broker behind the connection. */
export class FakeBroker {
  readonly #served = new Map<number, Served>();
  /** All that it was asked, decoded. */
  readonly seen: { readonly apiKey: number; readonly version: number; readonly message: object }[] =
    [];
  /** Authorised operations by topic; absent: the topic does not exist. */
  readonly operations = new Map<string, number>([['orders', ALL]]);
  /** For how long it throttles whoever asks, by API key; absent: as it is served. */
  readonly throttles = new Map<number, number>();
  isGone = false;

  constructor() {
    this.serve(metadataRequestCodec, metadataResponseCodec, (request) =>
      createMetadataResponse({
        brokers: [1, 2].map((nodeId) =>
          createMetadataResponseBroker({ nodeId, host: `real-${nodeId}`, port: 9092 }),
        ),
        topics: (request.topics ?? []).map(({ name }) => {
          const operations = this.operations.get(name ?? '');
          return createMetadataResponseTopic({
            name,
            topicId: ordersId,
            errorCode: operations === undefined ? 3 : operations === 0 ? 29 : 0,
            topicAuthorizedOperations: operations ?? -2147483648,
            partitions: [
              createMetadataResponsePartition({ partitionIndex: 0, leaderId: 2, leaderEpoch: 3 }),
            ],
          });
        }),
      }),
    );
  }

  serve<Request extends object, Response extends object>(
    request: MessageCodec<Request>,
    response: MessageCodec<Response>,
    answer: Answer<Request, Response>,
  ): void {
    const key = request.apiKey;
    assert.ok(key !== undefined);
    this.#served.set(key, { request, response, answer } as unknown as Served);
  }

  /** A request frame without size in, the response frame without size out. */
  exchange(frame: Buffer): Buffer {
    const reader = new Reader(frame);
    const { apiKey, apiVersion, correlationId } = decodeRequestHeader(reader);
    const served = this.#served.get(apiKey);
    assert.ok(served !== undefined, `the broker got an unexpected request of API ${apiKey}`);
    const message = served.request.decode(reader, apiVersion);
    assert.equal(reader.remaining, 0);
    this.seen.push({ apiKey, version: apiVersion, message });
    const throttleTimeMs = this.throttles.get(apiKey);
    const response = {
      ...served.answer(message, apiVersion),
      ...(throttleTimeMs === undefined ? {} : { throttleTimeMs }),
    };
    const chunks = encodeResponseFrame({ apiKey, apiVersion, correlationId }, (writer) =>
      served.response.encode(writer, response, apiVersion),
    );
    return Buffer.concat(chunks).subarray(4);
  }
}

export class FakeSession implements SessionView {
  readonly role: ListenerRole;
  readonly directory = new FakeDirectory();
  readonly broker = new FakeBroker();
  readonly heldGroups = new Set<string>();
  /** Brokers for which no port is left. */
  readonly unserved = new Set<number>();
  readonly groupGate = {
    isAnyHeld: true,
    isHeld: (group: string) => this.heldGroups.has(group),
  };
  readonly controller = new AbortController();
  readonly scratch = new Map<symbol, unknown>();
  readonly upstreamVersions = new Map<number, VersionRange>([[1, { min: 4, max: 18 }]]);
  readonly services: SessionView['services'];
  principal: string | null = null;
  nowMs = 0;

  constructor(role: ListenerRole) {
    this.role = role;
    this.services = {
      directory: this.directory,
      groupGate: this.groupGate,
      events: new Events(),
      held: new HeldBytes(),
      readMemory: new ReadMemory(),
      verdicts: new VerdictBudget(),
      linkNodeId,
      clusterId: 'destination',
      ownTopicPrefix: '__causeway',
      endpoint: (nodeId) =>
        this.unserved.has(nodeId)
          ? undefined
          : { nodeId, host: 'proxy', port: 10_000 + (nodeId % 1000), rack: null },
      ensureEndpoints: () => Promise.resolve(),
      // Real time goes on, so that deadlines pass; a test may jump ahead.
      now: () => performance.now() + this.nowMs,
    };
  }

  get closed(): AbortSignal {
    return this.controller.signal;
  }

  async callUpstream<Request, Response>(
    api: Api<Request, Response>,
    request: Request | ((version: number) => Request),
    options: { versionMax?: number } = {},
  ): Promise<Response> {
    if (this.broker.isGone) {
      throw new ClusterError('UNREACHABLE', 'the broker is gone', { maybeSent: false });
    }
    const apiVersion = Math.min(api.versionMax, options.versionMax ?? api.versionMax);
    const body =
      typeof request === 'function'
        ? (request as (version: number) => Request)(apiVersion)
        : request;
    const header = { apiKey: api.key, apiVersion, correlationId: 7, clientId: 'test' };
    const frame = encodeRequestFrame(header, (writer) => api.encode(writer, body, apiVersion));
    const response = this.broker.exchange(Buffer.concat(frame).subarray(4));
    const reader = new Reader(response);
    decodeResponseHeader(reader, api.key, apiVersion);
    return api.decode(reader, apiVersion);
  }
}

export interface Exchanged<Response> {
  readonly disposition: Disposition['kind'];
  readonly response: Response;
  /** The frame as the client gets it, without size. */
  readonly frame: Buffer;
}

/** Plays the session: one request of a client, to its end. */
export async function exchange<Request extends object, Response extends object>(
  session: FakeSession,
  handler: Handler,
  codecs: { readonly request: MessageCodec<Request>; readonly response: MessageCodec<Response> },
  version: number,
  request: Request,
): Promise<Exchanged<Response>> {
  const writer = new Writer();
  codecs.request.encode(writer, request, version);
  const header = {
    apiKey: codecs.request.apiKey ?? -1,
    apiVersion: version,
    correlationId: 4711,
    clientId: 'client',
  };
  const whole = Buffer.concat(
    encodeRequestFrame(header, (out) => out.writeRaw(writer.toBuffer())),
  ).subarray(4);
  const reader = new Reader(whole);
  decodeRequestHeader(reader);
  const disposition = handler({ session, header, frame: whole, bodyOffset: reader.offset });
  const frame = await play(session, whole, disposition);
  assert.equal(frame.readInt32BE(0), frame.length - 4, 'the size prefix is right');
  const answer = new Reader(frame, 4);
  const { correlationId } = decodeResponseHeader(answer, header.apiKey, version);
  assert.equal(correlationId, 4711);
  const response = codecs.response.decode(answer, version);
  assert.equal(answer.remaining, 0);
  return { disposition: disposition.kind, response, frame: frame.subarray(4) };
}

async function play(
  session: FakeSession,
  frame: Buffer,
  disposition: Disposition,
): Promise<Buffer> {
  if (disposition.kind === 'answer') {
    const chunks = await disposition.response;
    assert.ok(chunks !== null, 'an answer was expected');
    return Buffer.concat(chunks);
  }
  assert.equal(disposition.kind, 'forward');
  if (disposition.kind !== 'forward') throw new Error('unreachable');
  const request = disposition.request;
  const sent = request === undefined ? frame : Buffer.concat(request).subarray(4);
  const response = session.broker.exchange(sent);
  if (disposition.rewrite !== undefined) return Buffer.concat(await disposition.rewrite(response));
  const prefix = Buffer.alloc(4);
  prefix.writeInt32BE(response.length, 0);
  return Buffer.concat([prefix, response]);
}

/** Base offset and leader epoch of each batch in an answer. */
export function batchesOf(records: Buffer | null): { base: bigint; epoch: number }[] {
  const found: { base: bigint; epoch: number }[] = [];
  let position = 0;
  while (records !== null && position < records.length) {
    found.push({
      base: records.readBigInt64BE(position),
      epoch: records.readInt32BE(position + 12),
    });
    position += 12 + records.readInt32BE(position + 8);
  }
  return found;
}

/** At a listener of that kind, over these topics. */
export function sessionWith(topics: readonly TopicFixture[], role: ListenerRole['kind']) {
  const session = new FakeSession(
    role === 'broker' ? { kind: 'broker', nodeId: 1 } : { kind: role },
  );
  for (const topic of topics) session.directory.put(topic);
  return session;
}

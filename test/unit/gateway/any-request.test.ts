// Every API in every version that clients are told of: random valid requests, pipelined, some
// answered here and some by a scripted broker with random valid answers, come back in order and
// well-formed (R13).
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { MessageCodec } from '../../../protocol/codec.ts';
import {
  ApiKey,
  apis,
  buildBatch,
  decodeRequestHeader,
  decodeResponseHeader,
  encodeRequestFrame,
  encodeResponseFrame,
  loadMessage,
  Reader,
} from '../../../protocol/index.ts';
import type { ListenerRole } from '../../../src/gateway/handler.ts';
import { createHandlers, createInspectors } from '../../../src/gateway/handler-table.ts';
import { OwnTopics } from '../../../src/gateway/own-topics.ts';
import { advertisedRange, Router } from '../../../src/gateway/router.ts';
import { SeededRandom } from '../../helpers/seeded-random.ts';
import { until } from '../../helpers/wait.ts';
import {
  loadModules,
  randomMessage,
  seededRandom,
  type Values,
} from '../../oracle/random-messages.ts';
import { FakeDirectory, ordersId, promotedAt100 } from './read-fixtures.ts';
import { sessionBetween } from './session-fixtures.ts';
import type { SeenRequest } from './wire-fixtures.ts';

interface Served {
  readonly key: number;
  readonly name: string;
  readonly version: number;
  readonly request: MessageCodec;
  readonly response: MessageCodec;
}

const served: Served[] = [];

before(async () => {
  await loadModules();
  for (const { key, versionMin, versionMax } of apis) {
    const range = advertisedRange(key, { min: versionMin, max: versionMax });
    if (range === null) continue;
    const request = await loadMessage(key, 'request');
    const response = await loadMessage(key, 'response');
    const first = Math.max(range.min, request.versionMin);
    for (let version = first; version <= range.max; version++) {
      served.push({ key, name: request.name, version, request, response });
    }
  }
});

const batch = buildBatch({
  baseOffset: 0n,
  records: [{ key: null, value: Buffer.from('value'), timestamp: 0n }],
});

/**
 * Without what a peer that is well would not say: waits without end, records that are none, offsets
 * and epochs at the end of their range, where shifting has no room.
 */
function tamed(message: unknown, random: SeededRandom): void {
  if (message === null || typeof message !== 'object' || Buffer.isBuffer(message)) return;
  const fields = message as Values;
  for (const [name, value] of Object.entries(fields)) {
    if (name === 'unknownTags') continue;
    if (name === 'records' && Buffer.isBuffer(value)) {
      fields[name] = random.pick([Buffer.alloc(0), batch]);
    } else if (name === 'maxWaitMs') {
      fields[name] = random.below(5);
    } else if (typeof value === 'bigint') {
      fields[name] = BigInt.asIntN(62, value);
    } else if (/epoch$/i.test(name) && typeof value === 'number' && value > 0x3fff) {
      fields[name] = 7;
    } else {
      tamed(value, random);
    }
  }
}

/** Ordinary topics by most names, a mirror and a promoted topic by two of the random ones. */
function topics(): FakeDirectory {
  const directory = new FakeDirectory();
  directory.put({ name: 'topic-1', mode: 'mirror', topicId: ordersId, log: null });
  const timeline = promotedAt100();
  const topicId = 'CAAAAAAAAAAAAAAAAAAAAA';
  directory.put({ name: 'a', mode: 'promoted', topicId, log: null, timeline });
  return directory;
}

interface Sent {
  readonly api: Served;
  readonly correlationId: number;
}

class Conversation {
  readonly owed: Sent[] = [];
  readonly #random: SeededRandom;
  readonly #message: () => number;
  #correlationId = 1;

  readonly #maySayNothing: boolean;

  constructor(random: SeededRandom, role: ListenerRole) {
    this.#maySayNothing = role.kind !== 'link';
    this.#random = random;
    this.#message = seededRandom(random.seed);
  }

  request(api: Served): Buffer {
    const correlationId = this.#correlationId++;
    const body = randomMessage(this.#message, api.request, api.version) as Values;
    tamed(body, this.#random);
    let hasAnswer = true;
    if (api.key === ApiKey.Produce) {
      // Without an answer only where nothing is refused: that would end the connection.
      const names = (body.topicData as Values[]).map(({ name }) => name);
      const isQuiet = this.#maySayNothing && names.every((name) => name === 'x'.repeat(200));
      hasAnswer = !isQuiet;
      body.acks = isQuiet ? 0 : this.#random.pick([1, -1]);
    }
    if (hasAnswer) this.owed.push({ api, correlationId });
    const { key, version } = api;
    const header = { apiKey: key, apiVersion: version, correlationId, clientId: 'any' };
    return Buffer.concat(
      encodeRequestFrame(header, (writer) => api.request.encode(writer, body, version)),
    );
  }

  /** Plays the broker: the request has to be whole and well-formed, the answer is any. */
  reply({ frame, socket }: SeenRequest): void {
    const reader = new Reader(frame);
    const header = decodeRequestHeader(reader);
    const { apiKey, apiVersion } = header;
    const api = served.find(({ key }) => key === apiKey) ?? assert.fail();
    const request = api.request.decode(reader, apiVersion) as Values;
    assert.equal(reader.remaining, 0);
    if (apiKey === ApiKey.Produce && request.acks === 0) return;
    const codec = api.response;
    const body = randomMessage(this.#message, codec, apiVersion);
    tamed(body, this.#random);
    const chunks = encodeResponseFrame(header, (writer) => codec.encode(writer, body, apiVersion));
    socket.write(Buffer.concat(chunks));
  }
}

const roles: readonly ListenerRole[] = [
  { kind: 'bootstrap' },
  { kind: 'broker', nodeId: 1 },
  { kind: 'link' },
];

for (const role of roles) {
  test(`R13: any request of any version is answered in its turn, at a ${role.kind}`, async () => {
    const random = new SeededRandom();
    const ownTopics = new OwnTopics('__causeway', '__causeway_');
    const router = new Router(createHandlers(ownTopics), createInspectors(ownTopics));
    const fixture = await sessionBetween({ role, router, directory: topics() });
    const { broker, client, summaries } = fixture;
    try {
      const conversation = new Conversation(random, role);
      const faults: unknown[] = [];
      broker.script = (seen) => {
        try {
          conversation.reply(seen);
        } catch (error) {
          faults.push(error);
        }
      };
      const order = [...served, ...served].sort(() => random.next() - 0.5);
      const stream = Buffer.concat(order.map((api) => conversation.request(api)));
      for (let at = 0; at < stream.length; ) {
        const end = at + 1 + random.below(20_000);
        client.socket.write(stream.subarray(at, end));
        at = end;
        if (random.next() < 0.3) await delay(0);
      }
      const isOver = (): boolean => summaries.length > 0 || faults.length > 0;
      const isAnswered = (): boolean => client.frames.length >= conversation.owed.length;
      await until('all answers', () => isAnswered() || isOver());
      const next = conversation.owed[client.frames.length]?.api;
      const where = `${next?.name} v${next?.version}, ${random.describe()}`;
      assert.deepEqual(faults, [], where);
      assert.equal(summaries[0]?.reason, undefined, where);
      for (const [index, { api, correlationId }] of conversation.owed.entries()) {
        const where = `${api.name} v${api.version}, ${random.describe()}`;
        const reader = new Reader(client.frames[index] ?? Buffer.alloc(0));
        const header = decodeResponseHeader(reader, api.key, api.version);
        assert.equal(header.correlationId, correlationId, where);
        assert.doesNotThrow(() => api.response.decode(reader, api.version), where);
        assert.equal(reader.remaining, 0, where);
      }
    } finally {
      fixture.close();
    }
  });
}

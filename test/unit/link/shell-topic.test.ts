// What the destination says to the creation of a shell, and what we make of it: refused for
// certain, or in doubt. A shell that it does not show, or does not show wholly, is neither gone nor
// empty.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createCreatableTopicResult,
  createCreateTopicsResponse,
} from '../../../protocol/generated/create-topics-response.ts';
import {
  createFetchableTopicResponse,
  createFetchResponse,
  createPartitionData,
} from '../../../protocol/generated/fetch-response.ts';
import { ErrorCode, zeroUuid } from '../../../protocol/index.ts';
import type { Api } from '../../../src/cluster/cluster.ts';
import { createShell, deleteShell, measureShells } from '../../../src/link/shell-topic.ts';
import { batch, FakeCluster, shellId, topicInfo } from './fakes.ts';

class Answering extends FakeCluster {
  readonly #errorCode: number;

  constructor(errorCode: number) {
    super();
    this.#errorCode = errorCode;
  }

  override async send<Request, Response>(_: unknown, api: Api<Request, Response>) {
    assert.equal(api.name, 'CreateTopics');
    const topic = createCreatableTopicResult({
      name: 'orders',
      topicId: shellId,
      errorCode: this.#errorCode,
    });
    return createCreateTopicsResponse({ topics: [topic] }) as Response;
  }
}

const create = (errorCode: number, validateOnly = false): Promise<string> =>
  createShell(new Answering(errorCode), {
    name: 'orders',
    partitionsCount: 1,
    replicationFactor: -1,
    configs: {},
    validateOnly,
  });

test('a shell whose creation timed out at the destination is in doubt, not refused', async () => {
  await assert.rejects(create(7), { name: 'ClusterError', code: 'TIMEOUT', maybeSent: true });
  // Nothing was to be made.
  await assert.rejects(create(7, true), { name: 'ClusterError', maybeSent: false });
});

test('what the destination refuses is refused', async () => {
  assert.equal(await create(0), shellId);
  await assert.rejects(create(36), { name: 'LinkError', code: 'TOPIC_EXISTS' });
  await assert.rejects(create(38), { name: 'LinkError', code: 'DESTINATION_REFUSED' });
  await assert.rejects(create(29), /kafka-acls --add --topic 'orders' --operation Create$/);
});

test('a shell that the destination does not let us see is not taken for gone', async () => {
  const destination = new FakeCluster();
  const hidden = {
    ...topicInfo('t', zeroUuid, []),
    errorCode: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
  };
  destination.topics.set('t', hidden);
  await assert.rejects(deleteShell(destination, { name: 't', topicId: shellId }), {
    name: 'LinkError',
    code: 'DESTINATION_REFUSED',
    message: /TOPIC_AUTHORIZATION_FAILED/,
  });
  destination.topics.delete('t');
  await deleteShell(destination, { name: 't', topicId: shellId });
});

/** A shell of three offsets whose leader gives readers the first one, up to its high watermark. */
class Behind extends FakeCluster {
  readonly #highWatermark: bigint;

  constructor(highWatermark: bigint) {
    super();
    this.#highWatermark = highWatermark;
    this.topics.set('t', topicInfo('t', shellId, [0]));
    this.ends.set('t/0', 3n);
    // The part below was looked at before and held markers only.
    this.starts.set('t/0', 1n);
  }

  override async send<Request, Response>(
    target: unknown,
    api: Api<Request, Response>,
    request: unknown,
  ): Promise<Response> {
    if (api.name !== 'Fetch') return super.send(target, api, request);
    const records = this.#highWatermark > 3n ? batch({ base: 1n, count: 2 }) : null;
    const partitions = [createPartitionData({ records, highWatermark: this.#highWatermark })];
    const responses = [createFetchableTopicResponse({ topic: 't', partitions })];
    return createFetchResponse({ responses }) as Response;
  }
}

test('R3: a shell that cannot be read to its end is not taken for one without records', async () => {
  const shell = { name: 't', topicId: shellId, partitionsCount: 1 };
  const measure = async (highWatermark: bigint) =>
    (await measureShells(new Behind(highWatermark), [shell])).get('t');
  const behind = await measure(1n);
  assert.equal(
    behind?.kind === 'refused' ? behind.error.code : behind?.kind,
    'DESTINATION_REFUSED',
  );
  // All of it is there to be read, and there is nothing: it was cleaned.
  assert.equal((await measure(3n))?.kind, 'measured');
  const written = await measure(4n);
  assert.equal(written?.kind === 'refused' ? written.error.code : written?.kind, 'ILLEGAL_STATE');
});

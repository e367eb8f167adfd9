// What the destination says to the creation of a shell, and what we make of it: refused for
// certain, or in doubt. A shell that it does not show is not gone.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createCreatableTopicResult,
  createCreateTopicsResponse,
} from '../../../protocol/generated/create-topics-response.ts';
import { ErrorCode, zeroUuid } from '../../../protocol/index.ts';
import type { Api } from '../../../src/cluster/cluster.ts';
import { createShell, deleteShell } from '../../../src/link/mirror/shell-topic.ts';
import { FakeCluster, FakeState, shellId, topicInfo } from './fakes.ts';

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
  await assert.rejects(
    deleteShell({ destination, state: new FakeState() }, { name: 't', topicId: shellId }),
    {
      name: 'LinkError',
      code: 'DESTINATION_REFUSED',
      message: /TOPIC_AUTHORIZATION_FAILED/,
    },
  );
  destination.topics.delete('t');
  await deleteShell({ destination, state: new FakeState() }, { name: 't', topicId: shellId });
});

test('R12: an instance that lost the lease while it looked at a shell deleted it all the same', async () => {
  const destination = new FakeCluster();
  const state = new FakeState();
  destination.topics.set('t', topicInfo('t', shellId, [0]));
  const metadata = destination.metadata.bind(destination);
  destination.metadata = async (names) => {
    state.isOwner = false;
    return metadata(names);
  };
  const deleted = deleteShell({ destination, state }, { name: 't', topicId: shellId });
  await assert.rejects(deleted, { name: 'StateError', code: 'NOT_OWNER' });
});

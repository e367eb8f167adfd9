// Who may read a mirror: asked of the destination, on the client's own connection.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MetadataRequest } from '../../../protocol/generated/metadata-request.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import { AclOperation, authorize } from '../../../src/gateway/authorizer.ts';
import { verdictsAlways } from '../../../src/gateway/limits.ts';
import { VerdictBudget } from '../../../src/gateway/verdict-budget.ts';
import { ALL, DESCRIBE, FakeSession, READ } from './read-fixtures.ts';

async function verdict(
  session: FakeSession,
  operation: AclOperation,
  topic = 'orders',
): Promise<number | undefined> {
  return (await authorize(session, [topic], operation)).get(topic);
}

function session(): FakeSession {
  return new FakeSession({ kind: 'link' });
}

test('each operation is its own bit; without an authorizer the broker sets them all', async () => {
  const denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED;
  for (const [operations, read, write, describe] of [
    [ALL, 0, 0, 0],
    [READ, 0, denied, denied],
    [DESCRIBE, denied, denied, 0],
    [-2147483648, denied, denied, denied],
    [0, denied, denied, denied],
  ] as const) {
    const client = session();
    client.broker.operations.set('orders', operations);
    assert.equal(await verdict(client, AclOperation.READ), read);
    assert.equal(await verdict(client, AclOperation.WRITE), write);
    assert.equal(await verdict(client, AclOperation.DESCRIBE), describe);
  }
});

test('the question never creates a topic, and asks for operations', async () => {
  const client = session();
  assert.equal(
    await verdict(client, AclOperation.READ, 'nowhere'),
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
  );
  const { message, version } = client.broker.seen[0] ?? assert.fail();
  const request = message as MetadataRequest;
  assert.ok(version >= 8);
  assert.equal(request.allowAutoTopicCreation, false);
  assert.equal(request.includeTopicAuthorizedOperations, true);
});

test('a permission is kept for 30 s, a refusal for one, and no longer', async () => {
  const client = session();
  assert.equal(await verdict(client, AclOperation.READ), ErrorCode.NONE);
  client.broker.operations.set('orders', DESCRIBE);
  client.nowMs += 29_000;
  assert.equal(await verdict(client, AclOperation.READ), ErrorCode.NONE);
  assert.equal(client.broker.seen.length, 1);
  client.nowMs += 1_001;
  assert.equal(await verdict(client, AclOperation.READ), ErrorCode.TOPIC_AUTHORIZATION_FAILED);
  client.broker.operations.set('orders', READ);
  client.nowMs += 1_001;
  assert.equal(await verdict(client, AclOperation.READ), ErrorCode.NONE);
  assert.equal(client.broker.seen.length, 3);
});

test('topics are asked for together, and known ones not again', async () => {
  const client = session();
  client.broker.operations.set('second', READ);
  await authorize(client, ['orders', 'second', 'orders'], AclOperation.READ);
  await authorize(client, ['orders', 'second'], AclOperation.READ);
  assert.equal(client.broker.seen.length, 1);
  const request = client.broker.seen[0]?.message as MetadataRequest;
  assert.deepEqual(
    request.topics?.map(({ name }) => name),
    ['orders', 'second'],
  );
});

test('no answer means no, retriably, whatever was allowed before', async () => {
  const client = session();
  assert.equal(await verdict(client, AclOperation.READ), ErrorCode.NONE);
  client.broker.isGone = true;
  client.nowMs += 30_001;
  assert.equal(await verdict(client, AclOperation.READ), ErrorCode.NOT_LEADER_OR_FOLLOWER);
});

test('one request may name more topics than verdicts are kept', async () => {
  const client = session();
  const names = Array.from({ length: 10_005 }, (_, index) => `topic-${index}`);
  for (const name of names) client.broker.operations.set(name, READ);
  const verdicts = await authorize(client, names, AclOperation.READ);
  assert.equal(verdicts.size, names.length);
  assert.deepEqual(new Set(verdicts.values()), new Set([ErrorCode.NONE]));
});

test('R14: clients keep so many verdicts together, each a few, and none once gone', async () => {
  const crowd = Array.from({ length: 4 }, session);
  const verdicts = new VerdictBudget(100);
  for (const client of crowd) Object.assign(client.services, { verdicts });
  const names = Array.from({ length: 90 }, (_, index) => `topic-${index}`);
  for (const client of crowd) {
    for (const name of names) client.broker.operations.set(name, READ);
    await authorize(client, names, AclOperation.READ);
  }
  assert.equal(verdicts.used, 90 + 3 * verdictsAlways);
  const [first, second] = crowd;
  first?.controller.abort();
  assert.equal(verdicts.used, 3 * verdictsAlways);
  await authorize(second ?? assert.fail(), names, AclOperation.READ);
  assert.equal(verdicts.used, 100, 'the room that is left may be used');
  await authorize(first ?? assert.fail(), names, AclOperation.READ);
  assert.equal(verdicts.used, 100, 'who is gone keeps nothing');
  for (const client of crowd) client.controller.abort();
  assert.equal(verdicts.used, 0);
});

test('R14: a name that no topic can have is neither asked for nor kept', async () => {
  const client = session();
  const long = 'n'.repeat(250);
  const verdicts = await authorize(client, [long, 'orders'], AclOperation.READ);
  assert.equal(verdicts.get(long), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION);
  assert.equal(verdicts.get('orders'), ErrorCode.NONE);
  const { message } = client.broker.seen[0] ?? assert.fail();
  assert.deepEqual(
    (message as MetadataRequest).topics?.map(({ name }) => name),
    ['orders'],
  );
  client.broker.seen.length = 0;
  assert.equal(await verdict(client, AclOperation.READ, long), 3);
  assert.equal(client.broker.seen.length, 0);
});

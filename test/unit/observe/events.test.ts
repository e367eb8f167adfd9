// What is kept of an event, and what subscribers are told.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Events, eventBytesMax, type ServiceEvent } from '../../../src/observe/events.ts';

test('R14: of long texts the ring keeps the beginning, subscribers get all', () => {
  const events = new Events({ ringMax: 3 });
  const told: ServiceEvent[] = [];
  events.subscribe((event) => told.push(event));
  const name = 'n'.repeat(32_767);
  for (let count = 0; count < 5; count++) {
    events.warn('connection_refused', `a client: ${name}`, {
      clientId: name,
      count,
      listener: null,
    });
  }
  const kept = events.since(0);
  assert.deepEqual(
    kept.map(({ id, fields }) => [id, fields.count, fields.listener]),
    [
      [3, 2, null],
      [4, 3, null],
      [5, 4, null],
    ],
  );
  for (const { message, fields } of kept) {
    assert.ok(2 * JSON.stringify({ message, fields }).length <= eventBytesMax);
    assert.match(message, /^a client: n+…$/);
  }
  assert.equal(told[0]?.fields.clientId, name);
});

test('R14: clients that were refused again and again pushed all other events out of the ring', () => {
  const events = new Events({ ringMax: 100 });
  for (let count = 0; count < 30; count++) {
    events.info('mirror_state_changed', `${count}`);
    events.warn(`rare_${count % 10}`, `${count}`);
  }
  for (let count = 0; count < 1000; count++) events.warn('connection_refused', `${count}`);
  const kept = events.since(0);
  const named = (name: string): string[] =>
    kept.filter(({ event }) => event.startsWith(name)).map(({ message }) => message);
  assert.equal(kept.length, 100);
  assert.deepEqual(named('mirror_state_changed'), named('rare_'));
  assert.equal(named('rare_').length, 30);
  const refused = Array.from({ length: 40 }, (_, index) => String(960 + index));
  assert.deepEqual(named('connection_refused'), refused, 'the latest');
  const ids = kept.map(({ id }) => id);
  assert.deepEqual(
    ids,
    [...ids].sort((one, other) => one - other),
  );
});

test('R17: neither the ring nor a subscriber has a secret, in the sentence or beside it', () => {
  const events = new Events();
  const told: ServiceEvent[] = [];
  events.subscribe((event) => told.push(event));
  const line = 'login failed: PlainLoginModule required username="a" password="hunter2";';
  events.error('link_unauthenticated', line, { reason: line, attempts: 2 });
  assert.doesNotMatch(JSON.stringify([told, events.since(0)]), /hunter2/);
  assert.match(events.since(0)[0]?.message ?? '', /^login failed: .*username="a"/);
});

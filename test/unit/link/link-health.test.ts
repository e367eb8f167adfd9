// The one verdict on a link's source: its cause in Cluster Linking's names, and when it is over.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ClusterError, type ClusterErrorCode } from '../../../src/cluster/cluster.ts';
import { LinkHealth, linkErrorName } from '../../../src/link/link-health.ts';
import { Events } from '../../../src/observe/events.ts';

function failure(code: ClusterErrorCode, cause?: string): ClusterError {
  const system = Object.assign(new Error('system'), { code: cause });
  return new ClusterError(code, 'scripted', { cause: system, maybeSent: false });
}

function healthAt(start: number) {
  let nowMs = start;
  const events = new Events();
  const clock = { monotonicMs: () => nowMs, unixMs: () => nowMs };
  const health = new LinkHealth({ link: 'dr', events, clock, lostAfterMs: 10_000 });
  const advance = (ms: number): void => {
    nowMs += ms;
  };
  return { health, events, advance };
}

test('each kind of failure has its name', () => {
  const cases: readonly [ClusterError, string][] = [
    [failure('UNREACHABLE', 'ENOTFOUND'), 'UNRESOLVABLE_BOOTSTRAP_ERROR'],
    [failure('UNREACHABLE', 'ECONNREFUSED'), 'BOOTSTRAP_TCP_CONNECTION_FAILED_ERROR'],
    [failure('TIMEOUT'), 'TIMEOUT_ERROR'],
    [failure('AUTHENTICATION'), 'AUTHENTICATION_ERROR'],
    [failure('PROTOCOL'), 'UNKNOWN'],
  ];
  for (const [error, name] of cases) assert.equal(linkErrorName(error), name);
});

test('a source that does not answer is lost after its time, and told once', () => {
  const { health, events, advance } = healthAt(0);
  health.contacted();
  advance(10_001);
  health.lost(failure('UNREACHABLE', 'ECONNREFUSED'));
  health.lost(failure('UNREACHABLE', 'ECONNREFUSED'));
  assert.equal(health.isLost, true);
  assert.equal(health.error?.name, 'BOOTSTRAP_TCP_CONNECTION_FAILED_ERROR');
  health.contacted();
  assert.equal(health.error, null);
  const told = events.since(0).map(({ event }) => event);
  assert.deepEqual(told, ['link_unavailable', 'link_available']);
});

test('a missing right is named with the command that grants it, and clears by itself', () => {
  const { health, events } = healthAt(0);
  health.contacted();
  health.sawDenied(['orders'], 2);
  assert.equal(health.isDenied, false);
  assert.equal(health.error?.name, 'AUTHORIZATION_ERROR');
  assert.match(health.error?.message ?? '', /1 of 2 .*kafka-acls --add --topic 'orders'/);
  health.sawDenied(['orders', 'payments'], 2);
  assert.equal(health.isDenied, true);
  health.sawDenied([], 2);
  assert.equal(health.error, null);
  const told = events.since(0).map(({ event }) => event);
  assert.deepEqual(told, ['link_unauthorized', 'link_authorized']);
});

test('another cluster in the place of the source fails the link, whatever else is wrong', () => {
  const { health } = healthAt(0);
  health.sawDenied(['orders'], 1);
  health.sawClusterId('right', 'wrong');
  assert.equal(health.isFailed, true);
  assert.match(health.error?.message ?? '', /another cluster: wrong/);
  health.sawClusterId('right', 'right');
  assert.equal(health.isFailed, false);
});

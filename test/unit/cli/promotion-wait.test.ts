// Waiting for promotions: done, gone back, still running, and what becomes of the wait while the
// proxy cannot be asked.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LinkError } from '../../../src/link/link-error.ts';
import { linkStatus, mirrorStatus } from '../admin/fake-services.ts';
import { assertOneLine, ServedCli } from './cli-runs.ts';

const cli = new ServedCli(({ links }) => {
  links.links.set('dr', linkStatus('dr', { topicNames: ['orders'] }));
  links.mirrors.set('orders', mirrorStatus('orders'));
});

test('a promotion is waited for until it is done', async () => {
  const pending = mirrorStatus('orders', { state: 'PENDING_STOPPED', phase: 'DRAINING' });
  cli.services.links.promotionStates = [pending, mirrorStatus('orders', { state: 'STOPPED' })];
  const { code, out } = await cli.run(['mirror', 'promote', 'orders', '--deadline', '1m']);
  assert.equal(code, 0, out);
  assert.match(out, /orders +done +STOPPED/);
  assert.equal((cli.services.links.lastCall.argument as { deadlineMs: number }).deadlineMs, 60_000);
});

test('a promotion that falls back is a failure with its reason', async () => {
  const blocking = [{ code: 'LAG', message: 'Partition 0 is behind.', remedy: 'Wait.' }];
  const pending = mirrorStatus('orders', { state: 'PENDING_STOPPED', blocking });
  cli.services.links.promotionStates = [pending, mirrorStatus('orders', { state: 'ACTIVE' })];
  const outcome = await cli.run(['mirror', 'promote', 'orders']);
  assertOneLine(outcome, 1, /orders: went back to ACTIVE \(LAG: Partition 0 is behind\.\)/);
});

test('exit 4: still running when the wait ends; exit 0 with --no-wait', async () => {
  const pending = mirrorStatus('orders', { state: 'PENDING_STOPPED' });
  cli.services.links.promotionStates = Array.from({ length: 100 }, () => pending);
  const waited = await cli.run(['mirror', 'promote', 'orders', '--wait', '2']);
  assertOneLine(waited, 4, /still running for 1 of 1 topics/);
  cli.services.links.promotionStates = [pending];
  const left = await cli.run(['mirror', 'promote', 'orders', '--no-wait', '-o', 'json']);
  assert.equal(left.code, 0);
  assert.equal(JSON.parse(left.out).topics[0].verdict, 'running');
});

test('a promotion was given up when the proxy could not be asked for a moment', async () => {
  const { links } = cli.services;
  const pending = mirrorStatus('orders', { state: 'PENDING_STOPPED', phase: 'DRAINING' });
  links.promotionStates = [pending];
  const describe = links.describeMirror.bind(links);
  const away = new LinkError('STATE_UNAVAILABLE', 'The state is read again.');
  const answers = [
    (): never => {
      throw away;
    },
    () => describe('orders'),
  ];
  links.describeMirror = () => {
    if (answers.length === 2)
      links.promotionStates = [mirrorStatus('orders', { state: 'STOPPED' })];
    return answers.shift()?.() ?? assert.fail('asked too often');
  };
  const outcome = await cli.run(['mirror', 'promote', 'orders']);
  assert.deepEqual([outcome.code, outcome.error], [0, '']);
  assert.match(outcome.out, /orders +done +STOPPED/);
});

test('exit 4: a promotion whose proxy did not come back counted as failed', async () => {
  const { links } = cli.services;
  links.promotionStates = [mirrorStatus('orders', { state: 'PENDING_STOPPED' })];
  links.describeMirror = () => {
    void cli.close();
    throw new LinkError('STATE_UNAVAILABLE', 'The state is read again.');
  };
  const outcome = await cli.run(['mirror', 'promote', 'orders', '--wait', '2']);
  assertOneLine(outcome, 4, /still running for 1 of 1 topics: cannot reach the admin API/);
  assert.match(outcome.out, /orders +running +PENDING_STOPPED/);
});

test('exit 1: a mirror that was deleted meanwhile took the outcomes of the others away', async () => {
  const { links } = cli.services;
  links.promotionStates = [mirrorStatus('orders', { state: 'PENDING_STOPPED' })];
  links.describeMirror = () => {
    throw new LinkError('MIRROR_NOT_FOUND', 'Topic orders is not a mirror.');
  };
  const outcome = await cli.run(['mirror', 'promote', 'orders']);
  assertOneLine(outcome, 1, /promote failed for orders: Topic orders is not a mirror/);
  assert.match(outcome.out, /orders +failed/);
});

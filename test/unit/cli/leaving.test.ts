// `causeway mirror detach` and `causeway uninstall`, against an admin server with a LinkService in
// memory.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertOneLine, ServedCli } from './cli-runs.ts';

const cli = new ServedCli();

test('a detach says what it would do, what stands in the way, and what it did', async () => {
  const dry = await cli.run(['mirror', 'detach', 'orders', '--dry-run']);
  assert.equal(dry.code, 0);
  assert.match(dry.out, /Nothing was changed[\s\S]*40 to 100[\s\S]*billing +0 +105 +7/);
  assert.deepEqual(cli.services.links.lastCall.argument, {
    topic: 'orders',
    dropHistory: false,
    validateOnly: true,
    actor: (cli.services.links.lastCall.argument as { actor: string }).actor,
  });
  const remedy = 'Stop the consumers.';
  cli.services.links.detachBlocking = [{ code: 'GROUP_NOT_EMPTY', message: 'billing has', remedy }];
  const blocked = await cli.run(['mirror', 'detach', 'orders', '--dry-run']);
  assert.equal(blocked.code, 1);
  assert.match(blocked.out, /In the way: GROUP_NOT_EMPTY: billing has\. Stop the consumers/);
  cli.services.links.detachBlocking = [];
  const done = await cli.run(['mirror', 'detach', 'orders', '--drop-history', '--yes']);
  assert.match(done.out, /is detached: start its clients anew/);
  assert.match(JSON.stringify(cli.services.links.lastCall.argument), /"dropHistory":true/);
});

test('uninstall lists what was made, and removes nothing of a running proxy', async () => {
  const listed = await cli.run(['uninstall', '--dry-run']);
  assert.equal(listed.code, 0);
  assert.match(listed.out, /acl +allow User:app/);
  assert.match(listed.out, /topic +__causeway_state/);
  assertOneLine(await cli.run(['uninstall']), 2, /stop the proxy and give --config FILE/);
  assertOneLine(await cli.run(['uninstall', '--config', '/none.yaml', '--yes']), 1, /none\.yaml/);
});

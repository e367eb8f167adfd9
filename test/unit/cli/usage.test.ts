// What goes wrong before, after and beside a command: wrong usage changes nothing, an answer that
// is none is told of, and nobody's files are touched.
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { AdminClient } from '../../../src/cli/admin-client.ts';
import { processIo } from '../../../src/cli/process-io.ts';
import { linkStatus, mirrorStatus } from '../admin/fake-services.ts';
import { assertOneLine, runCli, ServedCli } from './cli-runs.ts';

const cli = new ServedCli(({ links }) => {
  links.links.set('dr', linkStatus('dr'));
  links.mirrors.set('orders', mirrorStatus('orders', { state: 'STOPPED' }));
});

test('mirror unfence says that it is done', async () => {
  const { code, out, error } = await cli.run(['mirror', 'unfence', 'orders']);
  assert.deepEqual([code, error], [0, '']);
  assert.equal(out, 'The source of orders is not fenced any more.\n');
  assert.equal(cli.services.links.lastCall.method, 'unfence');
});

test('R18: a handover with a wait that is no time is not begun', async () => {
  const argv = ['group', 'handover', 'billing', '--link', 'dr', '--wait', 'long'];
  assertOneLine(await cli.run(argv), 2, /--wait: "long" is not a time/);
  assert.deepEqual(cli.services.links.calls, []);
});

test('R17: a URL with a password is refused, and not repeated', async () => {
  for (const url of ['http://me:hunter2@proxy:8082', 'http://proxy:8082/?token=hunter2']) {
    const outcome = await cli.run(['--url', url, 'link', 'list']);
    assertOneLine(outcome, 2, /host, a port and a path, and nothing else/);
    assert.doesNotMatch(outcome.error, /hunter2/);
  }
});

test('what answers and is no admin API is named', async () => {
  for (const body of ['<!DOCTYPE html><p>hello', '', 'null', '7']) {
    const other = createServer((_request, response) => response.end(body));
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${(other.address() as AddressInfo).port}`;
    try {
      for (const argv of [
        ['link', 'list'],
        ['link', 'delete', 'dr'],
      ]) {
        const words = /^causeway: what answers at http:\S+ is not the admin API of Causeway\n$/;
        assertOneLine(await runCli(url, argv), 1, words);
      }
    } finally {
      other.close();
    }
  }
});

test('a host or user with a name beyond ASCII can ask', async (context) => {
  context.mock.method(os, 'hostname', () => 'büro-東京');
  await new AdminClient(cli.url).order('/mirrors/orders/unfence', {});
  const { actor } = cli.services.links.lastCall.argument as { actor: string };
  assert.match(actor, /@b\?ro-\?\? \(127\.0\.0\.1\)$/);
});

test('an export leaves the unfinished file of another one where it is', async () => {
  const directory = await mkdtemp(path.join(os.tmpdir(), 'causeway-usage-'));
  try {
    const file = path.join(directory, 'tail.jsonl');
    await writeFile(`${file}.part`, 'half a line');
    const argv = ['mirror', 'export-tail', 'orders', '--to', file];
    assertOneLine(await cli.run(argv), 1, /was not exported: EEXIST/);
    assert.equal(await readFile(`${file}.part`, 'utf8'), 'half a line');
  } finally {
    await rm(directory, { recursive: true });
  }
});

test('Ctrl-C is caught only for a command that follows something', () => {
  const signals = ['SIGINT', 'SIGTERM'] as const;
  const counts = (): number[] => signals.map((signal) => process.listenerCount(signal));
  const before = signals.map((signal) => process.listeners(signal));
  const io = processIo();
  assert.deepEqual(
    counts(),
    before.map(({ length }) => length),
  );
  assert.equal(io.interrupted.aborted, false);
  assert.equal(io.interrupted, io.interrupted);
  assert.deepEqual(
    counts(),
    before.map(({ length }) => length + 1),
  );
  for (const [index, signal] of signals.entries()) {
    for (const listener of process.listeners(signal)) {
      if (!before[index]?.includes(listener)) process.off(signal, listener);
    }
  }
});

test('of several faults in a configuration each is one line, in their order', async () => {
  const directory = await mkdtemp(path.join(os.tmpdir(), 'causeway-usage-'));
  try {
    const file = path.join(directory, 'causeway.yaml');
    await writeFile(file, 'destination: {a: 1}\ngateway: {b: 1}\nstorage: {directory: /d}\n');
    const { code, error } = await cli.run(['serve', '--config', file, '--check']);
    assert.equal(code, 1);
    const paths = error.split('\n').map((line) => /^causeway: ([\w.]+):/.exec(line)?.[1]);
    assert.deepEqual(paths.slice(0, 2), ['destination.a', 'destination.bootstrap.servers']);
    assert.ok(paths.includes('gateway.b'), error);
  } finally {
    await rm(directory, { recursive: true });
  }
});

test('each warning of serve --check is a line of its own', async () => {
  const directory = await mkdtemp(path.join(os.tmpdir(), 'causeway-usage-'));
  try {
    const file = path.join(directory, 'causeway.yaml');
    const gone = 'destination: {bootstrap.servers: "127.0.0.1:1"}\n';
    await writeFile(file, `${gone}gateway: {advertise: h}\nstorage: {directory: /d}\n`);
    const { code, out } = await cli.run(['serve', '--config', file, '--check']);
    assert.equal(code, 0);
    assert.match(out, /\nWarning: [^\n]*127\.0\.0\.1:1[^\n]*\n$/);
  } finally {
    await rm(directory, { recursive: true });
  }
});

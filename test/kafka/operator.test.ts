// The service as an operator meets it: start, status, health, commands, exit codes, stop. One real
// destination, one real source; the rules of correctness have tests of their own.
import assert from 'node:assert/strict';
import { createServer, type Server } from 'node:net';
import { after, before, describe, test } from 'node:test';
import { type CausewayProcess, prepareCauseway } from '../helpers/causeway-process.ts';
import { type LinkedStage, startStage } from '../helpers/linked-stage.ts';
import { values, write } from '../helpers/raw-writes.ts';
import { createTopic } from '../helpers/topic-admin.ts';
import { until } from '../helpers/wait.ts';

interface MirrorAnswer {
  readonly state: string;
  readonly partitions: readonly { readonly mirrorEnd: number; readonly lagRecords: number }[];
}

function portOf(server: Server): number {
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('not listening');
  return address.port;
}

/** Starts and expects the process to end by itself; returns what it said besides the log. */
async function failingStart(causeway: CausewayProcess): Promise<string> {
  await assert.rejects(causeway.start(), /the proxy ended at its start/);
  const lines = causeway.logText().trim().split('\n');
  return lines.filter((line) => !line.startsWith('{')).join('\n');
}

describe('operating the proxy', { timeout: 180_000 }, () => {
  let stage: LinkedStage;

  before(async () => {
    stage = await startStage();
  });

  after(() => stage?.stop());

  test('a mirror from creation to failover, by the command line only', async () => {
    const { causeway, atSource } = stage;
    await createTopic(atSource, 'orders', { partitions: 1 });
    await write(atSource, 'orders', 0, values('order', 5));
    await causeway.cli('mirror', 'create', 'orders', '--link', 'dr');
    const describeMirror = () => causeway.cliJson<MirrorAnswer>('mirror', 'describe', 'orders');
    await until(
      'the whole mirror',
      async () => (await describeMirror()).partitions[0]?.mirrorEnd === 5,
    );
    assert.equal((await describeMirror()).state, 'ACTIVE');
    await causeway.cli('mirror', 'pause', 'orders');
    assert.match(await causeway.cli('mirror', 'list', '--status', 'paused'), /^orders /m);
    await causeway.cli('mirror', 'resume', 'orders');
    const dry = await causeway.cli('mirror', 'failover', 'orders', '--dry-run');
    assert.match(dry, /could failover/);
    assert.equal((await describeMirror()).state, 'ACTIVE');
    const done = await causeway.cli('mirror', 'failover', '--link', 'dr', '--all', '--yes');
    const id = /Receipt (\S+): failover/.exec(done)?.[1];
    assert.ok(id !== undefined, done);
    assert.match(
      await causeway.cli('receipt', 'show', id),
      /^orders +0 +5 +5 +0( \(found\))? +0 /m,
    );
    assert.match(await causeway.cli('events'), /mirror_state_changed: .*STOPPED/);
  });

  test('exit codes: refused, wrong usage, partly done', async () => {
    const { causeway } = stage;
    const codes: number[] = [];
    for (const argv of [
      ['mirror', 'create', 'nothing-there', '--link', 'dr'],
      ['link', 'create', 'x', '--source', stage.source.bootstrap, '--config', 'no.such=1'],
      ['link', 'create', 'x'],
      // The source is alive: a script has to say that it means it.
      ['mirror', 'failover', 'orders'],
      ['mirror', 'failover', 'orders', 'nothing-there', '--yes'],
    ]) {
      const { code, stderr } = await causeway.cliResult(...argv);
      assert.match(stderr, /^causeway: [^\n]+\n$/, argv.join(' '));
      codes.push(code);
    }
    assert.deepEqual(codes, [1, 1, 2, 2, 3]);
  });

  test('metrics and health of a working proxy', async () => {
    const { causeway } = stage;
    const metrics = await (await fetch(`${causeway.adminUrl}/metrics`)).text();
    for (const line of [
      'causeway_link_up{link="dr"} 1',
      'causeway_mirror_state{link="dr",topic="orders",state="STOPPED"} 1',
      'causeway_state_owner 1',
    ]) {
      assert.ok(metrics.includes(`\n${line}\n`), `${line} is not in\n${metrics}`);
    }
    for (const kind of ['live', 'ready', 'links']) {
      assert.equal((await fetch(`${causeway.adminUrl}/health/${kind}`)).status, 200, kind);
    }
    assert.equal((await causeway.cliResult('status', '--check')).code, 0);
  });

  test('an orderly stop gives the lease up, so that the next start owns it at once', async () => {
    const { causeway } = stage;
    await causeway.stopProcess();
    assert.match(causeway.logText(), /"event":"stopping"/);
    await causeway.start();
    const { role } = await causeway.get<{ role: string }>('/causeway/v1/status');
    assert.equal(role, 'owner');
    assert.match(await causeway.cli('mirror', 'list'), /^orders .*STOPPED/m);
  });

  test('a start that cannot go on is one clear line and ends the process', async () => {
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
    const port = portOf(taken);
    const cases: [Record<string, Record<string, unknown>>, RegExp][] = [
      [{ gateway: { bootstrapPort: port } }, /^causeway: port \d+ .*EADDRINUSE.*$/],
      [{ admin: { port } }, /^causeway: the admin API cannot be served: .*EADDRINUSE.*$/],
      [{ gateway: { linkNodeId: 1 } }, /^causeway: gateway\.linkNodeId 1 .*$/],
      [
        { destination: { 'bootstrap.servers': '127.0.0.1:1' } },
        /^causeway: the destination does not answer: .*$/,
      ],
    ];
    try {
      for (const [config, line] of cases) {
        const name = `failing-${cases.findIndex(([one]) => one === config)}`;
        const options = { destination: stage.destination, config, name };
        const causeway = await prepareCauseway(options);
        try {
          assert.match(await failingStart(causeway), line);
        } finally {
          await causeway.stop();
        }
      }
    } finally {
      taken.close();
    }
  });

  test('a second start by mistake does not take the lease from the instance that runs', async () => {
    const { causeway } = stage;
    const again = await causeway.cliResult('serve', '--config', causeway.configFile);
    assert.equal(again.code, 1);
    assert.match(again.stderr, /^causeway: .* is in use by another process/);
    const [port] = causeway.bootstrap.split(':').slice(-1);
    const config = { gateway: { bootstrapPort: Number(port) } };
    const other = await stage.prepareAnother({ config });
    assert.match(await failingStart(other), /^causeway: port \d+ .*EADDRINUSE/);
    assert.doesNotMatch(causeway.logText(), /"event":"lease_lost"/);
    await causeway.cli('link', 'config', 'set', 'dr', 'consumer.offset.sync.ms=1000');
  });

  test('R15: an instance that lost its lease does not call its links healthy', async () => {
    const { causeway } = stage;
    const copyDirectoryFrom = causeway.storageDirectory;
    const successor = await stage.prepareAnother({ copyDirectoryFrom });
    // R12: two of one name: exactly one acts, and the other says so.
    assert.match(await failingStart(successor), /^causeway: another instance .* renews its lease/);
    assert.equal((await causeway.cliResult('status', '--check')).code, 0);
    await successor.start(['--take-over']);
    await until('links that are not healthy', async () => {
      const answer = await fetch(`${causeway.adminUrl}/health/links`);
      return answer.status === 503 && /not the owner any more/.test(await answer.text());
    });
    assert.match(await causeway.cli('status'), /^Healthy: +no/m);
    assert.equal((await fetch(`${causeway.adminUrl}/health/ready`)).status, 200);
    await successor.kill9();
    await causeway.stopProcess();
    await causeway.start();
    const isOwner = async (): Promise<boolean> =>
      (await fetch(`${causeway.adminUrl}/health/links`)).status === 200;
    await until('the lease again', isOwner);
  });

  test('readiness ends with the destination, never with the source', async () => {
    const { causeway } = stage;
    const ready = async (): Promise<number> =>
      (await fetch(`${causeway.adminUrl}/health/ready`)).status;
    await stage.source.kill9();
    await until('an unreachable source', async () => {
      const answer = await fetch(`${causeway.adminUrl}/health/links`);
      return answer.status === 503;
    });
    assert.equal(await ready(), 200);
    const { code, stderr } = await causeway.cliResult('status', '--check');
    assert.equal(code, 3);
    assert.match(stderr, /dr: link is UNAVAILABLE/);
    await stage.destination.kill9();
    await until('readiness to end', async () => (await ready()) === 503);
  });
});

// The command line against a real admin server with a LinkService in memory: calls, output, exit
// codes.
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { LinkError } from '../../../src/link/link-error.ts';
import { version } from '../../../src/version.ts';
import { rootDirectory } from '../../helpers/repository.ts';
import { linkStatus, mirrorStatus, partitionStatus } from '../admin/fake-services.ts';
import { assertOneLine, ServedCli } from './cli-runs.ts';

const cli = new ServedCli(({ links }) => {
  links.links.set('dr', linkStatus('dr', { topicNames: ['orders'] }));
  links.mirrors.set('orders', mirrorStatus('orders'));
});
let directory: string;

before(async () => {
  directory = await mkdtemp(path.join(os.tmpdir(), 'causeway-cli-'));
});

after(async () => {
  await rm(directory, { recursive: true });
});

function sent(): Record<string, unknown> {
  return cli.services.links.lastCall.argument as Record<string, unknown>;
}

test('a link is created with settings of arguments and of a file', async () => {
  const file = path.join(directory, 'link.properties');
  const lines = '# source\nclient.id=a\nconsumer.offset.group.filters={"groupFilters":\\\n  []}\n';
  await writeFile(file, lines);
  const argv = ['link', 'create', 'new', '--source', 's:9092', '--config-file', file];
  const more = ['--config', 'client.id=b', '--config', 'metadata.max.age.ms=1000'];
  const { code, out } = await cli.run([...argv, ...more, '--source-cluster-id', 'abc']);
  assert.equal(code, 0);
  assert.equal(out, 'Link new created.\n');
  const { configs, name, sourceClusterId, actor } = sent();
  assert.deepEqual(configs, {
    'client.id': 'b',
    'consumer.offset.group.filters': '{"groupFilters":[]}',
    'metadata.max.age.ms': '1000',
    'bootstrap.servers': 's:9092',
  });
  assert.deepEqual([name, sourceClusterId], ['new', 'abc']);
  assert.match(String(actor), /^\S+@\S+ \(127\.0\.0\.1\)$/);
});

test('validate-only creates nothing', async () => {
  const argv = ['link', 'create', 'new', '--source', 's:9092', '--validate-only', '-o', 'json'];
  const { code, out } = await cli.run(argv);
  assert.equal(code, 0);
  assert.deepEqual(JSON.parse(out), { name: 'new', valid: true });
  assert.ok(!cli.services.links.links.has('new'));
});

test('R17: secrets are not taken as arguments, but from standard input', async () => {
  const secret = 'sasl.jaas.config=x required password="hunter2";';
  const argv = ['link', 'create', 'new', '--source', 's:9092'];
  const refused = await cli.run([...argv, '--config', secret]);
  assertOneLine(refused, 2, /sasl\.jaas\.config in a file/);
  assert.ok(!refused.error.includes('hunter2'));
  assert.equal(cli.services.links.calls.length, 0);
  const reference = ['--config', 'ssl.key.password=$' + '{env:KEY}'];
  assert.equal((await cli.run([...argv, ...reference])).code, 0);
  const piped = await cli.run(['link', 'create', 'two', '--config-file', '-'], {
    input: `bootstrap.servers=s:9092\n${secret}\n`,
  });
  assert.equal(piped.code, 0);
  assert.equal(
    (sent().configs as Record<string, string>)['sasl.jaas.config'],
    'x required password="hunter2";',
  );
});

test('a link that could not be compared is not said to be without a difference', async () => {
  const off = { code: 'NOT_CONFIGURED', message: 'Task AclSync is not switched on' };
  const lost = { code: 'TIMEOUT', message: 'the source does not answer' };
  const made = { action: 'create', subject: 'a', detail: 'of source topic a' } as const;
  const acls = { task: 'AclSync', changes: [], problems: [off] };
  const configs = { task: 'TopicConfigsSync', changes: [], problems: [] };
  const topics = { task: 'AutoCreateMirror', changes: [made], problems: [] };
  const drift = async (...plans: typeof cli.services.links.plans) => {
    cli.services.links.plans = plans;
    return cli.run(['link', 'drift', 'dr']);
  };
  const same = await drift(acls, configs);
  assert.deepEqual([same.code, same.out], [0, 'Link dr: no difference; switched off: AclSync.\n']);
  const failed = await drift({ ...configs, problems: [lost] });
  assert.match(failed.out, /TopicConfigsSync +problem +TIMEOUT +the source does not answer/);
  assert.equal(failed.code, 3);
  const differing = await drift(acls, configs, topics);
  assert.match(differing.out, /AclSync +off +- +Task AclSync is not switched on/);
  assert.match(differing.out, /AutoCreateMirror +create +a +of source topic a/);
  assert.equal(differing.code, 3);
  const { out: plan } = await cli.run(['link', 'tasks', 'dr', '--dry-run']);
  assert.match(plan, /AutoCreateMirror +create +a +of source topic a/);
});

test('links are listed, described, configured and deleted', async () => {
  assert.match((await cli.run(['link', 'list'])).out, /^NAME +STATE .*\ndr +ACTIVE /);
  const [row] = JSON.parse((await cli.run(['link', 'list', '-o', 'json'])).out) as object[];
  assert.equal(Reflect.get(row ?? {}, 'name'), 'dr');
  const described = (await cli.run(['link', 'describe', 'dr'])).out;
  assert.match(described, /RPO: +0\.2 s|RPO: +0\.3 s/);
  assert.match(described, /bootstrap\.servers +source:9092/);
  assert.match((await cli.run(['link', 'tasks', 'dr'])).out, /ConsumerOffsetSync +ACTIVE/);
  const set = ['link', 'config', 'set', 'dr', 'cluster.link.paused=true', '--delete', 'client.id'];
  assert.equal((await cli.run(set)).code, 0);
  assert.deepEqual(sent().changes, [
    { name: 'cluster.link.paused', value: 'true' },
    { name: 'client.id', value: null },
  ]);
  assert.match(
    (await cli.run(['link', 'config', 'list', 'dr'])).out,
    /cluster\.link\.paused +true/,
  );
  assertOneLine(await cli.run(['link', 'delete', 'dr']), 1, /still has mirrors/);
  assert.equal((await cli.run(['link', 'delete', 'dr', '--force'])).code, 0);
  assertOneLine(await cli.run(['link', 'describe', 'dr']), 1, /'dr' does not exist/);
});

test('what was known before a restart is shown as such, and what is not known by name', async () => {
  const recorded = { isContactRecorded: true, isRpoAtMost: true, rpoUnknownTopics: ['fresh'] };
  cli.services.links.links.set('dr', linkStatus('dr', { ...recorded, rpoSeconds: 60 }));
  const list = (await cli.run(['link', 'list'])).out;
  assert.match(
    list,
    /1970-01-01T00:00:05\.000Z or later \(before a restart\) +at most 60\.0 s \(not /,
  );
  const { out } = await cli.run(['link', 'describe', 'dr']);
  assert.match(out, /RPO: +at most 60\.0 s \(not known of 1\)\nRPO not known of: +fresh\n/);
  const partitions = [
    partitionStatus({ lagRecords: null, lagRecordsMin: 7n }),
    partitionStatus({ partition: 1, lagRecords: 2n }),
  ];
  cli.services.links.mirrors.set('orders', mirrorStatus('orders', { partitions }));
  assert.match((await cli.run(['mirror', 'list'])).out, / 2 +unknown, at least 7 /);
  const described = (await cli.run(['mirror', 'describe', 'orders'])).out;
  assert.match(described, /\n0 .* 100 +unknown, at least 7 .*1970-01-01T00:00:05\.000Z\n/);
});

test('mirrors are created, listed, described and deleted', async () => {
  const create = ['mirror', 'create', 'bills', '--link', 'dr', '--config', 'retention.ms=1000'];
  assert.equal((await cli.run(create)).code, 0);
  const { sourceTopic, mirrorTopic, configs } = sent();
  assert.deepEqual([sourceTopic, mirrorTopic], ['bills', undefined]);
  assert.deepEqual(configs, { 'retention.ms': '1000' });
  const renamed = ['mirror', 'create', 'eu.bills', '--link', 'dr', '--source-topic', 'bills'];
  assert.equal((await cli.run(renamed)).code, 0);
  assert.deepEqual([sent().sourceTopic, sent().mirrorTopic], ['bills', 'eu.bills']);

  assert.match((await cli.run(['mirror', 'list'])).out, /orders +dr +orders +ACTIVE +1 +10 +0 +-/);
  const filtered = await cli.run(['mirror', 'list', '--status', 'paused', '-o', 'json']);
  assert.deepEqual(JSON.parse(filtered.out), []);
  assertOneLine(
    await cli.run(['mirror', 'list', '--status', 'bad']),
    1,
    /no mirror status; a mirror is one of PENDING_MIRROR, ACTIVE, /,
  );
  const mirror = JSON.parse((await cli.run(['mirror', 'describe', 'orders', '-o', 'json'])).out);
  assert.equal(mirror.partitions[0].mirrorEnd, 90);
  assert.match(
    (await cli.run(['mirror', 'describe', 'orders'])).out,
    /0 +0 +90 +100 +10 +1\.5 s +640 B/,
  );

  assert.equal((await cli.run(['mirror', 'delete', 'bills', '--keep-topic', '--yes'])).code, 0);
  assert.equal(sent().keepTopic, true);
  assertOneLine(await cli.run(['mirror', 'delete', 'bills']), 1, /not a mirror/);
  const anew = await cli.run(['mirror', 'recreate', 'orders', '--archive-as', 'old', '--dry-run']);
  assert.deepEqual([anew.code, anew.out], [0, 'Mirror orders could be made anew.\n']);
  assert.deepEqual([sent().topic, sent().archiveAs, sent().validateOnly], ['orders', 'old', true]);
});

test('R10, R15: lost history and missing partitions are described', async () => {
  const lost = (from: bigint, to: bigint) => ({ partition: 0, from, to, timeMs: 1 });
  cli.services.links.mirrors.set(
    'gaps',
    mirrorStatus('gaps', {
      growth: { sourcePartitions: 3, sinceTimeMs: 1, cause: 'POLICY_VIOLATION: no more' },
      lostRanges: [lost(70n, 75n)],
      lostTotals: [{ partition: 0, ranges: 4, records: 35n }],
    }),
  );
  const { out } = await cli.run(['mirror', 'describe', 'gaps']);
  assert.match(out, /Partitions: +1 of the source’s 3, since 1970.*: POLICY_VIOLATION: no more/);
  assert.match(out, /Lost history: +partition 0: offsets \[70, 75\), found 1970/);
  assert.match(out, /Lost history: +partition 0: 35 offsets in 4 ranges in all/);
  assert.match((await cli.run(['mirror', 'list'])).out, /gaps .* ACTIVE +1 of 3 /);
});

test('exit 3: one of two topics failed', async () => {
  const outcome = await cli.run(['mirror', 'pause', 'orders', 'gone']);
  assertOneLine(outcome, 3, /pause failed for gone: MIRROR_NOT_FOUND/);
  assert.match(outcome.out, /orders +done +PAUSED/);
  assert.equal(cli.services.links.mirrors.get('orders')?.state, 'PAUSED');
});

test('a failover of a whole link prints the receipt, also later', async () => {
  const refused = await cli.run(['mirror', 'failover', '--link', 'dr', '--all']);
  assertOneLine(refused, 2, /add --yes/);
  const argv = ['mirror', 'failover', '--link', 'dr', '--all', '--yes'];
  const { code, out } = await cli.run(argv);
  assert.equal(code, 0);
  assert.match(out, /Receipt r-1: failover/);
  assert.match(out, /billing +orders +0 +95 +91/);
  assert.match(out, /one copy/);
  assert.match(out, /orders +0 +91 +100 +10 +1000 B +2 +1 +2023-/);
  const receipt = await cli.run(['receipt', 'show', 'r-1', '-o', 'json']);
  assert.equal(JSON.parse(receipt.out).topics[0].partitions[0].lostRecords, 10);
  assertOneLine(await cli.run(['receipt', 'show', 'r-9']), 1, /no receipt r-9/);
});

test('a dry run changes nothing', async () => {
  const { code, out } = await cli.run(['mirror', 'failover', 'orders', '--dry-run']);
  assert.equal(code, 0);
  assert.match(out, /orders +could failover/);
  assert.doesNotMatch(out, /^Receipt/m, 'a receipt that nobody keeps has no id to look for');
  assert.match(out, /^Nothing was changed\. A failover at .* would have come to this:$/m);
  assert.equal(cli.services.links.mirrors.get('orders')?.state, 'ACTIVE');
});

test('a person is asked before what cannot be undone', async () => {
  const no = await cli.run(['mirror', 'failover', 'orders'], { answers: ['n'] });
  assertOneLine(no, 1, /nothing was done/);
  assert.equal(cli.services.links.calls.length, 0);
  const yes = await cli.run(['mirror', 'failover', 'orders'], { answers: ['y'] });
  assert.equal(yes.code, 0);
});

test('topics come from a file too; comments and empty lines are left out', async () => {
  const file = path.join(directory, 'topics');
  await writeFile(file, '# ours\norders\n\norders\n');
  assert.equal((await cli.run(['mirror', 'pause', '--topics-file', file])).code, 0);
  assert.deepEqual(sent().topics, ['orders']);
  assertOneLine(await cli.run(['mirror', 'pause', '--topics-file', '/none']), 1, /cannot read/);
});

test('groups are listed', async () => {
  assert.match(
    (await cli.run(['group', 'list', '--link', 'dr'])).out,
    /billing +classic +orders +0 +42 +40/,
  );
  const rows = JSON.parse((await cli.run(['group', 'list', '--link', 'dr', '-o', 'json'])).out);
  assert.equal(rows[0].destinationOffset, 40);
});

test('events are shown once, or followed until interrupted', async () => {
  cli.services.events.info('link_created', 'Link dr was created.');
  assert.match((await cli.run(['events'])).out, /INFO {2}link_created: Link dr was created\.\n$/);
  const interrupt = new AbortController();
  const followed = cli.run(['events', '--follow', '-o', 'json'], {
    interrupted: interrupt.signal,
    onOut: (text) => {
      if (text.includes('link_created')) cli.services.events.warn('link_lost', 'Lost.');
      if (text.includes('link_lost')) interrupt.abort();
    },
  });
  const { code, out } = await followed;
  assert.equal(code, 0);
  const names = out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line).event);
  assert.deepEqual(names, ['link_created', 'link_lost']);
});

test('status says what is wrong; with --check it exits 3', async () => {
  const healthy = (await cli.run(['status'])).out;
  assert.match(healthy, /Healthy: +yes/);
  assert.match(healthy, /BYPASS: group legacy reads orders past us, from 10\.0\.0\.7/);
  assert.equal((await cli.run(['status', '--check'])).code, 0);
  const recorded = { isContactRecorded: true, isRpoAtMost: true } as const;
  cli.services.links.links.set('dr', linkStatus('dr', { linkState: 'UNAVAILABLE', ...recorded }));
  const plain = await cli.run(['status']);
  assert.equal(plain.code, 0);
  assert.match(plain.out, /dr: link is UNAVAILABLE/);
  assert.match(plain.out, /last contact 1970-01-01T00:00:05\.000Z or later, RPO at most 0\.3 s/);
  assertOneLine(await cli.run(['status', '--check']), 3, /dr: link is UNAVAILABLE/);
});

test('the state is exported into a new file only', async () => {
  const file = path.join(directory, 'state.jsonl');
  assert.equal((await cli.run(['state', 'export', file])).code, 0);
  assert.equal(await readFile(file, 'utf8'), '{"format":1}\n');
  assertOneLine(await cli.run(['state', 'export', file]), 1, /cannot write/);
  assert.equal((await cli.run(['state', 'export', '-'])).out, '{"format":1}\n');
});

const wrongUses: readonly [string[], RegExp][] = [
  [['mirro'], /unknown command 'mirro'/],
  [['link', 'create', 'x', '--surce', 'y'], /unknown option '--surce'/],
  [['link', 'create'], /missing required argument/],
  [['link', 'create', 'x'], /--source HOST:PORT/],
  [['mirror', 'create', 'x'], /required option '--link <name>'/],
  [['mirror', 'promote'], /say which topics/],
  [['mirror', 'promote', 'x', '--link', 'dr', '--all'], /in one way/],
  [['mirror', 'promote', '--all'], /--all needs --link/],
  [['mirror', 'promote', 'x', '--deadline', 'soon'], /--deadline: "soon"/],
  [['link', 'config', 'set', 'dr', 'novalue'], /not of the form key=value/],
  [['link', 'list', '-o', 'xml'], /neither table nor json/],
  [['link', 'list', '--url', 'ftp://x'], /not a URL/],
  [['events', '--since', 'x'], /--since/],
];

for (const [argv, word] of wrongUses) {
  test(`R18: exit 2 with one line: causeway ${argv.join(' ')}`, async () => {
    assertOneLine(await cli.run(argv), 2, word);
    assert.equal(cli.services.links.calls.length, 0);
  });
}

const later = [['preflight'], ['mirror', 'reverse', 'orders'], ['mirror', 'restore', 'orders']];
for (const argv of later) {
  test(`a command of later versions is known: causeway ${argv.join(' ')}`, async () => {
    assertOneLine(await cli.run(argv), 1, /is not in this version/);
    assert.equal(cli.services.links.calls.length, 0);
  });
}

test('all or none, adopt and discard are said to the proxy', async () => {
  cli.services.links.promotionStates = [mirrorStatus('orders', { state: 'STOPPED' })];
  assert.equal((await cli.run(['mirror', 'promote', 'orders', '--atomic'])).code, 0);
  assert.equal(sent().atomic, true);
  const careful = ['mirror', 'promote', 'orders', '--fence-source', '--require-replicated'];
  assert.equal((await cli.run(careful)).code, 0);
  assert.deepEqual([sent().fenceSource, sent().requireReplicated], [true, true]);
  assert.equal((await cli.run(['mirror', 'failover', 'orders', '--adopt'])).code, 0);
  assert.equal(sent().written, 'adopt');
  assert.equal((await cli.run(['mirror', 'failover', 'orders', '--discard'])).code, 0);
  assert.equal(sent().written, 'discard');
  assert.equal((await cli.run(['mirror', 'failover', 'orders', '--accept-loss'])).code, 0);
  assert.equal(sent().acceptLoss, true);
  const both = await cli.run(['mirror', 'failover', 'orders', '--adopt', '--discard']);
  assertOneLine(both, 2, /not both/);
});

test('a failover asks when the source answers, and a script has to say --yes', async () => {
  const status = linkStatus('dr', {
    topicNames: ['orders'],
    lastContactTimeMs: Date.now() - 2_000,
  });
  cli.services.links.links.set('dr', status);
  const refused = await cli.run(['mirror', 'failover', 'orders']);
  assertOneLine(refused, 2, /the source answers: dr \(2 s ago\); promote would lose nothing/);
  assert.equal(cli.services.links.calls.length, 0);
  assert.equal((await cli.run(['mirror', 'failover', 'orders', '--dry-run'])).code, 0);
  const no = await cli.run(['mirror', 'failover', 'orders'], { answers: ['n'] });
  assertOneLine(no, 1, /nothing was done/);
  assert.equal((await cli.run(['mirror', 'failover', 'orders', '--yes'])).code, 0);
  // One that has just died is not alive.
  cli.services.links.links.set('dr', { ...status, isAnswering: false });
  assert.equal((await cli.run(['mirror', 'failover', 'orders'])).code, 0);
});

test('a failover names who writes to a source that answers, or says why it cannot', async () => {
  const living = { topicNames: ['orders'], lastContactTimeMs: Date.now() - 2_000 };
  cli.services.links.links.set('dr', linkStatus('dr', living));
  const argv = ['mirror', 'failover', 'orders'];
  assertOneLine(await cli.run(argv), 2, /no producer with an id has written within 10 minutes/);
  const writer = { link: 'dr', topic: 'orders', partition: 3, producerEpoch: 0 };
  const now = Date.now();
  const writers = [
    { ...writer, producerId: 41n, lastTimeMs: now - 3_000, isInTransaction: false },
    { ...writer, producerId: 42n, lastTimeMs: -1, isInTransaction: true },
  ];
  const problems = [{ topic: 'payments', message: 'our principal may not see them' }];
  cli.services.links.writers = { writers, writersCount: 9, problems, problemsCount: 1 };
  const told = await cli.run(argv);
  assertOneLine(told, 2, /producer 41 \(orders-3, [3-9] s ago\), producer 42 \(orders-3, in a tr/);
  assert.match(told.error, /and 7 more; not known for payments: our principal may not see them/);
});

test('the tail of a switched topic goes to a new file, whole or not at all', async () => {
  cli.services.links.mirrors.set('orders', mirrorStatus('orders', { state: 'STOPPED' }));
  const file = path.join(directory, 'tail.jsonl');
  const argv = ['mirror', 'export-tail', 'orders', '--to', file];
  const { code, out } = await cli.run(argv);
  assert.equal(code, 0);
  assert.match(out, /3 lines of orders/);
  const lines = (await readFile(file, 'utf8')).trimEnd().split('\n');
  assert.equal(JSON.parse(lines[2] ?? '').offset, 93);
  assertOneLine(await cli.run(argv), 1, /is there already/);
});

test('exit 1: a refusal keeps its reason, without secrets', async () => {
  const message = 'Bad setting sasl.jaas.config=x password="hunter2";';
  cli.services.links.nextError = new LinkError('INVALID_CONFIG', message);
  const outcome = await cli.run(['link', 'create', 'x', '--source', 's:9092']);
  assertOneLine(outcome, 1, /Bad setting/);
  assert.ok(!outcome.error.includes('hunter2'));
});

test('exit 1: no proxy there', async () => {
  const outcome = await cli.run(['link', 'list'], { url: 'http://127.0.0.1:1' });
  assertOneLine(outcome, 1, /cannot reach the admin API at http:\/\/127\.0\.0\.1:1/);
});

test('control characters of names do not reach the terminal', async () => {
  cli.services.links.mirrors.set('x', mirrorStatus('x', { sourceTopic: 'a\u001b[2Jb' }));
  const { out } = await cli.run(['mirror', 'list']);
  assert.ok(!out.includes('\u001b'));
});

test('serve --check tells every fault of a configuration, or that there is none', async () => {
  const file = path.join(directory, 'causeway.yaml');
  await writeFile(
    file,
    `destination: {bootstrap.servers: "k:9092"}
gateway: {advertise: h}
storage: {directory: /d}
`,
  );
  const good = await cli.run(['serve', '--config', file, '--check']);
  assert.equal(good.code, 0);
  assert.match(good.out, /Configuration: +valid/);
  await writeFile(
    file,
    `destination: {bootstrap.servers: "k:9092"}
gateway: {advertise: h, tls: {certificate: /none.crt, key: /none.key}}
storage: {directory: /d}
`,
  );
  const tls = await cli.run(['serve', '--config', file, '--check']);
  assertOneLine(tls, 1, /gateway\.tls: \/none\.crt cannot be read \(ENOENT\)/);
  await writeFile(file, 'gateway: {advertis: h}\nstorage: {directory: d}\n');
  const bad = await cli.run(['serve', '--config', file, '--check']);
  assert.equal(bad.code, 1);
  assert.match(bad.error, /gateway\.advertis: unknown name; did you mean "advertise"\?/);
  assert.match(bad.error, /destination: is missing/);
  assertOneLine(await cli.run(['serve', '--config', '/none.yaml']), 1, /cannot read \/none\.yaml/);
  assertOneLine(await cli.run(['serve']), 2, /required option '--config <file>'/);
});

test('the version is that of the package', async () => {
  const manifest = path.join(rootDirectory, 'package.json');
  const { version: published } = JSON.parse(await readFile(manifest, 'utf8'));
  assert.equal(version, published);
  assert.equal((await cli.run(['--version'])).out, `${version}\n`);
});

// A MirrorMaker 2 file as settings of a link: what is taken over, what is refused, what is said
// about it.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { startAdminServer } from '../../../src/admin/server.ts';
import type { CliIo } from '../../../src/cli/io.ts';
import { parseProperties } from '../../../src/cli/key-values.ts';
import { runWith } from '../../../src/cli/main.ts';
import { importMm2, patternOf } from '../../../src/cli/mm2-import.ts';
import { parseLinkSettings } from '../../../src/link/settings/link-settings.ts';
import { fakeServices } from '../admin/fake-services.ts';

const file = `
# two flows, one of them enabled
clusters = A, B
A.bootstrap.servers = a-1:9092,a-2:9092
B.bootstrap.servers = b-1:9092
A->B.enabled = true
B->A.enabled = false
A->B.topics = orders\\\\..*, payments|refunds
A->B.topics.exclude = orders\\\\.tmp.*
A->B.sync.group.offsets.enabled = true
groups.exclude = console-.*
replication.factor = 3
`;

function imported(text: string, flow?: string) {
  return importMm2(parseProperties(text, 'mm2.properties'), flow);
}

describe('a MirrorMaker 2 file', () => {
  test('becomes settings that a link takes', () => {
    const { flow, settings, notes } = imported(file);
    assert.equal(flow, 'A->B');
    assert.deepEqual(notes, ['ACLs are not taken over: set acl.sync.enable and acl.filters']);
    const parsed = parseLinkSettings(Object.fromEntries(settings));
    assert.deepEqual(parsed.bootstrapServers, ['a-1:9092', 'a-2:9092']);
    assert.equal(parsed.prefix, 'A.');
    assert.deepEqual(parsed.topicSync, {
      enabled: true,
      filters: [
        { name: 'orders.', patternType: 'PREFIXED', filterType: 'INCLUDE' },
        { name: 'payments', patternType: 'LITERAL', filterType: 'INCLUDE' },
        { name: 'refunds', patternType: 'LITERAL', filterType: 'INCLUDE' },
        { name: 'orders.tmp', patternType: 'PREFIXED', filterType: 'EXCLUDE' },
      ],
      mirrorsMax: 1000,
      replicationFactor: 3,
    });
    assert.deepEqual(parsed.offsetSync.filters, [
      { name: '*', patternType: 'LITERAL', filterType: 'INCLUDE' },
      { name: 'console-', patternType: 'PREFIXED', filterType: 'EXCLUDE' },
    ]);
  });

  test('with MirrorMaker 2’s defaults says what differs', () => {
    const { settings, notes } = imported(
      'A->B.enabled=true\nreplication.policy.class=org.x.IdentityReplicationPolicy',
    );
    assert.equal(settings.has('cluster.link.prefix'), false);
    assert.match(
      settings.get('auto.create.mirror.topics.filters') ?? '',
      /"__","patternType":"PRE/,
    );
    assert.equal(settings.has('consumer.offset.sync.enable'), false);
    assert.match(notes.join(' '), /'\.replica'.*sync\.group\.offsets.*ACLs are not taken/);
  });

  test('a bare dot is taken for a dot, and that is said', () => {
    const { notes } = imported('A->B.enabled=true\nA->B.topics=a.b\nA->B.topics.exclude=x');
    assert.match(notes[0] ?? '', /the dot in 'a\.b' is taken for a dot/);
  });

  test('with several flows, or none, asks which', () => {
    const both = file.replace('B->A.enabled = false', 'B->A.enabled = true');
    assert.throws(() => imported(both), /enabled are A->B, B->A: .*--mm2-flow/);
    assert.equal(imported(both, 'B->A').flow, 'B->A');
    assert.throws(() => imported(file, 'A->C'), /no flow A->C/);
    assert.throws(() => imported('a=b'), /no flow is enabled/);
  });

  test('a pattern that is neither name nor prefix is refused by name', () => {
    assert.throws(
      () => imported('A->B.enabled=true\nA->B.topics=.*-prod'),
      /topics: .*'\.\*-prod'/,
    );
    assert.throws(
      () => imported('A->B.enabled=true\nreplication.policy.class=org.x.Mine'),
      /org\.x\.Mine/,
    );
  });
});

test('patterns', () => {
  const cases: readonly [string, [string, string] | null][] = [
    ['.*', ['*', 'LITERAL']],
    ['orders', ['orders', 'LITERAL']],
    ['^orders$', ['orders', 'LITERAL']],
    ['orders[.]eu.*', ['orders.eu', 'PREFIXED']],
    ['orders\\..*', ['orders.', 'PREFIXED']],
    ['a+', null],
    ['[ab]x', null],
    ['(a|b)', null],
    ['\\d+', null],
    ['', null],
  ];
  for (const [regex, wanted] of cases) {
    const pattern = patternOf(regex);
    const found = pattern === null ? null : [pattern.name, pattern.patternType];
    assert.deepEqual(found, wanted, regex);
  }
});

test('link create takes the file; own settings win, differences go to stderr', async (t) => {
  const services = fakeServices();
  const server = await startAdminServer(services, { bind: '127.0.0.1', port: 0 });
  t.after(() => server.close());
  let errors = '';
  const io: CliIo = {
    out: () => undefined,
    error: (text) => {
      errors += text;
    },
    environment: { CAUSEWAY_URL: server.url },
    isInteractive: false,
    ask: async () => '',
    readInput: async () => 'A.bootstrap.servers=a:9092\nA->B.enabled=true\nA->B.topics=orders.*\n',
    interrupted: new AbortController().signal,
    pause: async () => undefined,
    now: () => 0,
  };
  const create = ['link', 'create', 'mm2', '--import-mm2', '-'];
  assert.equal(await runWith([...create, '--config', 'cluster.link.prefix=mine.'], io), 0, errors);
  assert.match(errors, /A->B: ACLs are not taken over/);
  const { configs } = services.links.links.get('mm2')?.record ?? {};
  assert.equal(configs?.['bootstrap.servers'], 'a:9092');
  assert.equal(configs?.['cluster.link.prefix'], 'mine.');
  assert.match(configs?.['auto.create.mirror.topics.filters'] ?? '', /"name":"orders"/);
  assert.equal(await runWith([...create, '--mm2-flow', 'A->C'], io), 2);
});

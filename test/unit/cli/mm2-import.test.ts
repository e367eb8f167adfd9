// A MirrorMaker 2 file as settings of a link: what is taken over, what is refused, what is said about it.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseProperties } from '../../../src/cli/key-values.ts';
import { importMm2, patternOf } from '../../../src/cli/mm2-import.ts';
import { parseLinkSettings } from '../../../src/link/link-settings.ts';

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

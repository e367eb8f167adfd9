// The three-way comparison of topic configs: what follows the source, what was edited here, what is
// never touched.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { syncableConfigs, syncedConfigs } from '../../../src/link/mirror/topic-configs.ts';
import { diffConfigs, isSameRecord } from '../../../src/tasks/config-diff.ts';

type Configs = Record<string, string>;

interface Case {
  readonly source: Configs;
  readonly before: Configs | null;
  readonly here: Configs;
  readonly include?: readonly string[];
}

function compare({ source, before, here, include }: Case) {
  const included = include === undefined ? syncableConfigs : new Set(include);
  const asRead = Object.entries(source).map(([name, value]) => ({ name, value, configSource: 1 }));
  return diffConfigs({
    desired: syncedConfigs(asRead, included),
    before,
    actual: new Map(Object.entries(here).map(([name, value]) => [name, { value, isSet: true }])),
    include: included,
  });
}

const pinned = '9223372036854775807';

describe('a key that is synced by default', () => {
  test('follows a change of the source', () => {
    const found = compare({
      source: { 'retention.ms': '2' },
      before: { 'retention.ms': '1' },
      here: { 'retention.ms': '1' },
    });
    assert.deepEqual(found.changes, [{ name: 'retention.ms', value: '2' }]);
    assert.deepEqual(found.synced, { 'retention.ms': '2' });
  });

  test('is unset when the source has it no more', () => {
    const before = { 'retention.ms': '1' };
    const found = compare({ source: {}, before, here: { 'retention.ms': '1' } });
    assert.deepEqual(found.changes, [{ name: 'retention.ms', value: null }]);
    assert.deepEqual(found.synced, {});
  });

  test('keeps an edit made here, also when the source changes later (D10)', () => {
    const found = compare({
      source: { 'retention.ms': '2' },
      before: { 'retention.ms': '1' },
      here: { 'retention.ms': '7' },
    });
    assert.deepEqual(found.changes, []);
    assert.deepEqual(found.localEdits, [{ name: 'retention.ms', here: '7', source: '2' }]);
    assert.deepEqual(found.synced, { 'retention.ms': '1' });
  });

  test('that was removed here stays removed', () => {
    const both = { 'retention.ms': '1' };
    const found = compare({ source: both, before: both, here: {} });
    assert.deepEqual(found.localEdits, [{ name: 'retention.ms', here: null, source: '1' }]);
  });

  test('follows again once it was set to what the source has', () => {
    const found = compare({
      source: { 'retention.ms': '2' },
      before: { 'retention.ms': '1' },
      here: { 'retention.ms': '2' },
    });
    assert.deepEqual([found.changes, found.localEdits], [[], []]);
    assert.deepEqual(found.synced, { 'retention.ms': '2' });
  });

  test('of which nothing was recorded is taken over where it is not set here', () => {
    const source = { 'retention.ms': '2', 'segment.ms': '3' };
    const found = compare({ source, before: null, here: { 'segment.ms': '9' } });
    assert.deepEqual(found.changes, [{ name: 'retention.ms', value: '2' }]);
    assert.deepEqual(found.localEdits, [{ name: 'segment.ms', here: '9', source: '3' }]);
  });
});

describe('a key that always follows', () => {
  test('overrules an edit made here', () => {
    const same = { 'max.message.bytes': '100' };
    const found = compare({ source: same, before: same, here: { 'max.message.bytes': '5' } });
    assert.deepEqual(found.changes, [{ name: 'max.message.bytes', value: '100' }]);
  });

  test('is not set again when the destination has its value anyway', () => {
    const found = diffConfigs({
      desired: { 'max.message.bytes': '100' },
      before: {},
      actual: new Map([['max.message.bytes', { value: '100', isSet: false }]]),
      include: syncableConfigs,
    });
    assert.deepEqual(found.changes, []);
  });

  test('is left alone when an old source does not know it', () => {
    const found = compare({ source: {}, before: {}, here: { 'message.timestamp.type': 'x' } });
    assert.deepEqual(found.changes, []);
  });

  test('the order of cleanup policies means nothing', () => {
    const found = compare({
      source: { 'cleanup.policy': 'compact,delete' },
      before: {},
      here: { 'cleanup.policy': 'delete, compact', 'delete.retention.ms': pinned },
    });
    assert.deepEqual(found.changes, []);
  });
});

describe('what is never touched', () => {
  test('min.insync.replicas and its like, whatever the source has (D10)', () => {
    const names = ['min.insync.replicas', 'unclean.leader.election.enable'];
    const here = Object.fromEntries(names.map((name) => [name, '2']));
    const source = Object.fromEntries(names.map((name) => [name, '1']));
    const found = compare({ source, before: {}, here });
    assert.deepEqual([found.changes, found.localEdits, found.synced], [[], [], {}]);
  });

  test('a key that is not included (D09)', () => {
    const include = ['cleanup.policy', 'max.message.bytes', 'message.timestamp.type'];
    const found = compare({ source: { 'segment.bytes': '5' }, before: {}, here: {}, include });
    assert.deepEqual(found.changes, []);
  });
});

describe('tombstones', () => {
  test('of a topic that becomes compacted are pinned first, over an edit', () => {
    const found = compare({
      source: { 'cleanup.policy': 'compact', 'delete.retention.ms': '5' },
      before: { 'cleanup.policy': 'delete', 'delete.retention.ms': '5' },
      here: { 'cleanup.policy': 'delete', 'delete.retention.ms': '8' },
    });
    assert.deepEqual(found.changes, [
      { name: 'delete.retention.ms', value: pinned },
      { name: 'cleanup.policy', value: 'compact' },
    ]);
  });

  test('of a topic that is compacted no more are as the source wants them', () => {
    const compacted = { 'cleanup.policy': 'compact', 'delete.retention.ms': pinned };
    const back = compare({
      source: { 'cleanup.policy': 'delete', 'delete.retention.ms': '5' },
      before: compacted,
      here: compacted,
    });
    assert.deepEqual(back.changes, [
      { name: 'cleanup.policy', value: 'delete' },
      { name: 'delete.retention.ms', value: '5' },
    ]);
    const excluded = compare({
      source: { 'cleanup.policy': 'delete' },
      before: compacted,
      here: compacted,
      include: ['cleanup.policy'],
    });
    assert.deepEqual(excluded.changes.at(-1), { name: 'delete.retention.ms', value: null });
  });
});

test('records are compared by what they hold', () => {
  assert.equal(isSameRecord({ a: '1' }, { a: '1' }), true);
  assert.equal(isSameRecord({ a: '1', b: '2' }, { a: '1' }), false);
  assert.equal(isSameRecord(undefined, {}), false);
});

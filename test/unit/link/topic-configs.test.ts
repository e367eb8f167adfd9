// Configs of a new shell: what is taken from the source, what never, and the pin of compacted
// topics.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  otherConfigs,
  refusedOverride,
  type SourceConfig,
  shellConfigs as shellOf,
  syncedConfigs,
} from '../../../src/link/mirror/topic-configs.ts';

function shellConfigs(source: readonly SourceConfig[], overrides: Record<string, string>) {
  return shellOf(syncedConfigs(source), overrides);
}

function config(name: string, value: string | null, configSource = 1) {
  return { name, value, configSource };
}

test('what somebody set is taken, and what is always synced', () => {
  const source = [
    config('cleanup.policy', 'delete', 5),
    config('max.message.bytes', '1048588', 5),
    config('retention.ms', '1000', 4),
    config('segment.bytes', '7', 5),
    config('compression.type', 'zstd'),
    config('segment.ms', null),
  ];
  assert.deepEqual(shellConfigs(source, {}), {
    'cleanup.policy': 'delete',
    'max.message.bytes': '1048588',
    'retention.ms': '1000',
    'compression.type': 'zstd',
  });
});

test('what could weaken or block the destination’s replication is never taken', () => {
  const source = [
    config('min.insync.replicas', '3'),
    config('unclean.leader.election.enable', 'true'),
    config('follower.replication.throttled.replicas', '*'),
    config('remote.storage.enable', 'true'),
    config('unknown.to.us', 'x'),
  ];
  assert.deepEqual(shellConfigs(source, {}), {});
});

test('a compacted shell keeps its tombstones, whatever the source or the operator says', () => {
  const pinned = '9223372036854775807';
  for (const policy of ['compact', 'delete,compact', 'compact, delete']) {
    const source = [config('cleanup.policy', policy), config('delete.retention.ms', '5')];
    assert.equal(shellConfigs(source, {})['delete.retention.ms'], pinned, policy);
    const overrides = { 'delete.retention.ms': '6' };
    assert.equal(shellConfigs(source, overrides)['delete.retention.ms'], pinned, policy);
  }
});

test('the old timestamp setting becomes its two successors', () => {
  const source = [config('message.timestamp.difference.max.ms', '42')];
  assert.deepEqual(shellConfigs(source, {}), {
    'message.timestamp.before.max.ms': '42',
    'message.timestamp.after.max.ms': '42',
  });
});

test('an override of an always-synced key is refused by name', () => {
  assert.match(refusedOverride({ 'cleanup.policy': 'delete' }) ?? '', /cleanup\.policy/);
  assert.equal(refusedOverride({ 'retention.ms': '1' }), null);
});

test('what is not included is not taken, but the tombstones of a compacted shell are kept', () => {
  const source = [
    config('cleanup.policy', 'compact'),
    config('segment.bytes', '1048576'),
    config('delete.retention.ms', '5'),
    config('retention.ms', '1000'),
  ];
  assert.deepEqual(syncedConfigs(source, new Set(['cleanup.policy', 'retention.ms'])), {
    'cleanup.policy': 'compact',
    'retention.ms': '1000',
    'delete.retention.ms': '9223372036854775807',
  });
});

test('a topic that was made with exactly what was asked for can be ours, any other cannot', () => {
  const asked = { 'cleanup.policy': 'delete', 'retention.ms': '1000' };
  const own = [config('retention.ms', '1000'), config('cleanup.policy', 'delete')];
  const inherited = config('segment.bytes', '7', 4);
  assert.equal(otherConfigs(asked, [...own, inherited]), null);
  assert.match(otherConfigs(asked, [config('retention.ms', '1000')]) ?? '', /cleanup\.policy/);
  assert.match(otherConfigs(asked, [...own, config('segment.ms', '5')]) ?? '', /segment\.ms/);
  assert.match(
    otherConfigs(asked, [config('cleanup.policy', 'delete'), config('retention.ms', '2')]) ?? '',
    /retention\.ms=2, not with 1000/,
  );
});

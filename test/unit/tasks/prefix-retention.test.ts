// What a promoted topic's configs let go of its mirrored prefix.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { retentionRules } from '../../../src/tasks/prefix-retention.ts';

const nowMs = 1_000_000;

function rules(configs: Record<string, string | null>) {
  return retentionRules(new Map(Object.entries(configs)), nowMs);
}

test('age and size limit what cleanup.policy lets go', () => {
  const limits = { 'retention.ms': '400000', 'retention.bytes': '5000' };
  assert.deepEqual(rules({ 'cleanup.policy': 'delete', ...limits }), {
    oldestTimestamp: 600_000n,
    bytesMax: 5000,
  });
  assert.deepEqual(rules({ 'cleanup.policy': 'compact, delete', ...limits }), {
    oldestTimestamp: 600_000n,
    bytesMax: 5000,
  });
  assert.equal(rules({ 'cleanup.policy': 'compact', ...limits }), null);
});

test('what is not known or not limited keeps everything', () => {
  assert.equal(rules({}), null);
  assert.equal(rules({ 'cleanup.policy': null, 'retention.ms': '1' }), null);
  const unlimited = { 'cleanup.policy': 'delete', 'retention.ms': '-1', 'retention.bytes': '-1' };
  assert.equal(rules(unlimited), null);
  assert.equal(rules({ 'cleanup.policy': 'delete', 'retention.ms': 'soon' }), null);
  const eternal = { ...unlimited, 'retention.ms': '9223372036854775807' };
  assert.equal(rules(eternal), null);
  assert.deepEqual(rules({ ...unlimited, 'retention.bytes': '7' }), {
    oldestTimestamp: null,
    bytesMax: 7,
  });
});

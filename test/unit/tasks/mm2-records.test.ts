// Records in MirrorMaker 2's formats against the bytes that Kafka's own classes write.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkpointRecord, heartbeatRecord } from '../../../src/tasks/mm2-records.ts';

function hex({ key, value }: { key: Buffer; value: Buffer }): [string, string] {
  return [key.toString('hex'), value.toString('hex')];
}

test('a heartbeat is what MirrorMaker 2 writes', () => {
  const heartbeat = { source: 'A', target: 'B', timeMs: 1_700_000_000_000 };
  assert.deepEqual(hex(heartbeatRecord(heartbeat)), ['000141000142', '00000000018bcfe56800']);
});

test('a checkpoint is what MirrorMaker 2 writes', () => {
  const checkpoint = { group: 'g1', topic: 't', partition: 0, offset: 42n };
  const value = '0000000000000000002a000000000000002a0000';
  assert.deepEqual(hex(checkpointRecord(checkpoint)), ['0002673100017400000000', value]);
});

test('names are counted in bytes', () => {
  const { key } = checkpointRecord({ group: 'é', topic: 't', partition: 1, offset: 1n });
  assert.equal(key.toString('hex'), '0002c3a900017400000001');
});

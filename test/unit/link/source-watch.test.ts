// What a source's metadata means for a mirror.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { zeroUuid } from '../../../protocol/index.ts';
import type { TopicInfo } from '../../../src/cluster/cluster.ts';
import { examine, Lasting } from '../../../src/link/source-watch.ts';
import type { TopicRecord } from '../../../src/state/records.ts';
import { virtualOffset } from '../../../src/timeline/offsets.ts';
import { newMirror } from '../../../src/timeline/timeline.ts';
import { mirrorRecord } from './fakes.ts';

const id = 'AAAAAAAAAAAAAAAAAAAAAQ';
const otherId = 'AAAAAAAAAAAAAAAAAAAAAg';

function record(partitions: number, sourceTopicId = id): TopicRecord {
  return mirrorRecord({
    topicId: otherId,
    sourceTopicId,
    partitions: Array.from({ length: partitions }, () => newMirror(virtualOffset(0n))),
  });
}

function info(partitions: number, parts: { topicId?: string; errorCode?: number } = {}): TopicInfo {
  return {
    name: 'orders',
    topicId: parts.topicId ?? id,
    isInternal: false,
    errorCode: parts.errorCode ?? 0,
    partitions: Array.from({ length: partitions }, (_, partition) => ({
      partition,
      leaderId: 1,
      leaderEpoch: 0,
      replicaNodes: [1],
      errorCode: 0,
    })),
  };
}

function kindOf(finding: ReturnType<typeof examine>): string {
  return 'error' in finding ? `${finding.kind} ${finding.error.code}` : finding.kind;
}

test('R9: recreated, shrunk, grown, gone, unreadable', () => {
  assert.equal(kindOf(examine(record(3), info(3))), 'as-is');
  assert.equal(kindOf(examine(record(3), info(5))), 'grown');
  assert.equal(kindOf(examine(record(3), undefined)), 'missing');
  assert.equal(kindOf(examine(record(3), info(0, { errorCode: 3 }))), 'missing');
  assert.equal(kindOf(examine(record(3), info(0, { errorCode: 29 }))), 'unreadable');
  const recreated = 'other SOURCE_TOPIC_ID_CHANGED';
  assert.equal(kindOf(examine(record(3), info(3, { topicId: otherId }))), recreated);
  assert.equal(kindOf(examine(record(3), info(9, { topicId: otherId }))), recreated);
  // Under the same id a topic cannot shrink: some broker is behind, unless it lasts.
  assert.equal(kindOf(examine(record(3), info(2))), 'shrunk SOURCE_PARTITIONS_DECREASED');
  const withoutIds = examine(record(3, zeroUuid), info(2, { topicId: zeroUuid }));
  assert.equal(kindOf(withoutIds), 'other SOURCE_PARTITIONS_DECREASED');
});

test('only what lasts without a break counts', () => {
  const lasting = new Lasting();
  assert.equal(lasting.note('orders', 0, 100), false);
  assert.equal(lasting.note('orders', 99, 100), false);
  lasting.clear('orders');
  assert.equal(lasting.note('orders', 150, 100), false);
  assert.equal(lasting.note('orders', 250, 100), true);
  assert.equal(lasting.note('other', 250, 0), true);
});

test('what nobody looked at for a while has not lasted', () => {
  const lasting = new Lasting();
  lasting.note('orders', 0, 100);
  lasting.note('other', 0, 100);
  lasting.keep((topic) => topic === 'other');
  assert.equal(lasting.note('orders', 500, 100), false);
  assert.equal(lasting.note('other', 500, 100), true);
});

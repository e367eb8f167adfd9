// Which source topic a mirror is compared with: the one that was mirrored, and no other that has
// its name, whose ends would say that there is nothing to compare.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MirrorTopic } from '../../../src/link/mirror/mirror-topics.ts';
import { verifyMirror } from '../../../src/link/mirror/verify.ts';
import type { LinkRecord } from '../../../src/state/records.ts';
import {
  batch,
  FakeCluster,
  mirrorRecord,
  openTestStorage,
  shellId,
  sourceId,
  topicInfo,
} from './fakes.ts';

const request = {
  ...{ topic: 'orders', partition: 0, bytesPerSecond: 1 << 20 },
  ...{ since: null, from: null, end: null, hash: null },
};

test('R9: a mirror was found equal to an empty topic that had taken the name of its source', async (t) => {
  const { storage } = await openTestStorage(t);
  const log = await storage.create({ topicId: shellId, partition: 0 }, 0n);
  await log.append(batch({ base: 0n, count: 3 }));
  await log.flush();
  const record = mirrorRecord();
  const topic = { name: 'orders', record, partitions: [{ log }] } as unknown as MirrorTopic;
  const source = new FakeCluster();
  const linkRecord = { sourceClusterId: source.clusterId } as LinkRecord;
  const link = { name: 'dr', record: linkRecord, connected: async () => source };
  source.topics.set('orders', topicInfo('orders', shellId, [0]));
  await assert.rejects(verifyMirror(topic, link, request), {
    ...{ name: 'LinkError', code: 'SOURCE_TOPIC_NOT_FOUND' },
    message: /nothing to compare 'orders' with: Source topic 'orders' was recreated/,
  });
  source.topics.set('orders', topicInfo('orders', sourceId, [0]));
  source.clusterId = 'another-cluster';
  await assert.rejects(verifyMirror(topic, link, request), /cluster another-cluster now/);
});

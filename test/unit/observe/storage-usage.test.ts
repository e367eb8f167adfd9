// What mirror logs take, asked of a storage that works and of one that does not.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Events } from '../../../src/observe/events.ts';
import { createMetrics } from '../../../src/observe/metrics.ts';
import { StorageUsageReader } from '../../../src/observe/storage-usage.ts';
import { StorageError } from '../../../storage/index.ts';
import { FakeLinks, linkStatus } from '../admin/fake-services.ts';

const usage = { usedBytes: 1, freeBytes: 2, totalBytes: 3, minFreeBytes: 1 };

test('a disk that could not be asked took all metrics and the status with it', async () => {
  let fault: Error | null = new StorageError('IO', 'statfs: input/output error');
  const storage = {
    refusal: null,
    usage: async () => {
      if (fault !== null) throw fault;
      return usage;
    },
  };
  const events = new Events();
  const reader = new StorageUsageReader(storage, events);
  const links = new FakeLinks();
  links.links.set('dr', linkStatus('dr'));
  const metrics = createMetrics(
    {
      version: '0.1.0',
      links,
      events,
      receipts: () => [],
      isOwner: () => true,
      storage: () => reader.read(),
      gateway: () => ({
        connections: 0,
        bytesFromClients: 0,
        bytesToClients: 0,
        heldBytes: 0,
        vanished: 0,
        certificateExpiresTimeMs: null,
        bypassGroups: [],
      }),
    },
    { partitions: true },
  );
  const shown = await metrics.text();
  metrics.close();
  assert.match(shown, /^causeway_storage_free_bytes (Nan|NaN)$/m);
  assert.match(shown, /^causeway_link_up\{link="dr"\} 1$/m);
  assert.equal(await reader.read(), null);
  assert.deepEqual(
    events.since(0).map(({ event, message }) => [event, message]),
    [
      [
        'storage_usage_unknown',
        'What mirror logs take and leave free cannot be read: statfs: input/output error.',
      ],
    ],
    'told once',
  );
  fault = null;
  assert.equal(await reader.read(), usage);
  fault = new TypeError('a fault of ours');
  await assert.rejects(reader.read(), /a fault of ours/);
});

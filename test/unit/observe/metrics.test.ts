// Metrics have the names of the design, and say NaN for what is not known.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TaskStatus } from '../../../src/link/service.ts';
import { Events } from '../../../src/observe/events.ts';
import { createMetrics, type MetricsEndpoint } from '../../../src/observe/metrics.ts';
import { FakeLinks, linkStatus, mirrorStatus, partitionStatus } from '../admin/fake-services.ts';

function metricsOf(
  links: FakeLinks,
  options: { partitions: boolean; events?: Events },
): MetricsEndpoint {
  return createMetrics(
    {
      version: '0.1.0',
      links,
      events: options.events ?? new Events(),
      receipts: () => links.receipts.values(),
      isOwner: () => true,
      storage: async () => ({
        usedBytes: 123,
        freeBytes: 456,
        totalBytes: 1000,
        minFreeBytes: 500,
      }),
      gateway: () => ({
        connections: 2,
        bytesFromClients: 10,
        bytesToClients: 20,
        heldBytes: 30,
        vanished: 3,
        certificateExpiresTimeMs: 1_900_000_000_500,
        bypassGroups: [
          { group: 'g', topics: ['orders'], members: [{ clientId: 'c', host: '10.0.0.7' }] },
        ],
      }),
    },
    { partitions: options.partitions },
  );
}

async function samples(metrics: MetricsEndpoint): Promise<string[]> {
  const text = await metrics.text();
  return text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
}

function filledLinks(): FakeLinks {
  const links = new FakeLinks();
  const recorded = { isContactRecorded: true, isRpoAtMost: true, rpoUnknownTopics: ['fresh'] };
  links.links.set('dr', linkStatus('dr', recorded));
  const partitions = [
    partitionStatus(),
    partitionStatus({
      partition: 1,
      lagRecords: null,
      lagRecordsMin: 7n,
      lagBytes: null,
      lagSeconds: null,
      isStalled: true,
      damagedRanges: 3,
    }),
  ];
  links.mirrors.set('orders', mirrorStatus('orders', { partitions }));
  return links;
}

test('links, mirrors, storage and gateway are shown under their names', async () => {
  const metrics = metricsOf(filledLinks(), { partitions: true });
  const lines = await samples(metrics);
  metrics.close();
  for (const line of [
    'causeway_link_up{link="dr"} 1',
    'causeway_link_last_contact_timestamp_seconds{link="dr"} 5',
    'causeway_link_rpo_seconds{link="dr"} 0.25',
    'causeway_link_contact_recorded{link="dr"} 1',
    'causeway_link_rpo_at_most{link="dr"} 1',
    'causeway_link_rpo_unknown_mirrors{link="dr"} 1',
    'causeway_task_last_success_timestamp_seconds{link="dr",task="ConsumerOffsetSync"} 5',
    'causeway_groups_held{link="dr",reason="clamped"} 1',
    'causeway_mirror_state{link="dr",topic="orders",state="ACTIVE"} 1',
    'causeway_mirror_lag_records{link="dr",topic="orders",partition="0"} 10',
    'causeway_mirror_lag_records{link="dr",topic="orders",partition="1"} Nan',
    'causeway_mirror_lag_records_min{link="dr",topic="orders",partition="1"} 7',
    'causeway_mirror_lag_bytes{link="dr",topic="orders",partition="0"} 640',
    'causeway_mirror_lag_bytes{link="dr",topic="orders",partition="1"} Nan',
    'causeway_mirror_lag_seconds{link="dr",topic="orders",partition="0"} 1.5',
    'causeway_mirror_stalled_partitions{link="dr",topic="orders"} 1',
    'causeway_mirror_damaged_ranges{link="dr",topic="orders"} 3',
    'causeway_storage_used_bytes 123',
    'causeway_storage_free_bytes 456',
    'causeway_storage_full 1',
    'causeway_storage_hours_to_full 0',
    'causeway_state_owner 1',
    'causeway_gateway_connections 2',
    'causeway_gateway_held_bytes 30',
    'causeway_gateway_vanished_peers_total 3',
    'causeway_tls_certificate_expiry_timestamp_seconds{listener="gateway"} 1900000000.5',
    'causeway_bypass_group_members{group="g"} 1',
    'causeway_gateway_bytes_total{direction="in"} 10',
    'causeway_gateway_bytes_total{direction="out"} 20',
  ]) {
    assert.ok(lines.includes(line), `${line} is missing in\n${lines.join('\n')}`);
  }
  assert.ok(lines.some((line) => line.startsWith('causeway_build_info{version="0.1.0"')));
  assert.ok(
    lines.some((line) => line.startsWith('causeway_event_loop_delay_seconds{quantile="1"}')),
  );
});

test('every metric that others are written against is there, by name', async () => {
  const metrics = metricsOf(filledLinks(), { partitions: true });
  const text = await metrics.text();
  metrics.close();
  for (const name of [
    'link_up',
    'link_last_contact_timestamp_seconds',
    'link_rpo_seconds',
    'mirror_lag_records',
    'mirror_lag_bytes',
    'mirror_lag_seconds',
    'mirror_state',
    'mirror_stalled_partitions',
    'mirror_damaged_ranges',
    'mirror_missing_partitions',
    'mirror_lost_records_total',
    'mirror_stray_records',
    'task_last_success_timestamp_seconds',
    'task_errors_total',
    'groups_held',
    'storage_used_bytes',
    'storage_free_bytes',
    'tls_certificate_expiry_timestamp_seconds',
    'state_owner',
    'gateway_connections',
    'gateway_bytes_total',
    'event_loop_delay_seconds',
    'build_info',
  ]) {
    assert.match(text, new RegExp(`^# TYPE causeway_${name} (gauge|counter)$`, 'm'));
  }
});

test('what is gone disappears, and receipts count once however often they are read', async () => {
  const links = filledLinks();
  const metrics = metricsOf(links, { partitions: true });
  const request = {
    command: 'failover',
    link: null,
    topics: ['orders'],
    validateOnly: false,
  } as const;
  await links.command({ ...request, actor: 'x' });
  const total = 'causeway_mirror_lost_records_total{link="dr",topic="orders"} 10';
  assert.ok((await samples(metrics)).includes(total));
  assert.ok((await samples(metrics)).includes(total));
  links.mirrors.clear();
  const lines = await samples(metrics);
  metrics.close();
  assert.ok(!lines.some((line) => line.startsWith('causeway_mirror_state')));
});

test('R10: history that was lost before it was read is counted', async () => {
  const links = new FakeLinks();
  const lostTotals = [
    { partition: 0, ranges: 1, records: 3n },
    { partition: 1, ranges: 2, records: 4n },
  ];
  links.mirrors.set('orders', mirrorStatus('orders', { lostTotals }));
  const metrics = metricsOf(links, { partitions: false });
  const total = 'causeway_mirror_lost_records_total{link="dr",topic="orders"} 7';
  assert.ok((await samples(metrics)).includes(total));
  metrics.close();
});

test('R15: partitions that a mirror lacks are counted', async () => {
  const links = filledLinks();
  const growth = { sourcePartitions: 5, sinceTimeMs: 1, cause: null };
  links.mirrors.set('lacking', mirrorStatus('lacking', { growth }));
  const metrics = metricsOf(links, { partitions: false });
  const lines = await samples(metrics);
  metrics.close();
  for (const [topic, count] of Object.entries({ lacking: 4, orders: 0 })) {
    const line = `causeway_mirror_missing_partitions{link="dr",topic="${topic}"} ${count}`;
    assert.ok(lines.includes(line), `${line} is missing in\n${lines.join('\n')}`);
  }
});

test('partition labels can be turned off; an unknown part makes the whole unknown', async () => {
  const metrics = metricsOf(filledLinks(), { partitions: false });
  const lines = await samples(metrics);
  metrics.close();
  assert.ok(lines.includes('causeway_mirror_lag_records{link="dr",topic="orders"} Nan'));
  assert.ok(!lines.some((line) => line.includes('partition=')));
});

test('drift is what the last round of each task that compares has found', async () => {
  const links = filledLinks();
  const task: TaskStatus = {
    name: 'TopicConfigsSync',
    state: 'ACTIVE',
    errors: [],
    lastSuccessTimeMs: 5000,
  };
  const tasks = [
    { ...task, counts: { drift: 3, localEdits: 2 } },
    { ...task, name: 'AclSync', counts: { drift: 0 } },
    { ...task, name: 'HeartbeatEmit', counts: { written: 1 } },
  ];
  links.links.set('dr', linkStatus('dr', { tasks }));
  const metrics = metricsOf(links, { partitions: true });
  const lines = await samples(metrics);
  metrics.close();
  assert.deepEqual(
    lines.filter((line) => line.startsWith('causeway_link_drift')),
    [
      'causeway_link_drift{link="dr",task="TopicConfigsSync"} 3',
      'causeway_link_drift{link="dr",task="AclSync"} 0',
    ],
  );
});

test('errors of tasks are counted by code', async () => {
  const events = new Events();
  const metrics = metricsOf(filledLinks(), { partitions: true, events });
  const fields = { link: 'dr', task: 'ConsumerOffsetSync', code: 'AUTHORIZATION_ERROR' };
  events.warn('task_failed', 'Refused.', fields);
  events.warn('task_failed', 'Refused.', fields);
  events.info('task_recovered', 'Works again.', fields);
  const lines = await samples(metrics);
  metrics.close();
  const labels = 'link="dr",task="ConsumerOffsetSync",code="AUTHORIZATION_ERROR"';
  assert.ok(lines.includes(`causeway_task_errors_total{${labels}} 2`), lines.join('\n'));
});

test('errors of the tasks of a deleted link were shown for ever', async () => {
  const events = new Events();
  const links = filledLinks();
  links.links.set('old', linkStatus('old'));
  const metrics = metricsOf(links, { partitions: true, events });
  for (const link of ['dr', 'old'])
    events.warn('task_failed', 'Refused.', { link, task: 'AclSync' });
  const named = async (): Promise<string[]> =>
    (await samples(metrics)).filter((line) => line.startsWith('causeway_task_errors_total'));
  assert.equal((await named()).length, 2);
  links.links.delete('old');
  assert.deepEqual(await named(), [
    'causeway_task_errors_total{link="dr",task="AclSync",code="task_failed"} 1',
  ]);
  metrics.close();
});

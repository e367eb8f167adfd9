// docs/metrics.md has every metric that `/metrics` has, in its own words. With UPDATE_DOCS=1 it is
// written.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { Events } from '../../../src/observe/events.ts';
import { createMetrics } from '../../../src/observe/metrics.ts';
import { rootDirectory } from '../../helpers/repository.ts';
import { FakeLinks } from '../admin/fake-services.ts';

const head = `# Metrics

\`GET /metrics\` of the admin port, for Prometheus. What is not known is NaN, never 0. Metrics of
links have the label \`link\`, those of mirrors \`link\` and \`topic\`, and lags \`partition\` as
well, unless \`admin.partitionMetrics\` is false: then they are sums and maxima by topic. What the
figures mean: [mirroring.md](mirroring.md#lag). This page is made from the code.

| metric | kind | what it says |
|---|---|---|
`;

async function document(): Promise<string> {
  const metrics = createMetrics(
    {
      version: '0.1.0',
      links: new FakeLinks(),
      events: new Events(),
      receipts: () => [],
      isOwner: () => true,
      storage: async () => null,
      gateway: () => ({
        ...{ connections: 0, bytesFromClients: 0, bytesToClients: 0, heldBytes: 0, vanished: 0 },
        ...{ certificateExpiresTimeMs: null, bypassGroups: [] },
      }),
    },
    { partitions: true },
  );
  const text = await metrics.text();
  metrics.close();
  const told = text.matchAll(/^# HELP (\w+) (.*)\n# TYPE \w+ (\w+)$/gm);
  const rows = [...told].map(([, name, help, kind]) => `| \`${name}\` | ${kind} | ${help} |\n`);
  assert.ok(rows.length > 30);
  return head + rows.sort().join('');
}

test('docs/metrics.md says what /metrics says', async () => {
  const file = path.join(rootDirectory, 'docs/metrics.md');
  if (process.env.UPDATE_DOCS === '1') writeFileSync(file, await document());
  assert.equal(readFileSync(file, 'utf8'), await document());
});

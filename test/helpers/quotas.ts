// Quotas of a test's cluster. Owns the one request that sets or removes one. Knows nothing of what
// they do. Invariant: a quota that the cluster refuses fails the test.
import assert from 'node:assert/strict';
import { alterClientQuotasRequestCodec } from '../../protocol/generated/alter-client-quotas-request.ts';
import { alterClientQuotasResponseCodec } from '../../protocol/generated/alter-client-quotas-response.ts';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { apiOf } from '../../src/gateway/messages.ts';

export interface QuotaOf {
  readonly entityType: 'ip' | 'client-id' | 'user';
  readonly entityName: string;
}

/** A value of null takes the quota away again. */
export async function setQuota(
  cluster: Cluster,
  of: QuotaOf,
  quota: { readonly key: string; readonly value: number | null },
): Promise<void> {
  const api = apiOf(alterClientQuotasRequestCodec, alterClientQuotasResponseCodec);
  const op = { key: quota.key, value: quota.value ?? 0, remove: quota.value === null };
  const request = { entries: [{ entity: [of], ops: [op] }], validateOnly: false };
  const { entries } = await cluster.send({ kind: 'controller' }, api, request);
  assert.equal(entries[0]?.errorCode, 0, entries[0]?.errorMessage ?? quota.key);
}

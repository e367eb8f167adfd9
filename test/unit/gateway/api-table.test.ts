// The reviewed table against the message definitions: nothing that nobody looked at, no field with
// a broker's address or id that was overlooked (R2), and no version beyond what handlers can
// decode.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { unmarkedNodeIdFacts } from '../../../protocol/field-audit.ts';
import { fieldFacts } from '../../../protocol/generated/field-facts.ts';
import { ApiKey, apis } from '../../../protocol/index.ts';
import { apiTable } from '../../../src/gateway/api-table.ts';
import { createHandlers } from '../../../src/gateway/handler-table.ts';
import { OwnTopics } from '../../../src/gateway/own-topics.ts';
import { advertisedRange, Router } from '../../../src/gateway/router.ts';
import { auditedFields } from './audited-fields.ts';

test('every API key of this Kafka release was reviewed, and no other is in the table', () => {
  assert.deepEqual(
    [...apiTable.keys()].sort((a, b) => a - b),
    apis.map(({ key }) => key).sort((a, b) => a - b),
  );
});

test('every version was reviewed', () => {
  for (const api of apis) {
    const reviewed = apiTable.get(api.key);
    assert.ok(reviewed, api.name);
    assert.equal(reviewed.versionMax, api.versionMax, `${api.name}: highest version`);
    // SaslHandshake 0 is refused on purpose.
    const min = api.key === ApiKey.SaslHandshake ? 1 : api.versionMin;
    assert.equal(reviewed.versionMin, min, `${api.name}: lowest version`);
    assert.ok(reviewed.why.length > 10, api.name);
  }
});

test('APIs that are not for the broker listener are hidden', () => {
  for (const api of apis) {
    if (!api.listeners.includes('broker')) {
      assert.equal(apiTable.get(api.key)?.handling, 'hidden', api.name);
    }
  }
});

test('every handled API has a handler, and nothing else has one', () => {
  const handlers = createHandlers(new OwnTopics('__causeway'));
  const handled = [...apiTable.values()]
    .filter(({ handling, key }) => handling === 'handled' && key !== ApiKey.ApiVersions)
    .map(({ key }) => key);
  assert.deepEqual(
    [...handlers.keys()].sort((a, b) => a - b),
    handled.sort((a, b) => a - b),
  );
  const router = new Router(handlers);
  const header = { apiKey: ApiKey.Envelope, apiVersion: 0, correlationId: 1, clientId: null };
  const versions = new Map([[ApiKey.Envelope as number, { min: 0, max: 0 }]]);
  assert.equal(router.route(header, versions).kind, 'refused');
});

test('a version outside what the broker or the table has is refused by name', () => {
  const router = new Router(createHandlers(new OwnTopics('__causeway')));
  const header = { apiKey: ApiKey.Fetch, apiVersion: 18, correlationId: 1, clientId: null };
  const older = new Map([[ApiKey.Fetch as number, { min: 4, max: 17 }]]);
  const refused = router.route(header, older);
  assert.ok(refused.kind === 'refused');
  assert.match(refused.reason, /Fetch version 18 is not served here, only 4-17/);
  assert.equal(router.route({ ...header, apiVersion: 17 }, older).kind, 'handler');
  assert.equal(router.route({ ...header, apiVersion: 3 }, older).kind, 'refused');
  const nothing = router.route(header, new Map());
  assert.ok(nothing.kind === 'refused');
  assert.match(nothing.reason, /Fetch \(key 1\) is not served here/);
});

test('Produce is advertised from 0 on, but served from 3 on', () => {
  const broker = { min: 0, max: 13 };
  assert.deepEqual(advertisedRange(ApiKey.Produce, broker), { min: 0, max: 13 });
  const router = new Router(createHandlers(new OwnTopics('__causeway')));
  const header = { apiKey: ApiKey.Produce, apiVersion: 2, correlationId: 1, clientId: null };
  assert.equal(router.route(header, new Map([[0, broker]])).kind, 'refused');
});

/** `2-3`, `1`, `16-18`: the lowest version that has the field. */
function versionMin(versions: string): number {
  return Number(versions.split('-')[0]?.replace('+', ''));
}

test('R2: every field with a broker address or id in an advertised response was audited', () => {
  const used = new Set<string>();
  // Some definitions do not mark node ids as such: KIP-951's in ShareFetch and ShareAcknowledge.
  const unmarked = new Set(unmarkedNodeIdFacts().map(({ message, path }) => `${message}.${path}`));
  for (const { message, path, versions, entityType } of fieldFacts) {
    if (!message.endsWith('Response')) continue;
    const isAddress = /(^|\.)(host|port)$/i.test(path);
    const isNodeId = entityType === 'brokerId' || unmarked.has(`${message}.${path}`);
    if (!isAddress && !isNodeId) continue;
    const api = apis.find(({ name }) => `${name}Response` === message);
    const reviewed = api && apiTable.get(api.key);
    assert.ok(reviewed, message);
    if (reviewed.handling === 'hidden' || versionMin(versions) > reviewed.versionMax) continue;
    const field = `${message}.${path}`;
    const entry = Object.keys(auditedFields)
      .filter((prefix) => field.startsWith(prefix))
      .sort((a, b) => b.length - a.length)[0];
    assert.ok(entry !== undefined, `${field} (versions ${versions}) was not audited`);
    used.add(entry);
    const verdict = auditedFields[entry] ?? '';
    if (verdict.startsWith('rewritten')) {
      assert.equal(reviewed.handling, 'handled', `${field} is said to be rewritten`);
    } else if (isAddress && !verdict.startsWith('asked')) {
      assert.match(verdict, /client|application/, `${field} is an address that is not rewritten`);
    }
  }
  assert.deepEqual([...used].sort(), Object.keys(auditedFields).sort(), 'no stale entry');
});

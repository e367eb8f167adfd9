// Link settings: what is accepted and means what, what is refused by name, and that no secret is
// repeated.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { LinkError } from '../../../src/link/link-error.ts';
import {
  changedConfigs,
  checkLinkName,
  linkSettingDefaults,
  parseLinkSettings,
} from '../../../src/link/settings/link-settings.ts';

const base = { 'bootstrap.servers': 'a:9092' };

function refused(pattern: RegExp) {
  return (error: unknown): boolean => {
    assert.ok(error instanceof LinkError, String(error));
    assert.equal(error.code, 'INVALID_CONFIG');
    assert.match(error.message, pattern);
    return true;
  };
}

describe('link settings', () => {
  test('have defaults, and every default is accepted', () => {
    const settings = parseLinkSettings({ ...linkSettingDefaults, ...base });
    assert.equal(settings.offsetSync.enabled, false);
    assert.equal(settings.offsetSync.periodMs, 1000);
    assert.equal(settings.paused, false);
    assert.equal(settings.prefix, '');
    assert.deepEqual(settings.bootstrapServers, ['a:9092']);
  });

  test('take lists, maps and protocol prefixes', () => {
    const settings = parseLinkSettings({
      'bootstrap.servers': ' PLAINTEXT://a:9092 , [::1]:9093 ',
      'address.map': 'x.internal:9092=10.0.0.1:19092, y:1=z:2',
      'cluster.link.prefix': 'us-east.',
    });
    assert.deepEqual(settings.bootstrapServers, ['a:9092', '[::1]:9093']);
    assert.deepEqual(settings.addressMap, { 'x.internal:9092': '10.0.0.1:19092', 'y:1': 'z:2' });
    assert.equal(settings.prefix, 'us-east.');
  });

  const wrong: readonly [Record<string, string>, RegExp][] = [
    [{}, /bootstrap\.servers' is missing/],
    [{ ...base, 'cluster.link.prefx': 'a' }, /'cluster\.link\.prefx' is unknown/],
    [{ 'bootstrap.servers': 'a' }, /HOST:PORT: 'a'/],
    [{ 'bootstrap.servers': 'a:99999' }, /HOST:PORT/],
    [{ ...base, 'address.map': 'a:1' }, /ADVERTISED=REACHABLE/],
    [{ ...base, 'consumer.offset.sync.ms': '1s' }, /consumer\.offset\.sync\.ms' must be a whole/],
    [{ ...base, 'consumer.offset.sync.enable': 'yes' }, /'true' or 'false'/],
    [{ ...base, 'consumer.offset.group.filters': '{"a":1}' }, /group\.filters' has an unknown key/],
    [{ ...base, 'security.protocol': 'SASL_SSL' }, /'sasl\.mechanism' is missing/],
    [{ ...base, 'ssl.truststore.location': '/x' }, /'ssl\.truststore\.location' has no effect/],
    [{ ...base, 'ssl.provider': 'x' }, /'ssl\.provider' is not supported in this version/],
    [{ ...base, 'acl.sync.enable': 'yes' }, /'acl\.sync\.enable' must be 'true' or 'false'/],
    [{ ...base, 'acl.filters': '{"aclFilters":[{}]}' }, /'acl\.filters' aclFilters\[0\]/],
    [{ ...base, 'acl.sync.mode': 'exact' }, /'additive' or 'owned'/],
    [{ ...base, 'auto.create.mirror.topics.filters': '{"groupFilters":[]}' }, /groupFilters/],
    [{ ...base, 'auto.create.mirror.topics.max': '0' }, /whole number from 1/],
    [{ ...base, 'mirror.topic.replication.factor': '0' }, /must be -1/],
    [{ ...base, 'topic.config.sync.include': 'retention.ms' }, /must name 'cleanup\.policy'/],
    [{ ...base, 'topic.config.sync.include': 'min.insync.replicas' }, /never synchronised/],
    [{ ...base, 'topic.config.sync.include': 'no.such' }, /'no\.such', which cannot/],
    [
      { ...base, 'mirror.start.offset.spec': 'soon' },
      /start\.offset\.spec.*'latest' or a time.*soon/,
    ],
    [{ ...base, 'mirror.lost.history.policy': 'ask' }, /lost\.history\.policy.*'stop' or/],
    [{ ...base, 'num.cluster.link.fetchers': '33' }, /whole number from 1 to 32/],
    [{ ...base, 'replica.fetch.response.max.bytes': '67108865' }, /from 1024 to 67108864$/],
    [{ ...base, 'replica.fetch.max.bytes': '67108865' }, /from 1024 to 67108864$/],
    [{ ...base, 'cluster.link.io.max.bytes.per.second': '0' }, /whole number from 1/],
    [{ ...base, 'cluster.link.prefix': 'a/b' }, /topic name/],
  ];
  for (const [configs, pattern] of wrong) {
    test(`refused: ${JSON.stringify(configs)}`, () => {
      assert.throws(() => parseLinkSettings(configs), refused(pattern));
    });
  }

  test('R17: an inline secret is refused without being repeated', () => {
    const secret = 'hunter2';
    for (const name of ['sasl.jaas.config', 'ssl.key.password', 'ssl.keystore.key']) {
      assert.throws(
        () => parseLinkSettings({ ...base, [name]: secret }),
        (error: unknown) => {
          assert.ok(error instanceof LinkError, String(error));
          assert.match(error.message, /is a secret/);
          assert.equal(error.message.includes(secret), false);
          return true;
        },
      );
    }
  });

  test('change live, but for prefix and start offset', () => {
    const configs = { ...base, 'cluster.link.prefix': 'a.' };
    const changed = changedConfigs(configs, [{ name: 'cluster.link.paused', value: 'true' }]);
    assert.equal(parseLinkSettings(changed).paused, true);
    const back = changedConfigs(changed, [{ name: 'cluster.link.paused', value: null }]);
    assert.deepEqual(back, configs);
    assert.throws(
      () => changedConfigs(configs, [{ name: 'cluster.link.prefix', value: 'b.' }]),
      refused(/cannot be changed/),
    );
    assert.throws(
      () => changedConfigs(configs, [{ name: 'bootstrap.servers', value: null }]),
      refused(/missing/),
    );
    assert.throws(
      () => changedConfigs(configs, [{ name: 'no.such', value: null }]),
      refused(/'no\.such' is unknown/),
    );
    assert.deepEqual(
      changedConfigs(configs, [{ name: 'cluster.link.prefix', value: 'a.' }]),
      configs,
    );
  });

  test('names of links are checked', () => {
    for (const name of ['', '..', 'a b', 'a/b', 'x'.repeat(201)]) {
      assert.throws(() => checkLinkName(name), LinkError, name);
    }
    checkLinkName('dr-1.eu_west');
  });
});

test('a prefix that would make every mirror a topic of our own is refused by name', () => {
  const configs = { 'bootstrap.servers': 'a:1', 'cluster.link.prefix': '__causeway.' };
  assert.throws(() => parseLinkSettings(configs), /cluster\.link\.prefix.*__causeway/);
});

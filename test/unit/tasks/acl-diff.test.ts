// ACLs: Cluster Linking's filters, the prefix, and that only what the link made is ever deleted.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { linkSettingDefaults } from '../../../src/link/settings/link-settings.ts';
import { parseSyncSettings } from '../../../src/link/settings/sync-settings.ts';
import type { Acl } from '../../../src/state/records.ts';
import {
  type AclComparison,
  aclMap,
  diffAcls,
  grantsOfTopic,
  heldBack,
  mappedAcl,
} from '../../../src/tasks/acl-diff.ts';
import { parseAclFilters } from '../../../src/tasks/acl-filters.ts';
import { describeAcl } from '../../../src/tasks/acls.ts';

function acl(resourceName: string, changes: Partial<Acl> = {}): Acl {
  return {
    resourceType: 2,
    resourceName,
    patternType: 3,
    principal: 'User:app',
    host: '*',
    operation: 3,
    permissionType: 3,
    ...changes,
  };
}

interface Case {
  readonly desired?: readonly Acl[];
  readonly actual?: readonly Acl[];
  readonly owned?: readonly Acl[];
  readonly mode?: AclComparison['mode'];
  readonly isReleased?: (acl: Acl) => boolean;
}

function diff(parts: Case) {
  const { desired = [], actual = [], owned = [], mode = 'owned' } = parts;
  const isReleased = parts.isReleased ?? (() => false);
  return diffAcls({
    desired: aclMap(desired),
    actual: aclMap(actual),
    owned: aclMap(owned),
    mode,
    isReleased,
  });
}

describe('ACLs', () => {
  test('that are missing are made; without a difference there is nothing to do (D11)', () => {
    const wanted = [acl('a'), acl('b', { operation: 4 })];
    assert.deepEqual(diff({ desired: wanted, actual: [acl('a')] }).create, [wanted[1]]);
    const idle = diff({ desired: wanted, actual: wanted, owned: wanted });
    assert.deepEqual([idle.create, idle.remove, idle.left], [[], [], []]);
  });

  test('that the link made and the source lost are deleted in mode owned only (D11)', () => {
    const gone = { actual: [acl('a')], owned: [acl('a')] };
    assert.deepEqual(diff(gone).remove, [acl('a')]);
    const additive = diff({ ...gone, mode: 'additive' });
    assert.deepEqual([additive.remove, additive.left], [[], [acl('a')]]);
  });

  test('R16: made by somebody else are never deleted nor claimed', () => {
    const found = diff({ desired: [acl('a')], actual: [acl('a'), acl('hand')] });
    assert.deepEqual([found.remove, found.kept, found.create], [[], [], []]);
  });

  test('that somebody deleted here and the source lost are forgotten', () => {
    assert.deepEqual(diff({ owned: [acl('a')] }).kept, []);
    assert.deepEqual(diff({ owned: [acl('a')], desired: [acl('a')] }).kept, [acl('a')]);
  });

  test('of promoted topics are left as they are', () => {
    const isReleased = (one: Acl): boolean => one.resourceName === 'promoted';
    const found = diff({
      desired: [acl('promoted', { operation: 4 })],
      actual: [acl('promoted')],
      owned: [acl('promoted')],
      isReleased,
    });
    assert.deepEqual([found.create, found.remove, found.left], [[], [], [acl('promoted')]]);
  });

  test('differ in every field', () => {
    const changes: readonly Partial<Acl>[] = [
      { patternType: 4 },
      { principal: 'User:b' },
      { host: '10.0.0.1' },
      { operation: 4 },
      { permissionType: 2 },
      { resourceType: 3 },
    ];
    for (const change of changes) {
      assert.equal(diff({ desired: [acl('a', change)], actual: [acl('a')] }).create.length, 1);
    }
  });

  test('are described in words', () => {
    assert.equal(describeAcl(acl('a')), "allow User:app read on topic 'a' (literal)");
  });
});

describe('grants of WRITE that wait for promotions', () => {
  const write = { operation: 4 };
  const split = (desired: readonly Acl[], actual: readonly Acl[] = []) => {
    const { desired: free, held } = heldBack(aclMap(desired), aclMap(actual));
    return { free: [...free.values()], held: [...held.values()] };
  };

  test('are those on topics; denials, other operations and other resources are made at once', () => {
    const others = [
      acl('a'),
      acl('a', { ...write, permissionType: 2 }),
      acl('id', { ...write, resourceType: 5 }),
      acl('g', { operation: 2, resourceType: 3 }),
    ];
    assert.deepEqual(split([acl('a', write), ...others]), {
      free: others,
      held: [acl('a', write)],
    });
  });

  test('a grant of everything is taken apart: all but WRITE is made at once', () => {
    const { free, held } = split([acl('a', { operation: 2 })]);
    assert.deepEqual(held, [acl('a', write)]);
    assert.deepEqual(free.map(({ operation }) => operation).sort(), [10, 11, 3, 5, 6, 7, 8]);
  });

  test('R16: what is there already is not held back, so mode owned does not take it away', () => {
    const there = [acl('a', write), acl('b', { operation: 2 })];
    assert.deepEqual(split(there, there), { free: there, held: [] });
  });

  test('are made for the topic that is promoted, and for no other', () => {
    const held = [
      acl('orders', write),
      acl('ord', { ...write, patternType: 4 }),
      acl('*', { ...write, principal: 'User:all' }),
      acl('other', write),
      acl('ord', { ...write, principal: 'User:exact' }),
    ];
    assert.deepEqual(grantsOfTopic(held, 'orders'), [
      acl('orders', write),
      acl('orders', { ...write, principal: 'User:all' }),
    ]);
  });
});

describe('the prefix', () => {
  const names = {
    prefix: 'eu.',
    groupPrefix: '',
    ownTopicPrefix: '__causeway',
    principal: (principal: string) => principal,
  };

  test('is applied to topics, by name and by pattern', () => {
    assert.equal(mappedAcl(acl('a'), names)?.resourceName, 'eu.a');
    assert.equal(mappedAcl(acl('a.', { patternType: 4 }), names)?.resourceName, 'eu.a.');
    assert.deepEqual(mappedAcl(acl('*'), names), acl('eu.', { patternType: 4 }));
  });

  test('is not applied to other resources, nor where there is none', () => {
    const group = acl('g', { resourceType: 3 });
    assert.deepEqual(mappedAcl(group, names), group);
    assert.deepEqual(mappedAcl(acl('*'), { ...names, prefix: '' }), acl('*'));
  });

  test('is applied to groups where their names have it', () => {
    const group = acl('g', { resourceType: 3 });
    const prefixed = mappedAcl(group, { ...names, groupPrefix: 'eu.' });
    assert.deepEqual(prefixed, { ...group, resourceName: 'eu.g' });
  });

  test('principals are called by the rules; who fits none keeps the name', () => {
    const rules = 'RULE:^CN=(.*?),.*$/$1/L';
    const { principal } = parseSyncSettings({
      ...linkSettingDefaults,
      'acl.principal.mapping.rules': rules,
    }).aclSync;
    const mapped = (name: string) =>
      mappedAcl(acl('a', { principal: name }), { ...names, principal });
    assert.equal(mapped('User:CN=App,O=Acme')?.principal, 'User:app');
    assert.equal(mapped('User:other')?.principal, 'User:other');
    assert.equal(mapped('Group:CN=App,O=Acme')?.principal, 'Group:CN=App,O=Acme');
    const wrong = { ...linkSettingDefaults, 'acl.principal.mapping.rules': 'RULE:(/x/' };
    assert.throws(() => parseSyncSettings(wrong), /'acl.principal.mapping.rules'/);
  });

  test('ACLs on our own topics are never taken over', () => {
    assert.equal(mappedAcl(acl('__causeway_state'), names), null);
  });
});

describe('acl.filters', () => {
  test('are read in any case; what is left out means any', () => {
    const filters = parseAclFilters(
      JSON.stringify({
        aclFilters: [
          {
            resourceFilter: {
              resourceType: 'TRANSACTIONAL_ID',
              name: 'x-',
              patternType: 'Prefixed',
            },
            accessFilter: { operation: 'describeConfigs', permissionType: 'ALLOW' },
          },
          {
            resourceFilter: { resourceType: 'any' },
            accessFilter: {
              principal: 'User:app',
              host: '*',
              operation: 'any',
              permissionType: 'any',
            },
          },
        ],
      }),
    );
    assert.deepEqual(filters, [
      {
        resourceType: 5,
        resourceName: 'x-',
        patternType: 4,
        principal: null,
        host: null,
        operation: 10,
        permissionType: 3,
      },
      {
        resourceType: 1,
        resourceName: null,
        patternType: 1,
        principal: 'User:app',
        host: '*',
        operation: 1,
        permissionType: 1,
      },
    ]);
  });

  const access = { operation: 'any', permissionType: 'any' };
  const refused: readonly [unknown, RegExp][] = [
    [{ accessFilter: access }, /aclFilters\[0\]\.resourceFilter must be an object/],
    [{ resourceFilter: {}, accessFilter: access }, /resourceType must be one of any, topic/],
    [{ resourceFilter: { resourceType: 'topics' }, accessFilter: access }, /resourceType/],
    [{ resourceFilter: { resourceType: 'any' }, accessFilter: {} }, /operation must be one of/],
    [{ resourceFilter: { resourceType: 'any', nam: 'x' }, accessFilter: access }, /'nam'/],
    [{ resourceFilter: { resourceType: 'any' }, accessFilter: { ...access, host: 1 } }, /host/],
  ];
  for (const [filter, pattern] of refused) {
    test(`refused: ${JSON.stringify(filter)}`, () => {
      const text = JSON.stringify({ aclFilters: [filter] });
      assert.throws(() => parseAclFilters(text), { name: 'TypeError', message: pattern });
    });
  }
});

// What makes a message schema illegal, each rule by an example that breaks it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkMessage } from '../../../../protocol/schema/check.ts';
import type { RawField, RawMessage } from '../../../../protocol/schema/types.ts';

function message(fields: RawField[], more: Partial<RawMessage> = {}): RawMessage {
  return {
    name: 'Sample',
    type: 'data',
    validVersions: '0-3',
    flexibleVersions: '2+',
    fields,
    ...more,
  };
}

test('ranges are narrowed to the versions that can occur', () => {
  const checked = checkMessage(
    message([
      {
        name: 'Inner',
        type: '[]Item',
        versions: '1+',
        fields: [
          { name: 'Old', type: 'int8', versions: '0' },
          { name: 'New', type: 'string', versions: '2+', nullableVersions: '3+' },
        ],
      },
    ]),
  );
  const [top, item] = checked.structs;
  assert.deepEqual(top?.fields[0]?.versions, { low: 1, high: 3 });
  assert.deepEqual(item?.versions, { low: 1, high: 3 });
  assert.deepEqual(
    item?.fields.map((field) => [field.name, field.versions, field.nullable]),
    [['New', { low: 2, high: 3 }, { low: 3, high: 3 }]],
    'a field that no reachable version has is left out',
  );
});

test('what we do not understand is refused, never skipped', () => {
  const field: RawField = { name: 'Field', type: 'int8', versions: '0+' };
  const broken: [RawField | RawMessage, RegExp][] = [
    [{ ...field, type: 'int128' }, /unknown type "int128"/],
    [{ ...field, type: 'Missing' }, /no struct Missing/],
    [{ ...field, tag: 0 }, /tag and taggedVersions/],
    [{ ...field, tag: 0, taggedVersions: '0+' }, /not flexible/],
    [{ ...field, tag: 0, taggedVersions: '2+' }, /become tagged/],
    [{ ...field, nullableVersions: '0+' }, /cannot be nullable/],
    [{ ...field, type: '[][]int8' }, /arrays of arrays/],
    [{ ...field, colour: 'blue' } as RawField, /unknown attribute "colour"/],
    [message([], { type: 'event' }), /unknown message type/],
    [{ ...message([]), colour: 'blue' } as RawMessage, /unknown attribute/],
  ];
  for (const [part, expected] of broken) {
    const raw = 'validVersions' in part ? part : message([part]);
    assert.throws(() => checkMessage(raw), expected);
  }
  const tagged = { ...field, versions: '2+', taggedVersions: '2+', tag: 0 };
  const twice = message([tagged, { ...tagged, name: 'Other' }]);
  assert.throws(() => checkMessage(twice), /share a tag/);
});

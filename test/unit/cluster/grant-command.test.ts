// The commands that operators are told to run.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { grantCommand } from '../../../src/cluster/grant-command.ts';

test('a right is granted by a command for kafka-acls, one option for each operation', () => {
  assert.equal(
    grantCommand({ topic: 'orders' }, 'Read', 'DescribeConfigs'),
    "kafka-acls --add --topic 'orders' --operation Read --operation DescribeConfigs",
  );
  assert.equal(
    grantCommand({ cluster: true }, 'Alter'),
    'kafka-acls --add --cluster --operation Alter',
  );
});

test('a quote in the id of a group does not end the word that a shell reads', () => {
  assert.equal(
    grantCommand({ group: "it's; rm -r x" }, 'Read'),
    "kafka-acls --add --group 'it'\\''s; rm -r x' --operation Read",
  );
});

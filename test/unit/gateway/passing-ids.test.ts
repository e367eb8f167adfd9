// Ids that answers tell before the state knows them: what remembering them costs, and for how long.
//
// Owns: a directory of mirrors that are being made. Refuses to know which answers tell of ids.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { learnId, pendingById } from '../../../src/gateway/passing-ids.ts';
import { FakeDirectory } from './read-fixtures.ts';

const mirrors = 5_000;

function directoryOfIntents(count: number): FakeDirectory {
  const directory = new FakeDirectory();
  for (let index = 0; index < count; index++) {
    directory.put({ name: `t${index}`, topicId: null, mode: 'mirror', log: null });
  }
  return directory;
}

test('all pending ids were looked through at each one, while thousands of mirrors are made', () => {
  const directory = directoryOfIntents(mirrors);
  const { byName } = FakeDirectory.prototype;
  let looks = 0;
  directory.byName = (name) => {
    looks++;
    return byName.call(directory, name);
  };
  for (let index = 0; index < mirrors; index++) {
    learnId(directory, { name: `t${index}`, topicId: `id-${index}` });
  }
  // One for each id that is told, and all looks together no more than twice that.
  assert.ok(looks <= 3 * mirrors, `${looks} looks for ${mirrors} ids`);
  for (let index = 0; index < mirrors; index++) {
    assert.equal(pendingById(directory, `id-${index}`)?.name, `t${index}`);
  }
});

test('ids of mirrors that were made are forgotten in the end', () => {
  const directory = directoryOfIntents(1_001);
  for (let index = 0; index < 1_000; index++) {
    const topicId = `id-${index}`;
    learnId(directory, { name: `t${index}`, topicId });
    directory.put({ name: `t${index}`, topicId, mode: 'mirror', log: null });
  }
  learnId(directory, { name: 't1000', topicId: 'id-1000' });
  // Only what was forgotten is not found when the topic has no id again.
  directory.put({ name: 't7', topicId: null, mode: 'mirror', log: null });
  assert.equal(pendingById(directory, 'id-7'), undefined);
  assert.equal(pendingById(directory, 'id-1000')?.name, 't1000');
});

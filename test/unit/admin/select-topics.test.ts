// Regular expressions over the names of mirrors: what is ended, what is tried again, what is said.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { matching } from '../../../src/admin/select-topics.ts';

const names = ['orders', 'orders-eu', 'bills'];

function ended(): Error {
  const message = 'Script execution timed out after 200ms';
  return Object.assign(new Error(message), { code: 'ERR_SCRIPT_EXECUTION_TIMEOUT' });
}

test('a match that a busy machine ended before it had run is tried again, not refused', () => {
  let runs = 0;
  const found = matching(names, 'orders.*', (match) => {
    if (++runs < 3) throw ended();
    return match.names.filter((name) => match.expression.test(name));
  });
  assert.deepEqual([found, runs], [['orders', 'orders-eu'], 3]);
});

test('R18: a machine that stays busy is told from an expression that takes too long', () => {
  const never = () => {
    throw ended();
  };
  assert.throws(() => matching(names, 'orders.*', never), { status: 503, message: /too busy/ });
  const name = `${'a'.repeat(200)}!`;
  assert.throws(() => matching([name], '(a+)+b'), { status: 400, message: /takes longer than/ });
});

test('what else goes wrong is not taken for time', () => {
  const broken = () => {
    throw new TypeError('a fault of ours');
  };
  assert.throws(() => matching(names, 'orders.*', broken), { message: 'a fault of ours' });
  assert.throws(() => matching(names, '(', broken), { status: 400, message: /Unterminated group/ });
});

// How many connections there may be, in all and from one address (R14).
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConnectionBudget } from '../../../src/gateway/connection-budget.ts';

test('R14: one address cannot take all connections, and what ended is free again', () => {
  const budget = new ConnectionBudget({ connectionsMax: 3, perAddressMax: 2 });
  assert.equal(budget.take('10.0.0.1'), null);
  assert.equal(budget.take('10.0.0.1'), null);
  assert.match(budget.take('10.0.0.1') ?? '', /2 connections of 10\.0\.0\.1 already/);
  assert.equal(budget.take('10.0.0.2'), null);
  assert.match(budget.take('10.0.0.3') ?? '', /^there are 3 connections already$/);
  budget.release('10.0.0.1');
  assert.equal(budget.take('10.0.0.3'), null);
  budget.release('10.0.0.3');
  assert.equal(budget.take('10.0.0.1'), null);
  assert.throws(() => budget.release('10.0.0.3'), /ended twice/);
});

test('without a limit per address one address may have all', () => {
  const budget = new ConnectionBudget({ connectionsMax: 2 });
  assert.equal(budget.take('10.0.0.1'), null);
  assert.equal(budget.take('10.0.0.1'), null);
  assert.notEqual(budget.take('10.0.0.1'), null);
});

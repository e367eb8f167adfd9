// `causeway mirror verify` against a real admin server with a LinkService in memory: rows, output,
// exit codes. Refuses to know how partitions are compared.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LinkError } from '../../../src/link/link-error.ts';
import { linkStatus, mirrorStatus, partitionStatus } from '../admin/fake-services.ts';
import { assertOneLine, ServedCli } from './cli-runs.ts';

const cli = new ServedCli(({ links }) => {
  links.links.set('dr', linkStatus('dr', { topicNames: ['orders'] }));
  links.mirrors.set('orders', mirrorStatus('orders'));
});

const verified = {
  topic: 'orders',
  partition: 0,
  start: 5n,
  end: 90n,
  next: 40n,
  batches: 7,
  bytes: 7000,
  hash: 'ab'.repeat(32),
  isDone: false,
  difference: null,
};

test('mirror verify goes on step by step, and sums up', async () => {
  cli.services.links.verifySteps = [
    verified,
    { ...verified, start: 40n, next: 90n, hash: 'cd'.repeat(32), isDone: true },
  ];
  const answer = await cli.run(['-o', 'json', 'mirror', 'verify', 'orders', '--since', '5']);
  assert.equal(answer.code, 0, answer.error);
  const rows = JSON.parse(answer.out) as Record<string, unknown>[];
  assert.deepEqual(rows, [
    {
      ...verified,
      start: 5,
      end: 90,
      next: 90,
      batches: 14,
      bytes: 14_000,
      hash: 'cd'.repeat(32),
      isDone: true,
      error: null,
    },
  ]);
  const steps = cli.services.links.calls.map(({ argument }) => argument as Record<string, unknown>);
  assert.deepEqual(
    steps.map(({ since, from, end, hash }) => ({ since, from, end, hash })),
    [
      { since: 5n, from: null, end: null, hash: null },
      { since: 5n, from: 40n, end: 90n, hash: 'ab'.repeat(32) },
    ],
  );
});

test('mirror verify: exit 3 and the place when something differs', async () => {
  const difference = { offset: 41n, kind: 'DIFFERENT' as const, message: 'other bytes' };
  cli.services.links.verifySteps = [{ ...verified, isDone: true, difference }];
  const answer = await cli.run(['mirror', 'verify', 'orders']);
  assert.equal(answer.code, 3);
  assert.match(answer.out, /DIFFERENT at 41/);
  assert.match(answer.out, /orders-0: other bytes/);
});

function partitionsOf(count: number): ReturnType<typeof partitionStatus>[] {
  return Array.from({ length: count }, (_, partition) => partitionStatus({ partition }));
}

const unreachable = new LinkError('SOURCE_UNREACHABLE', 'The source answers LEADER_NOT_AVAILABLE');

test('mirror verify --all lost every row at the first mirror it could not compare', async () => {
  cli.services.links.mirrors.set('orders', mirrorStatus('orders', { partitions: partitionsOf(3) }));
  cli.services.links.mirrors.set(
    'late',
    mirrorStatus('late', { partitions: [], state: 'PENDING_MIRROR' }),
  );
  cli.services.links.mirrors.set('users', mirrorStatus('users'));
  const whole = { ...verified, isDone: true };
  cli.services.links.verifySteps = [
    whole,
    { ...verified, partition: 1 },
    unreachable,
    new LinkError('STORAGE_ERROR', 'The mirror log of orders-2\u001b[2J cannot be read'),
    { ...whole, topic: 'users' },
  ];
  const steps = [...cli.services.links.verifySteps];
  const argv = ['mirror', 'verify', '--all', '--link', 'dr'];
  const answer = await cli.run(argv);
  assert.equal(answer.code, 3, answer.error);
  assert.equal(answer.error, '');
  const lines = answer.out.trimEnd().split('\n');
  assert.deepEqual(
    lines.map((line) =>
      line
        .trim()
        .split(/ {2,}/)
        .filter((_, cell) => [0, 1, 3, 7].includes(cell)),
    ),
    [
      ['MIRROR', 'PARTITION', 'TO', 'RESULT'],
      ['orders', '0', '90', 'same'],
      ['orders', '1', '40', 'SOURCE_UNREACHABLE'],
      ['orders-1: The source answers LEADER_NOT_AVAILABLE'],
      ['orders', '2', '-', 'STORAGE_ERROR'],
      ['orders-2: The mirror log of orders-2 [2J cannot be read'],
      ['late', '-', '-', 'ILLEGAL_STATE'],
      ["late: 'late' is PENDING_MIRROR: there is nothing to compare yet"],
      ['users', '0', '90', 'same'],
    ],
  );
  cli.services.links.verifySteps = steps;
  const asJson = await cli.run(['-o', 'json', ...argv]);
  assert.equal(asJson.code, 3);
  const rows = JSON.parse(asJson.out) as { next: unknown; error: unknown; isDone: boolean }[];
  assert.deepEqual(
    rows.map(({ next, error, isDone }) => [next, error === null, isDone]),
    [
      [40, true, true],
      [40, false, false],
      [null, false, false],
      [null, false, false],
      [40, true, true],
    ],
  );
  assert.deepEqual(rows[1]?.error, { code: 'SOURCE_UNREACHABLE', message: unreachable.message });
});

test('mirror verify: exit 1 when nothing was compared whole', async () => {
  cli.services.links.verifySteps = [unreachable];
  const answer = await cli.run(['mirror', 'verify', 'orders']);
  assertOneLine(answer, 1, /nothing was compared whole: The source answers LEADER_NOT_AVAILABLE/);
  assert.match(answer.out, /SOURCE_UNREACHABLE\n/);
});

test('mirror verify: rows are told as they come, and stay when the proxy ends meanwhile', async () => {
  cli.services.links.mirrors.set('orders', mirrorStatus('orders', { partitions: partitionsOf(2) }));
  const whole = { ...verified, isDone: true };
  const told: string[] = [];
  let before = 0;
  cli.services.links.verifySteps = [
    whole,
    async () => {
      before = told.filter((text) => text.includes('"partition": 0')).length;
      await cli.close();
      return whole;
    },
  ];
  const onOut = (text: string): void => void told.push(text);
  const argv = ['-o', 'json', 'mirror', 'verify', 'orders'];
  const answer = await cli.run(argv, { onOut });
  assertOneLine(answer, 1, /cannot reach the admin API/);
  assert.equal(before, 1, 'the first row was told before the second was asked for');
  assert.equal((JSON.parse(answer.out) as unknown[]).length, 1, 'JSON is whole');
});

// The frame of the sync tasks: states, back-off, recovery by itself, what is told and when.
import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { ClusterError } from '../../../src/cluster/cluster.ts';
import type { LinkContext } from '../../../src/link/context.ts';
import type { LinkRuntime } from '../../../src/link/link.ts';
import { LinkError } from '../../../src/link/link-error.ts';
import { Events } from '../../../src/observe/events.ts';
import { BackOffs, backOffMs } from '../../../src/tasks/back-offs.ts';
import {
  problemOf,
  SyncTask,
  TaskError,
  type TaskRound,
  type TaskWork,
} from '../../../src/tasks/sync-task.ts';
import { until } from '../../helpers/wait.ts';

class ScriptedWork implements TaskWork {
  readonly name = 'Scripted';
  isEnabled = true;
  periodMs = 1;
  rounds = 0;
  settingsSeen = 0;
  next: () => TaskRound = () => ({ problems: [], counts: { seen: this.rounds } });

  async round(): Promise<TaskRound> {
    this.rounds++;
    return this.next();
  }

  async plan() {
    return { changes: [], problems: [] };
  }

  settingsChanged(): void {
    this.settingsSeen++;
  }
}

class ScriptedLink {
  readonly name = 'dr';
  conditions = { linkFailed: false, linkPaused: false, sourceLost: false };
  record = { configs: {} };
  isOwner = true;
  isConnected = true;

  mayAct(): boolean {
    return this.isOwner && !this.conditions.linkPaused && !this.conditions.linkFailed;
  }
}

let open: SyncTask[] = [];

afterEach(async () => {
  await Promise.all(open.map((task) => task.close()));
  open = [];
});

function scripted() {
  const work = new ScriptedWork();
  const link = new ScriptedLink();
  const events = new Events();
  const clock = { monotonicMs: () => performance.now(), unixMs: () => Date.now() };
  const task = new SyncTask({
    context: { events, clock } as unknown as LinkContext,
    link: link as unknown as LinkRuntime,
    work,
  });
  open.push(task);
  const told = (): string[] => events.since(0).map(({ event }) => event);
  return { work, link, task, told, events };
}

describe('a task', () => {
  test('runs its rounds and shows what they found', async () => {
    const { work, task } = scripted();
    task.start();
    await until('two rounds', () => work.rounds >= 2);
    const { state, counts, lastSuccessTimeMs } = task.status;
    assert.equal(state, 'ACTIVE');
    assert.ok((counts?.seen ?? 0) >= 1);
    assert.ok(lastSuccessTimeMs > 0);
  });

  test('R12: runs no round without a lease, paused, failed or without its source', async () => {
    const { work, link, task } = scripted();
    let besides = 0;
    const tryBeside = () =>
      task.beside(async () => {
        besides++;
      });
    link.isOwner = false;
    task.start();
    await tryBeside();
    link.isOwner = true;
    link.conditions = { linkFailed: false, linkPaused: true, sourceLost: false };
    await tryBeside();
    assert.equal(task.status.state, 'LINK_PAUSED');
    link.conditions = { linkFailed: false, linkPaused: false, sourceLost: true };
    await tryBeside();
    assert.equal(task.status.state, 'LINK_UNAVAILABLE');
    link.conditions = { linkFailed: true, linkPaused: false, sourceLost: false };
    await tryBeside();
    assert.equal(task.status.state, 'LINK_FAILED');
    assert.deepEqual([work.rounds, besides], [0, 0]);
  });

  test('shows no error of its own before its link is connected', async () => {
    const { work, link, task } = scripted();
    link.isConnected = false;
    task.start();
    await task.beside(async () => assert.fail('not connected'));
    assert.deepEqual([work.rounds, task.status.errors], [0, []]);
    link.isConnected = true;
    await until('a round', () => work.rounds > 0);
  });

  test('that is not switched on says so, also in its dry run', async () => {
    const { work, task } = scripted();
    work.isEnabled = false;
    task.start();
    assert.equal(task.status.state, 'NOT_CONFIGURED');
    assert.equal((await task.plan()).problems[0]?.code, 'NOT_CONFIGURED');
    assert.equal(work.rounds, 0);
  });

  test('in error shows the cause once, keeps its last success, and recovers by itself', async () => {
    const { work, task, told, events } = scripted();
    const well = work.next;
    task.start();
    await until('a success', () => task.status.lastSuccessTimeMs > 0);
    work.next = () => {
      throw new TaskError('SECURITY_DISABLED_ERROR', 'no authorizer');
    };
    await until('an error', () => task.status.state === 'IN_ERROR');
    assert.deepEqual(task.status.errors, [
      { code: 'SECURITY_DISABLED_ERROR', message: 'no authorizer' },
    ]);
    const failedAt = work.rounds;
    await until('another round', () => work.rounds > failedAt, { deadlineMs: 5_000 });
    work.next = well;
    await until('recovery', () => task.status.state === 'ACTIVE', { deadlineMs: 10_000 });
    assert.deepEqual(told(), ['task_problem', 'task_recovered']);
    const { fields } = events.since(0)[0] ?? {};
    assert.deepEqual(fields, { link: 'dr', task: 'Scripted', code: 'SECURITY_DISABLED_ERROR' });
  });

  test('a fault of ours is an error event and no end of the task', async () => {
    const { work, task, told } = scripted();
    work.next = () => {
      throw new TypeError('a fault');
    };
    task.start();
    await until('the fault', () => told().includes('task_fault'));
    assert.equal(task.status.errors[0]?.code, 'INTERNAL_ERROR');
    const before = work.rounds;
    await until('it goes on', () => work.rounds > before, { deadlineMs: 5_000 });
  });

  test('hears of changed settings before its next round', async () => {
    const { work, link, task } = scripted();
    task.start();
    await until('a round', () => work.rounds > 0);
    assert.equal(work.settingsSeen, 1);
    link.record = { configs: {} };
    await until('the change', () => work.settingsSeen === 2);
  });

  test('does work beside its rounds, and tells when that fails', async () => {
    const { task, told } = scripted();
    let count = 0;
    await task.beside(async () => {
      count++;
    });
    await task.beside(async () => {
      throw new TaskError('SECURITY_DISABLED_ERROR', 'no authorizer');
    });
    assert.equal(count, 1);
    assert.deepEqual(told(), ['task_problem']);
  });
});

describe('back-off', () => {
  test('doubles up to its limit', () => {
    const delays = [1, 2, 3, 4, 5, 100].map((count) => backOffMs(count, 1_000, 10_000));
    assert.deepEqual(delays, [1_000, 2_000, 4_000, 8_000, 10_000, 10_000]);
  });

  test('of one name keeps its problem visible until it succeeds or is not wanted', () => {
    let nowMs = 0;
    const failures = new BackOffs({ monotonicMs: () => nowMs }, { firstMs: 100, maxMs: 1_000 });
    failures.failed('a', { code: 'X', message: 'first' });
    failures.failed('b', { code: 'X', message: 'other' });
    assert.equal(failures.isDue('a'), false);
    nowMs = 100;
    assert.equal(failures.isDue('a'), true);
    failures.failed('a', { code: 'X', message: 'second' });
    nowMs = 250;
    assert.equal(failures.isDue('a'), false);
    assert.deepEqual(
      failures.problems.map(({ message }) => message),
      ['second', 'other'],
    );
    failures.succeeded('a');
    failures.keep((name) => name !== 'b');
    assert.deepEqual(failures.problems, []);
    failures.failed('c', { code: 'X', message: 'again' });
    failures.clear();
    assert.equal(failures.isDue('c'), true);
  });
});

test('errors have Cluster Linking’s codes', () => {
  const refusal = (message: string) => new LinkError('DESTINATION_REFUSED', message);
  const options = { maybeSent: false };
  const cases: readonly [unknown, string | undefined][] = [
    [new LinkError('TOPIC_EXISTS', 'x'), 'TOPIC_EXISTS_ERROR'],
    [new LinkError('SOURCE_UNAUTHORIZED', 'x'), 'AUTHORIZATION_ERROR'],
    [refusal('POLICY_VIOLATION: no'), 'POLICY_VIOLATION_ERROR'],
    [refusal('INVALID_REPLICATION_FACTOR'), 'INVALID_REQUEST_ERROR'],
    [refusal('TOPIC_AUTHORIZATION_FAILED'), 'BROKER_AUTHORIZATION_ERROR'],
    [new ClusterError('AUTHENTICATION', 'x', options), 'AUTHENTICATION_ERROR'],
    [new ClusterError('TIMEOUT', 'x', options), 'INTERNAL_ERROR'],
    [new TypeError('x'), undefined],
  ];
  for (const [error, code] of cases) assert.equal(problemOf(error)?.code, code);
});

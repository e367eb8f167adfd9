// The checker of histories finds what is planted: each rule broken once in a history that is fine
// otherwise.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Act, History, Session, Write } from '../../helpers/history.ts';
import { violationsOf } from '../../helpers/history-checks.ts';

function write(value: string, offset: number, more: Partial<Write> = {}): Write {
  const side = offset < 4 ? 'source' : 'destination';
  const defaults = { writer: 'w', kind: 'idempotent', partition: 0, transaction: null } as const;
  return { ...defaults, side, value, offset, outcome: 'acknowledged', ...more };
}

const record = (offset: number, value: string) => ({ partition: 0, offset, value });
const read = (offset: number, value: string) => ({ offset, value });

function session(reads: Session['reads'], more: Partial<Session> = {}): Session {
  const isolation = 'read_committed';
  const defaults = { reader: 'r', partition: 0, committed: 0, furthest: 0, isLast: true } as const;
  return { ...defaults, isolation, reads, ...more };
}

function act(instance: string, timeMs: number, kind: Act['kind']): Act {
  return { instance, timeMs, kind, what: kind };
}

/** a and b came from the source; c was aborted, its marker is at 3; S is 4; d was written after. */
function history(more: Partial<History> = {}): History {
  return {
    verb: 'promote',
    switchedAt: [4],
    mirroredTo: [4],
    writes: [
      write('a', 0),
      write('b', 1, { kind: 'transactional', transaction: 't1' }),
      write('c', 2, { kind: 'transactional', transaction: 't2' }),
      write('d', 4),
    ],
    transactions: new Map([
      ['t1', 'committed'],
      ['t2', 'aborted'],
    ]),
    sessions: [
      session([read(0, 'a'), read(1, 'b')], { isLast: false }),
      session([read(1, 'b'), read(4, 'd')], { committed: 1, furthest: 2 }),
      session([read(2, 'c'), read(4, 'd')], {
        isolation: 'read_uncommitted',
        committed: 2,
        furthest: 2,
      }),
    ],
    told: [
      { what: 'epoch', partition: 0, value: 3 },
      { what: 'epoch', partition: 0, value: 4 },
      { what: 'epoch', partition: 1, value: 0 },
    ],
    acts: [act('A', 1, 'acquired'), act('A', 2, 'acted'), act('B', 9, 'acquired')],
    stateEpochs: [0, 0, 1],
    log: {
      read_uncommitted: [record(0, 'a'), record(1, 'b'), record(2, 'c'), record(4, 'd')],
      read_committed: [record(0, 'a'), record(1, 'b'), record(4, 'd')],
    },
    ...more,
  };
}

const good = history();
const [a, b, c, d] = good.writes as [Write, Write, Write, Write];
const { read_uncommitted: all, read_committed: committed } = good.log;
const withLog = (read_uncommitted: typeof all, read_committed = committed) =>
  history({ log: { read_uncommitted, read_committed } });
const without = (value: string) => (one: { value: string | null }) => one.value !== value;

const planted: Readonly<Record<string, readonly [broken: History, finding: RegExp]>> = {
  'R4: an acknowledged write is lost': [
    withLog(all.filter(without('d')), committed.filter(without('d'))),
    /R4: d of w, acknowledged at 0\/4, is not there/,
  ],
  'R4: another record is where a write was acknowledged': [
    history({ writes: [a, b, c, d, write('e', 4)] }),
    /R4: e of w, acknowledged at 0\/4, is not there/,
  ],
  'R4: a record of an idempotent producer is there twice': [
    withLog([...all, record(5, 'd')], [...committed, record(5, 'd')]),
    /R4: d of w \(idempotent\) is there twice: at 0\/4 and 0\/5/,
  ],
  'R4: a write after the switch lies below S': [
    history({ writes: [a, b, c, write('d', 4)], switchedAt: [5] }),
    /R4: d of w is at 0\/4, below S = 5/,
  ],
  'R4: a record that nobody wrote': [
    withLog([...all, record(5, 'x')]),
    /R4: x at 0\/5 was written by nobody/,
  ],
  'R3: a refused record is in the log': [
    history({ writes: [a, b, c, { ...d, outcome: 'refused', offset: null }] }),
    /R3: d at 0\/4 was refused to w/,
  ],
  'R6: a reader goes back': [
    history({ sessions: [session([read(0, 'a'), read(1, 'b'), read(0, 'a'), read(4, 'd')])] }),
    /R6: r \(read_committed\) went back to 0\/0 after 1/,
  ],
  'R6: a reader gets a record twice': [
    history({ sessions: [session([read(0, 'a'), read(1, 'b'), read(1, 'b'), read(4, 'd')])] }),
    /R6: r \(read_committed\) went back to 0\/1 after 1/,
  ],
  'R6: a reader skips a record': [
    history({ sessions: [session([read(0, 'a'), read(4, 'd')])] }),
    /R6: r \(read_committed\) skipped 0\/1/,
  ],
  'R6: a reader begins below its commit': [
    history({ sessions: [session([read(1, 'b'), read(4, 'd')], { committed: 2, furthest: 2 })] }),
    /R6: r \(read_committed\) began at 0\/1, below its commit 2/,
  ],
  'R6: a reader begins beyond its commit': [
    history({ sessions: [session([read(4, 'd')], { committed: 1, furthest: 1 })] }),
    /R6: r \(read_committed\) skipped 0\/1/,
  ],
  'R4: a reader is given another record than the log holds': [
    history({ sessions: [session([read(0, 'a'), read(1, 'z'), read(4, 'd')])] }),
    /R4: r \(read_committed\) was given z at 0\/1, where b is/,
  ],
  'R7: an aborted record is seen by a read_committed reader': [
    history({ sessions: [session([read(0, 'a'), read(1, 'b'), read(2, 'c'), read(4, 'd')])] }),
    /R7: r \(read_committed\) was given c at 0\/2, which is not committed/,
  ],
  'R7: an aborted transaction is visible': [
    withLog(all, all),
    /R7: c of w is visible, its transaction was aborted/,
  ],
  'R7: a committed record is not visible': [
    withLog(all, committed.filter(without('b'))),
    /R7: b of w at 0\/1 was committed and is not visible/,
  ],
  'R7: a transaction is visible in parts': [
    history({
      writes: [a, b, { ...c, transaction: 't1' }, d],
    }),
    /R7: transaction t1 of w is visible in parts/,
  ],
  'R7: a read_committed reader hangs': [
    history({ sessions: [session([read(0, 'a'), read(1, 'b')])] }),
    /R7: r \(read_committed\) never got 0\/4/,
  ],
  'R8: an epoch goes back': [
    history({ told: [...good.told, { what: 'epoch', partition: 0, value: 3 }] }),
    /R8: the epoch of partition 0 went back from 4 to 3/,
  ],
  'R12: two owners act': [
    history({ acts: [...good.acts, act('B', 10, 'acted'), act('A', 11, 'acted')] }),
    /R12: A acted \(acted\) while B was the owner/,
  ],
  'R12: an instance acts after it has lost the lease': [
    history({ acts: [act('A', 1, 'acquired'), act('A', 2, 'lost'), act('A', 3, 'acted')] }),
    /R12: A acted \(acted\) while nobody was the owner/,
  ],
  'R12: the state is written by a fenced writer': [
    history({ stateEpochs: [0, 1, 0] }),
    /R12: the state was written with epoch 0 after 1/,
  ],
};

describe('the checker of histories', () => {
  test('finds nothing in a history that keeps the rules', () => {
    assert.deepEqual(violationsOf(good), []);
  });

  for (const [name, [broken, finding]] of Object.entries(planted)) {
    test(`planted and found: ${name}`, () => {
      assert.match(violationsOf(broken).join('\n'), finding);
    });
  }

  test('allows a plain producer to write twice, and a failover to lose the end of the source', () => {
    const twice = [...all, record(5, 'd')];
    const plain = history({
      writes: [a, b, c, { ...d, kind: 'plain' }],
      sessions: [],
      log: { read_uncommitted: twice, read_committed: [...committed, record(5, 'd')] },
    });
    assert.deepEqual(violationsOf(plain), []);
    const lost = write('lost', 9, { side: 'source' });
    const failover = history({ verb: 'failover', writes: [...good.writes, lost] });
    assert.deepEqual(violationsOf(failover), []);
    const [finding] = violationsOf(history({ writes: [...good.writes, lost] }));
    assert.match(String(finding), /R4: lost of w, acknowledged at 0\/9, is not there/);
  });

  test('allows the next owner to act, and one that regains the lease', () => {
    const acts = [
      act('B', 5, 'acted'),
      act('A', 1, 'acquired'),
      act('A', 2, 'lost'),
      act('B', 4, 'acquired'),
      act('A', 6, 'acquired'),
      act('A', 7, 'acted'),
    ];
    assert.deepEqual(violationsOf(history({ acts })), []);
  });
});

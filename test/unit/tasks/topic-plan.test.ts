// Which mirrors the topic task makes, pauses and resumes: filters, limits, clashes, who paused.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseTopicFilters } from '../../../src/link/settings/sync-settings.ts';
import type { TopicRecord } from '../../../src/state/records.ts';
import { planTopics, type TopicPlanInput } from '../../../src/tasks/topic-plan.ts';

function filters(...list: [string, string, string][]) {
  const topicFilters = list.map(([name, patternType, filterType]) => ({
    name,
    patternType,
    filterType,
  }));
  return parseTopicFilters(JSON.stringify({ topicFilters })) ?? [];
}

const everything = filters(['*', 'LITERAL', 'INCLUDE']);

function source(...names: string[]) {
  return names.map((name) => ({ name, isInternal: false, isReady: true }));
}

function record(name: string, changes: Partial<TopicRecord> = {}): TopicRecord {
  return {
    kind: 'topic',
    name,
    topicId: 'AAAAAAAAAAAAAAAAAAAAAQ',
    link: 'dr',
    sourceTopic: name,
    sourceTopicId: 'AAAAAAAAAAAAAAAAAAAAAg',
    state: 'ACTIVE',
    stateTimeMs: 1,
    error: null,
    partitions: [],
    stoppedBy: null,
    ...changes,
  };
}

function plan(changes: Partial<TopicPlanInput>) {
  return planTopics({
    source: [],
    records: new Map(),
    link: 'dr',
    filters: everything,
    prefix: '',
    ownTopicPrefix: '__causeway',
    mirrorsMax: 1000,
    ...changes,
  });
}

function records(...list: TopicRecord[]) {
  return new Map(list.map((entry) => [entry.name, entry]));
}

const auto = { isFilteredOut: false };
const filteredOut = { isFilteredOut: true };

describe('new topics', () => {
  test('of the filters are made, by name, under the prefix; exclusion wins', () => {
    const some = filters(['tmp.', 'PREFIXED', 'EXCLUDE'], ['*', 'LITERAL', 'INCLUDE']);
    const { create } = plan({ source: source('b', 'tmp.x', 'a'), filters: some, prefix: 'eu.' });
    assert.deepEqual(create, [
      { sourceTopic: 'a', name: 'eu.a' },
      { sourceTopic: 'b', name: 'eu.b' },
    ]);
  });

  test('that hold the state of a Causeway with another name were mirrored by the filter `*`', () => {
    const found = plan({ source: source('__dr-east_state', '__share_group_state', 'a_state') });
    assert.deepEqual(found.create, [{ sourceTopic: 'a_state', name: 'a_state' }]);
  });

  test('that hold the metadata of tiered storage were mirrored by the filter `*`', () => {
    // Brokers do not mark it as internal.
    assert.deepEqual(plan({ source: source('__remote_log_metadata') }).create, []);
  });

  test('that are internal, or ours, are no candidates', () => {
    const internal = { name: 'secret', isInternal: true, isReady: true };
    const names = source('__consumer_offsets', '__transaction_state', '__causeway_state');
    const found = plan({ source: [internal, ...names] });
    assert.equal(found.candidatesCount, 0);
    assert.deepEqual(found.create, []);
  });

  test('without leaders wait for the next look', () => {
    const found = plan({ source: [{ name: 'a', isInternal: false, isReady: false }] });
    assert.deepEqual(found.create, []);
    assert.equal(found.matchedCount, 1);
  });

  test('beyond the limit are pending; only mirrors that the filters made count', () => {
    const made = records(
      record('a', { auto }),
      record('hand'),
      record('old', { auto, state: 'STOPPED' }),
    );
    const found = plan({ source: source('a', 'b', 'c', 'hand'), records: made, mirrorsMax: 2 });
    assert.deepEqual(
      found.create.map(({ name }) => name),
      ['b'],
    );
    assert.deepEqual(
      found.pending.map(({ name }) => name),
      ['c'],
    );
  });

  test('that are mirrored under whatever name are not made again', () => {
    const renamed = records(record('other', { sourceTopic: 'a' }));
    assert.deepEqual(plan({ source: source('a'), records: renamed }).create, []);
  });
});

describe('a name that is taken', () => {
  test('by another link, or another topic of this one, is a clash', () => {
    const taken = records(record('a', { link: 'other' }), record('b', { sourceTopic: 'x' }));
    const { clashes, create } = plan({ source: source('a', 'b'), records: taken });
    assert.deepEqual(create, []);
    assert.match(clashes[0]?.why ?? '', /link 'other'/);
    assert.match(clashes[1]?.why ?? '', /source topic 'x'/);
  });

  test('too long, or of a topic of ours, is a clash too', () => {
    const long = plan({ source: source('t'.repeat(248)), prefix: 'eu.' });
    assert.match(long.clashes[0]?.why ?? '', /longer than 249/);
    const own = plan({ source: source('causeway_state'), prefix: '__' });
    assert.match(own.clashes[0]?.why ?? '', /internal/);
  });
});

describe('a mirror that leaves the filters', () => {
  const none = filters(['z', 'LITERAL', 'INCLUDE']);

  test('is paused if the filters made it, and only then', () => {
    const made = records(record('a', { auto }), record('hand'));
    assert.deepEqual(plan({ records: made, filters: none }).leave, ['a']);
  });

  test('is paused once: an operator may resume it', () => {
    const resumed = records(record('a', { auto: filteredOut }));
    assert.deepEqual(plan({ records: resumed, filters: none }).leave, []);
  });

  test('is left alone when it is paused, failed, stopping or stopped', () => {
    for (const state of ['PAUSED', 'FAILED', 'PENDING_STOPPED', 'STOPPED'] as const) {
      const found = plan({ records: records(record('a', { auto, state })), filters: none });
      assert.deepEqual(found.leave, [], state);
    }
  });

  test('is resumed when the filters match again; an operator’s pause stays', () => {
    const paused = records(
      record('a', { auto: filteredOut, state: 'PAUSED' }),
      record('b', { auto, state: 'PAUSED' }),
    );
    assert.deepEqual(plan({ records: paused }).back, ['a']);
  });
});

test('filters that match nothing are told from a source without topics', () => {
  const none = filters(['z', 'LITERAL', 'INCLUDE']);
  const found = plan({ source: source('a', 'b'), filters: none });
  assert.deepEqual([found.matchedCount, found.candidatesCount], [0, 2]);
});

// What the tests of the state topic write and expect. Owns a topic record that is as a failover
// leaves it, and the look at an error of the state. Refuses to know any broker.
import assert from 'node:assert/strict';
import type { TopicRecord } from '../../src/state/records.ts';
import { StateError, type StateErrorCode } from '../../src/state/state.ts';
import { virtualEpoch, virtualOffset } from '../../src/timeline/offsets.ts';

export function topicRecord(name: string, mirrored = 41n): TopicRecord {
  return {
    kind: 'topic',
    name,
    topicId: 'AAAAAAAAAAAAAAAAAAAAAQ',
    link: 'dr',
    sourceTopic: name,
    sourceTopicId: 'AAAAAAAAAAAAAAAAAAAAAg',
    state: 'STOPPED',
    stateTimeMs: 1_700_000_000_000,
    error: null,
    partitions: [
      {
        extents: [
          { where: 'mirror', start: virtualOffset(0n), end: virtualOffset(mirrored) },
          {
            where: 'native',
            start: virtualOffset(mirrored),
            end: null,
            offsetShift: mirrored - 1n,
            epochShift: 7,
            firstEpoch: virtualEpoch(8),
          },
        ],
      },
    ],
    stoppedBy: 'failover',
  };
}

export function isStateError(code: StateErrorCode, pattern = /./) {
  return (error: unknown): boolean => {
    assert.ok(error instanceof StateError, String(error));
    assert.equal(error.code, code, error.message);
    assert.match(error.message, pattern);
    return true;
  };
}

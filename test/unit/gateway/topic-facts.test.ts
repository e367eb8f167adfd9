// What the gateway remembers of topics: it must not grow with all topics that ever were.
//
// Owns: a directory whose topics come and go. Refuses to know what is remembered for what.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AdvertisedEpochs } from '../../../src/gateway/advertised-epochs.ts';
import { hasHighWatermark, noteBounds, type ShellPlace } from '../../../src/gateway/shell-facts.ts';
import { openNativeExtent } from '../../../src/gateway/topic-standing.ts';
import { FakeSession, promotedAt100 } from './read-fixtures.ts';

const churned = 5_000;
/** As many as are kept without a look, with the one that made it due. */
const keptMost = 1_001;

function idOf(index: number): string {
  return `id-${index}`;
}

/** A session whose directory has only the topics `isThere` says. */
function sessionWith(isThere: (index: number) => boolean): {
  readonly session: FakeSession;
  /** Makes a promoted topic, notes what was heard of it, and deletes it unless it stays. */
  churn(note: (topicId: string) => void): void;
} {
  const session = new FakeSession({ kind: 'broker', nodeId: 1 });
  const timeline = promotedAt100();
  const { directory } = session;
  const ids = new Set<string>();
  directory.put({ name: 'orders', mode: 'promoted', log: null, timeline });
  const view = directory.byName('orders');
  directory.byId = (topicId) => (ids.has(topicId) ? view : undefined);
  return {
    session,
    churn: (note) => {
      for (let index = 0; index < churned; index++) {
        ids.add(idOf(index));
        note(idOf(index));
        if (!isThere(index)) ids.delete(idOf(index));
      }
    },
  };
}

function countOf(isKnown: (topicId: string) => boolean): number {
  let count = 0;
  for (let index = 0; index < churned; index++) if (isKnown(idOf(index))) count++;
  return count;
}

function shellOf(session: FakeSession, topicId: string): ShellPlace {
  const native = openNativeExtent(session.directory.byName('orders')?.partition(0));
  assert.ok(native !== undefined);
  return { topicId, partition: 0, native };
}

const bounds = { highWatermark: 130n, lastStableOffset: 120n };

test('what brokers said of the shells of deleted topics was kept for ever', () => {
  const { session, churn } = sessionWith(() => false);
  const { services } = session;
  churn((topicId) => noteBounds(services, shellOf(session, topicId), bounds));
  const left = countOf((topicId) => hasHighWatermark(services, shellOf(session, topicId)));
  assert.ok(left <= keptMost, `${left} of ${churned} deleted topics are still known`);
});

test('the epochs advertised of deleted topics were kept for ever', () => {
  const { session, churn } = sessionWith(() => false);
  const epochs = new AdvertisedEpochs();
  churn((topicId) => epochs.note(session.directory, { topicId, partition: 0 }, 9));
  const left = countOf((topicId) => epochs.highest({ topicId, partition: 0 }, 6) === 9);
  assert.ok(left <= keptMost, `${left} of ${churned} deleted topics are still known`);
});

test('nothing is forgotten of topics that are there, however many were deleted', () => {
  const { session, churn } = sessionWith((index) => index % 2 === 0);
  const { services } = session;
  churn((topicId) => noteBounds(services, shellOf(session, topicId), bounds));
  for (let index = 0; index < churned; index += 2) {
    assert.ok(hasHighWatermark(services, shellOf(session, idOf(index))), idOf(index));
  }
});

test('nothing is forgotten while the directory may not know a topic that is there', () => {
  const { session, churn } = sessionWith(() => false);
  session.directory.isSettled = false;
  const epochs = new AdvertisedEpochs();
  churn((topicId) => epochs.note(session.directory, { topicId, partition: 0 }, 9));
  assert.equal(
    countOf((topicId) => epochs.highest({ topicId, partition: 0 }, 6) === 9),
    churned,
  );
  session.directory.isSettled = true;
  epochs.note(session.directory, { topicId: 'one more', partition: 0 }, 9);
  assert.equal(
    countOf((topicId) => epochs.highest({ topicId, partition: 0 }, 6) === 9),
    0,
  );
});

test('topics that stay are not looked through at each one that is new', () => {
  const { session, churn } = sessionWith(() => true);
  const { directory } = session;
  const { byId } = directory;
  let looks = 0;
  directory.byId = (topicId) => {
    looks++;
    return byId(topicId);
  };
  const epochs = new AdvertisedEpochs();
  churn((topicId) => epochs.note(directory, { topicId, partition: 0 }, 9));
  assert.ok(looks <= 2 * churned, `${looks} looks for ${churned} topics`);
});

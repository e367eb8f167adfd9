// Questions asked at the same time: how they are joined, and that an answer is never older than its
// question.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Together } from '../../../src/link/switch/together.ts';

/** Answers each question with its square when it is told to. */
function squares(questionsMax: number) {
  const rounds: (readonly number[])[] = [];
  const pending: { resolve: () => void; reject: (error: Error) => void }[] = [];
  const together = new Together<number, number>(
    async (questions) => {
      rounds.push(questions);
      await new Promise<void>((resolve, reject) => pending.push({ resolve, reject }));
      return (question) => question * question;
    },
    { questionsMax },
  );
  return { together, rounds, pending };
}

/** Ends whatever is under way until all have an answer. */
async function answered<Value>(
  asked: readonly Promise<Value>[],
  pending: { resolve: () => void }[],
): Promise<readonly Value[]> {
  let isDone = false;
  const all = Promise.all(asked).finally(() => {
    isDone = true;
  });
  while (!isDone) {
    pending.shift()?.resolve();
    await new Promise((resolve) => setImmediate(resolve));
  }
  return all;
}

describe('questions that come together', () => {
  test('wait for the one under way, then go together, so many at a time', async () => {
    const { together, rounds, pending } = squares(3);
    const asked = [1, 2, 3, 4, 5].map((question) => together.ask(question));
    assert.deepEqual(await answered(asked, pending), [1, 4, 9, 16, 25]);
    assert.deepEqual(rounds, [[1], [2, 3, 4], [5]]);
  });

  test('are never answered by what began before them', async () => {
    const { together, rounds, pending } = squares(10);
    const first = together.ask(7);
    const same = together.ask(7);
    assert.deepEqual(rounds, [[7]]);
    await answered([first, same], pending);
    assert.deepEqual(rounds, [[7], [7]]);
  });

  test('share an error with nobody else', async () => {
    const { together, pending } = squares(2);
    const asked = [1, 2, 3, 4].map((question) => together.ask(question));
    const outcomes = Promise.allSettled(asked);
    pending.shift()?.resolve();
    await asked[0];
    await new Promise((resolve) => setImmediate(resolve));
    pending.shift()?.reject(new Error('of the second round'));
    await assert.rejects(Promise.all([asked[1], asked[2]]), /of the second round/);
    await answered([together.ask(5), asked[3] as Promise<number>], pending);
    const kinds = (await outcomes).map(({ status }) => status);
    assert.deepEqual(kinds, ['fulfilled', 'rejected', 'rejected', 'fulfilled']);
  });
});

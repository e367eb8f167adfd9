// Each right that docs/sync-tasks.md names is needed: taken away alone, it is named by a task or by
// the link, with the command that grants it; granted again, everything goes on by itself. (That all
// of them together are enough: test/kafka/tasks-rights.test.ts.)
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Right } from '../helpers/minimal-rights.ts';
import { type RightsStage, startRightsStage } from '../helpers/rights-stage.ts';
import { until } from '../helpers/wait.ts';

/** Without these no instance acts at all, so that there is nothing to be told by a task. */
const ofTheState = 'the state';

/** Of topics that are made once, and looked at once. */
const onlyAtFirst: ReadonlySet<string> = new Set(['CheckpointEmit', 'HeartbeatEmit']);
/** Nothing here asks for it: partitions that are added, mirrors that are deleted. */
const notAsked: ReadonlySet<string> = new Set(['Alter', 'Delete']);

/** By which others each is included. */
const including: Record<string, readonly string[]> = {
  Describe: ['Read', 'Write', 'Delete', 'Alter'],
  DescribeConfigs: ['AlterConfigs'],
};

/** Something else that is granted includes it. */
function isImplied(right: Right, rights: readonly Right[]): boolean {
  const place = ({ side, acl }: Right) =>
    JSON.stringify([side, acl.resourceType, acl.resourceName, acl.patternType]);
  return rights.some(
    (other) =>
      place(other) === place(right) && including[right.operation]?.includes(other.operation),
  );
}

/** What a task would miss at once. */
function isMissedAtOnce(right: Right, rights: readonly Right[]): boolean {
  const { purpose, operation, acl } = right;
  const isOfTopics = acl.resourceType === 2;
  // offsets.retention.minutes is read every few minutes.
  if (purpose === 'ConsumerOffsetSync' && operation === 'DescribeConfigs') return false;
  if (purpose === ofTheState || isImplied(right, rights)) return false;
  if (onlyAtFirst.has(purpose) && operation !== 'Write') return false;
  return !(isOfTopics && notAsked.has(operation));
}

function describeRight({ purpose, side, operation, acl }: Right): string {
  return `${purpose}: ${operation} on ${acl.resourceName} at the ${side}`;
}

async function isNamed(stage: RightsStage, right: Right): Promise<void> {
  // With a right goes what it includes, and that may be missed first.
  const included = Object.keys(including).filter((name) =>
    including[name]?.includes(right.operation),
  );
  const operations = [right.operation, ...included].join('|');
  const wanted = new RegExp(`kafka-acls --add .*--operation (${operations})\\b`, 'm');
  let said = '';
  await until(
    `${describeRight(right)} by name`,
    async () => {
      said = await stage.said();
      return wanted.test(said);
    },
    { deadlineMs: 60_000, intervalMs: 200, describe: () => said },
  );
}

test('R15, R16: each right of the sync tasks that is missing is named', {
  timeout: 3_600_000,
}, async (context) => {
  const stage = await startRightsStage();
  try {
    await stage.giveWork();
    await stage.allDone();
    const failures: string[] = [];
    const needed = stage.rights.filter((right) => isMissedAtOnce(right, stage.rights));
    assert.ok(needed.length > 8, `${needed.length} rights`);
    for (const right of needed) {
      await stage.take([right]);
      await stage.giveWork();
      try {
        await isNamed(stage, right);
      } catch (error) {
        failures.push(error instanceof Error ? error.message : String(error));
      }
      await stage.grant([right]);
      await stage.allDone();
      context.diagnostic(describeRight(right));
    }
    assert.deepEqual(failures, []);
  } finally {
    await stage.stop();
  }
});

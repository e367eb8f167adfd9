// docs/events.md has every event that the code tells, and no other.
//
// Owns: how the names are found in the source text. Refuses to know what they mean. Invariant: a
// call that tells an event names it in its first two arguments.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { rootDirectory } from '../../helpers/repository.ts';

const name = '[a-z]+(?:_[a-z0-9]+)+';
/** Also by the two wrappers that name events. */
const callee = String.raw`(?:vents\.(?:emit|info|warn|error)|\bsaid|#tell)\(`;
/** A level may come first, or be chosen there. */
const level = "[^'`]*(?:'(?:info|warn|error)'[^'`]*)*";
/** The name may be one of two. */
const call = new RegExp(String.raw`${callee}${level}'(${name})'(?:\s*:\s*'(${name})')?`, 'g');

function namesInCode(): string[] {
  const sources = path.join(rootDirectory, 'src');
  const files = readdirSync(sources, { recursive: true, encoding: 'utf8' });
  const texts = files
    .filter((file) => file.endsWith('.ts'))
    .map((file) => readFileSync(path.join(sources, file), 'utf8'));
  const matches = texts.flatMap((text) => [...text.matchAll(call)]);
  return matches.flatMap(([, first, second]) => [first ?? '', ...(second ? [second] : [])]);
}

function namesInDocument(): string[] {
  const text = readFileSync(path.join(rootDirectory, 'docs/events.md'), 'utf8');
  const cells = text.split('\n').map((line) => line.split(' | ')[0] ?? '');
  return cells.flatMap((cell) => {
    if (!cell.startsWith('| `')) return [];
    return [...cell.matchAll(new RegExp(`\`(${name})\``, 'g'))].map((match) => match[1] ?? '');
  });
}

test('docs/events.md lists each event that is told, once', () => {
  const listed = namesInDocument();
  assert.deepEqual([...listed].sort(), [...new Set(namesInCode())].sort());
  assert.ok(listed.length > 100);
});

// docs/mirror-states.md says what the table in the code says. With UPDATE_DOCS=1 it is written.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { mirrorStatesDocument } from '../../helpers/mirror-states-document.ts';
import { rootDirectory } from '../../helpers/repository.ts';

test('docs/mirror-states.md is drawn from the table', () => {
  const file = path.join(rootDirectory, 'docs/mirror-states.md');
  if (process.env.UPDATE_DOCS === '1') writeFileSync(file, mirrorStatesDocument());
  assert.equal(readFileSync(file, 'utf8'), mirrorStatesDocument());
});

// docs/protocol-coverage.md says what the table in the code says. With UPDATE_DOCS=1 it is written.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { protocolCoverageDocument } from '../../helpers/protocol-coverage-document.ts';
import { rootDirectory } from '../../helpers/repository.ts';

test('docs/protocol-coverage.md is written out of the reviewed table', () => {
  const file = path.join(rootDirectory, 'docs/protocol-coverage.md');
  if (process.env.UPDATE_DOCS === '1') writeFileSync(file, protocolCoverageDocument());
  assert.equal(readFileSync(file, 'utf8'), protocolCoverageDocument());
});

// Where the repository lies, for helpers that run compiled, from a folder below dist/.
//
// Owns: the root directory and the git-ignored cache below it, in which everything that tests
// download or compile is kept. Knows nothing of what is cached there.
// Invariant: the same absolute path from every helper.

import { existsSync } from 'node:fs';
import path from 'node:path';

function findRoot(from: string): string {
  let directory = from;
  while (!existsSync(path.join(directory, 'package.json'))) {
    const parent = path.dirname(directory);
    if (parent === directory) throw new Error(`no package.json above ${from}`);
    directory = parent;
  }
  return directory;
}

export const rootDirectory: string = findRoot(import.meta.dirname);

export const cacheDirectory: string =
  process.env.CAUSEWAY_TEST_CACHE || path.join(rootDirectory, '.cache');

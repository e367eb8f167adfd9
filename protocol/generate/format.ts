/**
 * Lays out generated files as Biome does for the rest of the repository, so that they can be read
 * and their differences reviewed. Biome is pinned, hence the result is stable.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { repository } from './jar.ts';

const biome = join(repository, 'node_modules', '.bin', 'biome');

const settings = {
  root: true,
  formatter: { indentStyle: 'space', indentWidth: 2, lineWidth: 100 },
  javascript: { formatter: { quoteStyle: 'single', semicolons: 'always', trailingCommas: 'all' } },
};

export function formatAll(files: ReadonlyMap<string, string>): Map<string, string> {
  const directory = mkdtempSync(join(tmpdir(), 'generated-'));
  try {
    writeFileSync(join(directory, 'biome.json'), JSON.stringify(settings));
    for (const [name, content] of files) writeFileSync(join(directory, name), content);
    execFileSync(biome, ['format', '--write', '.'], { cwd: directory, stdio: 'pipe' });
    return new Map(
      [...files.keys()].map((name) => [name, readFileSync(join(directory, name), 'utf8')]),
    );
  } finally {
    rmSync(directory, { recursive: true });
  }
}

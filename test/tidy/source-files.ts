// The repository's files as the tidy test sees them, what they import, and what they export to
// nobody.
//
// Owns: the walk (without what is generated, installed or built) and the resolution of relative
// imports. Refuses to know any rule.
// Invariant: paths are relative to the root, with forward slashes.

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { rootDirectory } from '../helpers/repository.ts';

export interface SourceFile {
  path: string;
  text: string;
}

const skippedFolders = new Set(['node_modules', 'dist', '.git', '.cache', '__pycache__']);
const binaryEndings = /\.(png|jpg|gif|ico|bin|jar|class|gz|zst|woff2)$/;

function walk(folder: string, found: string[]): string[] {
  for (const entry of readdirSync(path.join(rootDirectory, folder), { withFileTypes: true })) {
    const name = path.posix.join(folder, entry.name);
    if (entry.isDirectory() && !skippedFolders.has(entry.name)) walk(name, found);
    if (entry.isFile() && !binaryEndings.test(entry.name)) found.push(name);
  }
  return found;
}

/** All text files of the repository. */
export function allFiles(): SourceFile[] {
  return walk('', []).map((name) => ({
    path: name,
    text: readFileSync(path.join(rootDirectory, name), 'utf8'),
  }));
}

const codeFolders = /^(protocol|storage|src|test|bench|demo|scripts|bin)\//;

/** Code written by hand. */
export function isCode(file: SourceFile): boolean {
  return codeFolders.test(file.path) && /\.(ts|js)$/.test(file.path) && !isGenerated(file.path);
}

export function isGenerated(name: string): boolean {
  return name.startsWith('protocol/generated/') || name.endsWith('.generated.ts');
}

const importForms = [
  /^\s*(?:import|export)\b[^'"`;]*?\bfrom\s+'([^']+)'/gm,
  /^\s*import\s+'([^']+)'/gm,
  /\bimport\(\s*'([^']+)'\s*\)/g,
  /\bnew URL\(\s*'(\.[^']+)'/g,
];

/** What a file imports, as written: static, dynamic, type-only, and files named for workers. */
export function importsOf(text: string): string[] {
  return importForms.flatMap((form) => [...text.matchAll(form)].map((match) => match[1] ?? ''));
}

/** The file that a relative import names; undefined for packages and Node's modules. */
export function resolveImport(from: string, specifier: string): string | undefined {
  if (!specifier.startsWith('.')) return undefined;
  return path.posix.join(path.posix.dirname(from), specifier);
}

/** Every file that can be reached by imports from the given ones. */
export function reachableFrom(entries: readonly string[]): Set<string> {
  const seen = new Set<string>();
  const open = [...entries];
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    const file = path.join(rootDirectory, name);
    if (seen.has(name) || !existsSync(file)) continue;
    seen.add(name);
    if (!/\.(ts|js)$/.test(name)) continue;
    for (const specifier of importsOf(readFileSync(file, 'utf8'))) {
      const target = resolveImport(name, specifier);
      if (target !== undefined) open.push(target);
    }
  }
  return seen;
}

/** Chains of files in which each imports the next and the last the first, types included. */
export function importCircles(files: readonly SourceFile[]): string[] {
  const imports = new Map(
    files.map(({ path: name, text }) => [
      name,
      importsOf(text).flatMap((specifier) => resolveImport(name, specifier) ?? []),
    ]),
  );
  const circles: string[] = [];
  const done = new Set<string>();
  const visit = (name: string, chain: readonly string[]): void => {
    const at = chain.indexOf(name);
    if (at >= 0) circles.push([...chain.slice(at), name].join(' -> '));
    if (at >= 0 || done.has(name)) return;
    for (const target of imports.get(name) ?? []) visit(target, [...chain, name]);
    done.add(name);
  };
  for (const name of imports.keys()) visit(name, []);
  return circles;
}

const exported =
  /^export (?:async )?(?:abstract )?(?:function\*?|const|class|interface|type) (\w+)/gm;

/** Exported names that stand nowhere else, not even in their own file, as `FILE: NAME`. */
export function deadExports(files: readonly SourceFile[]): string[] {
  const counts = new Map<string, number>();
  for (const { text } of files) {
    for (const [word] of text.matchAll(/\w+/g)) counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  return files.flatMap(({ path: name, text }) =>
    [...text.matchAll(exported)].flatMap(([, word = '']) =>
      counts.get(word) === 1 ? [`${name}: ${word}`] : [],
    ),
  );
}

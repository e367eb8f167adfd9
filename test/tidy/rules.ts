// The rules of the house that can be read off a single file, as a table.
//
// Owns: what is an offence, and for each rule an example that must be caught (the tidy test tries
// them, so that no rule can rot into one that never fires). Refuses to know where files come from.
// Invariant: a rule is pure: one file in, offences out, each naming its line.

import { importsOf, resolveImport, type SourceFile } from './source-files.ts';

export interface Rule {
  name: string;
  appliesTo: RegExp;
  exempt?: RegExp;
  find: (file: SourceFile) => string[];
  /** Text that breaks the rule, under a path that it applies to. */
  example: SourceFile;
}

const anyCode = /^(protocol|storage|src|test|bench|demo|scripts|bin)\/.*\.(ts|js)$/;
const pureLayers = /^(protocol|storage)\/.*\.ts$/;

function offendingLines(text: string, isOffence: (line: string) => boolean): string[] {
  return text.split('\n').flatMap((line, index) => {
    return isOffence(line) ? [`line ${index + 1}: ${line.trim().slice(0, 80)}`] : [];
  });
}

function matchingLines(pattern: RegExp): (file: SourceFile) => string[] {
  return ({ text }) => offendingLines(text, (line) => pattern.test(line));
}

/** Relative imports that leave the allowed folders. */
function importsOutside(...allowed: string[]): (file: SourceFile) => string[] {
  return (file) =>
    importsOf(file.text).filter((specifier) => {
      const target = resolveImport(file.path, specifier);
      return target !== undefined && !allowed.some((folder) => target.startsWith(`${folder}/`));
    });
}

// In parts, so that this file does not break its own rule.
const registryHosts = [
  ['registry', 'npmjs', 'org'],
  ['registry', 'yarnpkg', 'com'],
  ['repo', 'maven', 'apache', 'org'],
  ['repo1', 'maven', 'org'],
  ['pypi', 'org'],
  ['files', 'pythonhosted', 'org'],
  ['proxy', 'golang', 'org'],
  ['static', 'crates', 'io'],
].map((parts) => parts.join('.'));

const openMarks = new RegExp(
  `\\b(${['TO', 'FIX', 'XX'].map((a, i) => a + ['DO', 'ME', 'X'][i]).join('|')})\\b`,
);

export const rules: Rule[] = [
  {
    name: 'protocol/ imports nothing of ours from elsewhere',
    appliesTo: /^protocol\/.*\.ts$/,
    find: importsOutside('protocol'),
    example: { path: 'protocol/a.ts', text: "import { b } from '../storage/b.ts';" },
  },
  {
    name: 'storage/ imports only itself and protocol/',
    appliesTo: /^storage\/.*\.ts$/,
    find: importsOutside('storage', 'protocol'),
    example: { path: 'storage/disk/a.ts', text: "import type { B } from '../../src/b.ts';" },
  },
  {
    name: 'src/ imports only itself and the layers below',
    appliesTo: /^src\/.*\.ts$/,
    find: importsOutside('src', 'storage', 'protocol'),
    example: { path: 'src/a.ts', text: "const b = await import('../test/b.ts');" },
  },
  {
    name: 'protocol/ and storage/ have no clock and no chance',
    appliesTo: pureLayers,
    exempt: /^(protocol\/generate\/|storage\/disk\/device-node\.ts$)/,
    find: matchingLines(
      /^(?!\s*(\/\/|\*)).*\b(Date\.now|performance\.now|Math\.random|new Date\(\))/,
    ),
    example: { path: 'storage/a.ts', text: 'const at = Date.now();' },
  },
  {
    name: 'protocol/ and storage/ have no sockets, processes or files',
    appliesTo: pureLayers,
    exempt: /^(protocol\/generate\/|storage\/disk\/device-node\.ts$)/,
    find: ({ text }) =>
      importsOf(text).filter((name) =>
        /^node:(net|tls|http|https|http2|dgram|dns|fs|fs\/promises|child_process|os)$/.test(name),
      ),
    example: { path: 'storage/disk/segment.ts', text: "import { open } from 'node:fs/promises';" },
  },
  {
    name: 'files have at most 500 lines',
    appliesTo: anyCode,
    find: ({ text }) => {
      const count = text.split('\n').length - 1;
      return count > 500 ? [`${count} lines`] : [];
    },
    example: { path: 'src/a.ts', text: '\n'.repeat(501) },
  },
  {
    name: 'lines have at most 100 columns',
    appliesTo: anyCode,
    // The formatter breaks neither an import nor a test's title.
    find: ({ text }) =>
      offendingLines(text, (line) => [...line].length > 100 && !/^(import |\s*test\()/.test(line)),
    example: { path: 'src/a.ts', text: 'x'.repeat(101) },
  },
  {
    name: 'files open with what they own',
    appliesTo: /^(protocol|storage|src|test|bench|demo)\/.*\.ts$/,
    find: ({ text }) => (/^(#!.*\n)?(\/\/|\/\*)/.test(text) ? [] : ['no comment at the top']),
    example: { path: 'src/a.ts', text: 'export const a = 1;' },
  },
  {
    name: 'file names are kebab-case',
    appliesTo: anyCode,
    find: ({ path }) => (/\/[a-z0-9.-]+$/.test(path) ? [] : [path]),
    example: { path: 'src/someThing.ts', text: '' },
  },
  {
    name: 'nothing is left for later',
    appliesTo: anyCode,
    find: matchingLines(openMarks),
    example: { path: 'src/a.ts', text: `// ${'TO'}${'DO'}: later` },
  },
  {
    name: 'tests are not narrowed',
    appliesTo: /^test\/.*\.ts$/,
    exempt: /^test\/tidy\/rules\.ts$/,
    find: matchingLines(/\.only\(|\bonly: true/),
    example: { path: 'test/a.test.ts', text: "test.only('a', () => {});" },
  },
  {
    name: 'tests wait for conditions, not for time',
    appliesTo: /^test\/.*\.test\.ts$/,
    // A random or empty pause between writes is part of what is tried, not a wait.
    find: matchingLines(
      /\bawait (sleep|delay|setTimeout)\((?!0\)|random\(\))|new Promise\(.*setTimeout\(/,
    ),
    example: { path: 'test/a.test.ts', text: 'await setTimeout(100);' },
  },
  {
    name: 'no compiler or lint rule is switched off',
    appliesTo: anyCode,
    exempt: /^test\/tidy\/rules\.ts$/,
    find: matchingLines(/@ts-ignore|@ts-nocheck|biome-ignore-all|biome-ignore-start/),
    example: { path: 'src/a.ts', text: '// @ts-ignore' },
  },
  {
    name: 'source and destination are written in full',
    appliesTo: anyCode,
    exempt: /^test\/tidy\/rules\.ts$/,
    find: matchingLines(/\b(const|let|var)\s+(src|dst)\b|\bdst[A-Z]\w*|\b(src|dst)(Topic|Offset)/),
    example: { path: 'src/a.ts', text: 'const dst = 1;' },
  },
  {
    name: 'no package registry is named: where packages come from is the machine’s business',
    appliesTo: /./,
    find: ({ text }) => registryHosts.filter((host) => text.includes(host)),
    example: { path: 'README.md', text: registryHosts[0] ?? '' },
  },
];

export function offences(rule: Rule, files: readonly SourceFile[]): string[] {
  return files
    .filter((file) => rule.appliesTo.test(file.path) && !rule.exempt?.test(file.path))
    .flatMap((file) => rule.find(file).map((offence) => `${file.path}: ${offence}`));
}

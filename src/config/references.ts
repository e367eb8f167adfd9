// References to secrets, `${env:NAME}` and `${file:PATH:KEY}`, in the settings of links: they are
// stored and shown as they are, and resolved only where a connection is made. Owns what a reference
// looks like and how it is resolved; the environment and the files are arguments.
// Invariant: an error names the reference, never a value.

import { PropertiesFault, readProperties } from './properties.ts';

export interface ReferenceSources {
  environment(name: string): string | undefined;
  /** The text of a file. Rejects with the system's error. */
  readFile(path: string): Promise<string>;
}

export class ReferenceFault extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'ReferenceFault';
  }
}

const reference = /\$\{(env|file):([^}]*)\}/g;
const wholeReference = /^\$\{(?:env:[A-Za-z_][A-Za-z0-9_]*|file:[^}]+:[^}:]+)\}$/;

/** The value is one reference and nothing else. */
export function isReference(value: string): boolean {
  return wholeReference.test(value);
}

/** One key of a properties file; undefined when it is not there. */
function propertyOf(text: string, path: string, key: string): string | undefined {
  try {
    return readProperties(text).findLast((property) => property.key === key)?.value;
  } catch (error) {
    if (!(error instanceof PropertiesFault)) throw error;
    throw new ReferenceFault(`file ${path}, ${error.message}`);
  }
}

async function resolveOne(kind: string, place: string, sources: ReferenceSources): Promise<string> {
  if (kind === 'env') {
    const value = sources.environment(place);
    if (value === undefined) throw new ReferenceFault(`environment variable ${place} is not set`);
    return value;
  }
  const colon = place.lastIndexOf(':');
  if (colon <= 0)
    throw new ReferenceFault(`\${file:${place}} is not of the form \${file:PATH:KEY}`);
  const path = place.slice(0, colon);
  let text: string;
  try {
    text = await sources.readFile(path);
  } catch (error) {
    const reason = error instanceof Error && 'code' in error ? String(error.code) : 'unreadable';
    throw new ReferenceFault(`file ${path} cannot be read (${reason})`);
  }
  const key = place.slice(colon + 1);
  const value = propertyOf(text, path, key);
  if (value === undefined) throw new ReferenceFault(`file ${path} has no key ${key}`);
  return value;
}

/** The text with every reference replaced; what comes in its place is taken as it is. */
export async function resolveReferences(text: string, sources: ReferenceSources): Promise<string> {
  let resolved = '';
  let position = 0;
  for (const match of text.matchAll(reference)) {
    const [whole, kind = '', place = ''] = match;
    resolved += text.slice(position, match.index) + (await resolveOne(kind, place, sources));
    position = match.index + whole.length;
  }
  return resolved + text.slice(position);
}

/**
 * Reads `common/message/*.json` out of the kafka-clients jar, at build time only. A jar is a zip
 * file: its directory stands at the end, and entries are stored or deflated, which is all that is
 * understood here. The definitions are JSON with whole-line `//` comments.
 */
import { readFileSync } from 'node:fs';
import { inflateRawSync } from 'node:zlib';
import type { RawMessage } from '../schema/types.ts';

const endOfDirectorySignature = 0x06054b50;
const directoryEntrySignature = 0x02014b50;
const endOfDirectoryBytes = 22;

/** The file is none that the definitions can be read out of. */
export class NoJar extends Error {}

interface ZipEntry {
  name: string;
  method: number;
  compressedBytes: number;
  headerPosition: number;
}

export function readDefinitions(jarPath: string): RawMessage[] {
  const zip = readFileSync(jarPath);
  const definitions = listEntries(zip)
    .filter((entry) => /^common\/message\/\w+\.json$/.test(entry.name))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .map((entry) => parseDefinition(entry.name, readEntry(zip, entry).toString('utf8')));
  if (definitions.length === 0) throw new NoJar('it holds no message definitions');
  return definitions;
}

export function parseDefinition(name: string, text: string): RawMessage {
  const json = text.replace(/^\s*\/\/.*$/gm, '');
  try {
    return JSON.parse(json) as RawMessage;
  } catch (cause) {
    throw new Error(`${name} is not JSON with // comments`, { cause });
  }
}

function listEntries(zip: Buffer): ZipEntry[] {
  const tail = findEndOfDirectory(zip);
  const count = zip.readUInt16LE(tail + 10);
  let position = zip.readUInt32LE(tail + 16);
  const entries: ZipEntry[] = [];
  for (let index = 0; index < count; index++) {
    if (zip.readUInt32LE(position) !== directoryEntrySignature) {
      throw new Error(`zip directory is broken at ${position}`);
    }
    const nameBytes = zip.readUInt16LE(position + 28);
    entries.push({
      name: zip.toString('utf8', position + 46, position + 46 + nameBytes),
      method: zip.readUInt16LE(position + 10),
      compressedBytes: zip.readUInt32LE(position + 20),
      headerPosition: zip.readUInt32LE(position + 42),
    });
    const extraBytes = zip.readUInt16LE(position + 30) + zip.readUInt16LE(position + 32);
    position += 46 + nameBytes + extraBytes;
  }
  return entries;
}

/** It is the last record of the file, but for a comment of unknown length. */
function findEndOfDirectory(zip: Buffer): number {
  for (let position = zip.length - endOfDirectoryBytes; position >= 0; position--) {
    if (zip.readUInt32LE(position) === endOfDirectorySignature) return position;
  }
  throw new NoJar('it is no zip file');
}

function readEntry(zip: Buffer, entry: ZipEntry): Buffer {
  const nameBytes = zip.readUInt16LE(entry.headerPosition + 26);
  const extraBytes = zip.readUInt16LE(entry.headerPosition + 28);
  const start = entry.headerPosition + 30 + nameBytes + extraBytes;
  const data = zip.subarray(start, start + entry.compressedBytes);
  if (entry.method === 0) return data;
  if (entry.method === 8) return inflateRawSync(data);
  throw new Error(`${entry.name}: zip method ${entry.method} is not supported`);
}

// Whose directory this is: `causeway.properties`, and the verdict on it.
//
// Owns: the file's format, and the comparison with what configuration and state say. It knows no
// logs. Invariant: a directory that is not the one that the state names is never written to, unless
// an operator accepted the loss.

import { StorageError } from '../errors.ts';
import { type Disk, DiskError, joinPath, readText, replaceFile } from './device.ts';

export interface DirectoryIdentity {
  readonly clusterId: string;
  readonly instanceName: string;
  readonly directoryId: string;
}

export const identityFileName = 'causeway.properties';
export const logsDirectoryName = 'logs';

const formatVersion = '1';

export function formatIdentity(identity: DirectoryIdentity): string {
  return [
    '# Mirror logs of Causeway. The directory belongs to the state in the destination cluster.',
    `version=${formatVersion}`,
    `cluster.id=${identity.clusterId}`,
    `instance.name=${identity.instanceName}`,
    `directory.id=${identity.directoryId}`,
    '',
  ].join('\n');
}

function parseIdentity(text: string, path: string): DirectoryIdentity {
  const values = new Map<string, string>();
  for (const line of text.split('\n')) {
    const equals = line.indexOf('=');
    if (line.startsWith('#') || equals < 0) continue;
    values.set(line.slice(0, equals).trim(), line.slice(equals + 1).trim());
  }
  const version = values.get('version');
  if (version !== formatVersion) {
    const detail = `${path} has format version ${version ?? '(none)'}, not ${formatVersion}`;
    throw new StorageError('FOREIGN_DIRECTORY', detail);
  }
  const value = (key: string): string => {
    const found = values.get(key);
    if (found !== undefined && found !== '') return found;
    throw new StorageError('FOREIGN_DIRECTORY', `${path} lacks ${key}`);
  };
  return {
    clusterId: value('cluster.id'),
    instanceName: value('instance.name'),
    directoryId: value('directory.id'),
  };
}

export interface ExpectedIdentity {
  readonly clusterId: string;
  readonly instanceName: string;
  /** What the state says, or null when it has never had a directory. */
  readonly directoryId: string | null;
}

export type Verdict =
  | { readonly kind: 'ours'; readonly identity: DirectoryIdentity }
  /** Nothing is there and nothing is expected: it can be made. */
  | { readonly kind: 'new' }
  | { readonly kind: 'refused'; readonly error: StorageError };

function refused(code: 'MISSING' | 'FOREIGN_DIRECTORY', detail: string): Verdict {
  return { kind: 'refused', error: new StorageError(code, detail) };
}

async function hasLogs(disk: Disk, directory: string): Promise<boolean> {
  try {
    return (await disk.list(joinPath(directory, logsDirectoryName))).length > 0;
  } catch (error) {
    if (error instanceof DiskError && error.code === 'NOT_FOUND') return false;
    throw error;
  }
}

/** Looks only. */
export async function judgeDirectory(
  disk: Disk,
  directory: string,
  expected: ExpectedIdentity,
): Promise<Verdict> {
  const path = joinPath(directory, identityFileName);
  const text = await readText(disk, path);
  if (text === null) {
    if (await hasLogs(disk, directory)) {
      return refused('FOREIGN_DIRECTORY', `${directory} holds logs but no ${identityFileName}`);
    }
    if (expected.directoryId === null) return { kind: 'new' };
    const detail = `${directory} is empty, the state expects directory ${expected.directoryId}`;
    return refused('MISSING', detail);
  }
  let identity: DirectoryIdentity;
  try {
    identity = parseIdentity(text, path);
  } catch (error) {
    if (error instanceof StorageError) return { kind: 'refused', error };
    throw error;
  }
  const pairs = [
    ['cluster', identity.clusterId, expected.clusterId],
    ['instance', identity.instanceName, expected.instanceName],
    ['directory id', identity.directoryId, expected.directoryId ?? identity.directoryId],
  ] as const;
  for (const [what, found, wanted] of pairs) {
    if (found === wanted) continue;
    return refused('FOREIGN_DIRECTORY', `${directory} is of ${what} ${found}, not ${wanted}`);
  }
  return { kind: 'ours', identity };
}

export async function writeIdentity(
  disk: Disk,
  directory: string,
  identity: DirectoryIdentity,
): Promise<void> {
  const content = Buffer.from(formatIdentity(identity), 'utf8');
  await replaceFile(disk, joinPath(directory, identityFileName), content);
}

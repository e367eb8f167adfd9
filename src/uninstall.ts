// `causeway uninstall --config`: what is left when the proxy goes for good is removed, with the
// proxy stopped: the state topic, then the directory of mirror logs. Refuses to know what stands
// in the way. Invariants: a directory goes only when it is the one that the state names, and no
// process has it open; it goes after the state, so that a crash between leaves files and no lost
// timeline.
import { rm } from 'node:fs/promises';
import path from 'node:path';
import {
  identityFileName,
  judgeDirectory,
  logsDirectoryName,
} from '../storage/disk/directory-identity.ts';
import { lockDirectory } from '../storage/disk/directory-lock.ts';
import { nodeDisk } from '../storage/index.ts';
import { connectDestination } from './clients.ts';
import type { CausewayConfig } from './config/config.ts';
import { destinationClusterId, exists, StartError } from './startup.ts';
import { previousFileName, snapshotFileName } from './state/snapshot.ts';
import { type UninstallFindings, uninstallState } from './state/uninstall.ts';

export interface UninstallRequest {
  readonly isDryRun: boolean;
  /** The directory of mirror logs is left as it is. */
  readonly keepDirectory: boolean;
}

export interface Uninstalled extends UninstallFindings {
  readonly directory: string;
  readonly isDirectoryRemoved: boolean;
}

/** With something in `blocking` nothing has changed. @throws StateError, StartError */
export async function uninstall(
  config: CausewayConfig,
  request: UninstallRequest,
): Promise<Uninstalled> {
  const cluster = connectDestination(config);
  const { directory } = config.storage;
  const claimed: (() => Promise<void>)[] = [];
  try {
    const clusterId = await destinationClusterId(cluster);
    const found = await uninstallState({
      name: config.name,
      cluster,
      clock: { now: () => performance.now(), wallMs: () => Date.now() },
      isDryRun: request.isDryRun,
      confirm: async ({ directoryId }) => {
        if (request.keepDirectory || directoryId === null) return;
        const expected = { clusterId, instanceName: config.name, directoryId };
        claimed.push(await claim(directory, expected));
      },
    });
    if (claimed.length > 0) await removeOurs(directory);
    return { ...found, directory, isDirectoryRemoved: claimed.length > 0 };
  } finally {
    for (const release of claimed) await release();
    await cluster.close();
  }
}

/** The directory itself may be a mount point, and hold what others have put there. */
async function removeOurs(directory: string): Promise<void> {
  const names = [logsDirectoryName, snapshotFileName, previousFileName, identityFileName];
  for (const name of names) {
    await rm(path.join(directory, name), { recursive: true, force: true });
  }
}

/** Holds the directory until it is let go. @throws StartError when it is not ours, or in use */
async function claim(
  directory: string,
  expected: Parameters<typeof judgeDirectory>[2],
): Promise<() => Promise<void>> {
  const keep = 'put it back, or say --keep-directory';
  if (!(await exists(directory))) throw new StartError(`${directory} is not there: ${keep}`);
  const verdict = await judgeDirectory(nodeDisk, directory, expected);
  if (verdict.kind !== 'ours') {
    const why = verdict.kind === 'refused' ? verdict.error.message : `${directory} is empty`;
    throw new StartError(`${why}: ${keep}`);
  }
  const lock = await lockDirectory(nodeDisk, directory, () => undefined);
  return () => lock.release();
}

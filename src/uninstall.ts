// `causeway uninstall --config`: what is left when the proxy goes for good is removed, with the
// proxy stopped: on request the ACLs that links made, the state topic, then the directory of mirror
// logs. Refuses to know what stands in the way. Invariants: an ACL goes while the state still knows
// that it is ours, and no other goes; a directory goes only when it is the one that the state
// names, and no process has it open; it goes after the state, so that a crash between leaves files
// and no lost timeline.
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
import type { Cluster } from './cluster/cluster.ts';
import type { CausewayConfig } from './config/config.ts';
import { destinationClusterId, exists, StartError } from './startup.ts';
import type { Acl } from './state/records.ts';
import { previousFileName, snapshotFileName } from './state/snapshot.ts';
import { type UninstallFindings, uninstallState } from './state/uninstall.ts';
import { deleteAcls } from './tasks/acl-requests.ts';
import { describeAcl } from './tasks/acls.ts';
import { chunks } from './tasks/chunks.ts';

const aclsPerRequest = 500;

export interface UninstallRequest {
  readonly isDryRun: boolean;
  /** The directory of mirror logs is left as it is. */
  readonly keepDirectory: boolean;
  /** ACLs that links made go too. Default: they stay, clients need them at the brokers. */
  readonly removeAcls?: boolean;
}

export interface Uninstalled extends Omit<UninstallFindings, 'acls'> {
  readonly directory: string;
  readonly isDirectoryRemoved: boolean;
  readonly aclsCount: number;
  /** As an operator would name them. */
  readonly acls: readonly string[];
  readonly areAclsRemoved: boolean;
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
      confirm: async ({ directoryId, acls }) => {
        if (!request.keepDirectory && directoryId !== null) {
          const expected = { clusterId, instanceName: config.name, directoryId };
          claimed.push(await claim(directory, expected));
        }
        if (request.removeAcls === true) await removeAcls(cluster, acls);
      },
    });
    if (claimed.length > 0) await removeOurs(directory);
    const isDone = !request.isDryRun && found.blocking.length === 0;
    return {
      ...found,
      directory,
      isDirectoryRemoved: claimed.length > 0,
      aclsCount: found.acls.length,
      acls: found.acls.map(describeAcl),
      areAclsRemoved: isDone && request.removeAcls === true,
    };
  } finally {
    for (const release of claimed) await release();
    await cluster.close();
  }
}

/** @throws StartError; then the state is still there, and the same can be asked for again */
async function removeAcls(cluster: Cluster, acls: readonly Acl[]): Promise<void> {
  for (const some of chunks(acls, aclsPerRequest)) {
    const problems = await deleteAcls(cluster, some);
    const index = problems.findIndex((problem) => problem !== null);
    const acl = some[index];
    if (acl === undefined) continue;
    throw new StartError(`${describeAcl(acl)} cannot be removed: ${problems[index]?.message}`);
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

// The steps of a start that need more than a call: the destination's identity, whether the storage
// directory holds this instance's mirror logs, whether another process has it or our ports, and the
// directory's record in the state. Used by main.ts only. Invariants: a directory of somebody else
// is never written to; a start that cannot end well is over before it takes the lease.
import { readdir, stat } from 'node:fs/promises';
import { createServer } from 'node:net';
import path from 'node:path';
import { DiskError } from '../storage/disk/device.ts';
import { judgeDirectory, logsDirectoryName } from '../storage/disk/directory-identity.ts';
import { lockDirectory, lockFileName } from '../storage/disk/directory-lock.ts';
import {
  nodeClock,
  nodeDisk,
  type OpenedStorage,
  openDiskStorage,
  type StorageReport,
} from '../storage/index.ts';
import { type Cluster, ClusterError } from './cluster/cluster.ts';
import type { CausewayConfig } from './config/config.ts';
import type { LinkMemory } from './config/limits.ts';
import { connectionLimitWarnings } from './gateway/connection-limits.ts';
import { UpstreamAddresses } from './gateway/upstream-addresses.ts';
import { defaultLinkLimits } from './link/context.ts';
import { isMirror } from './link/mirror/mirror-state.ts';
import { answerSizes, parseLinkSettings } from './link/settings/link-settings.ts';
import type { Events } from './observe/events.ts';
import { emitStorageReport } from './observe/storage-events.ts';
import type { LinkRecord, TopicRecord } from './state/records.ts';
import { snapshotFileName } from './state/snapshot.ts';
import type { State } from './state/state.ts';

/** A start that cannot go on, as one sentence. */
export class StartError extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'StartError';
  }
}

export async function destinationClusterId(cluster: Cluster): Promise<string> {
  let clusterId: string | null;
  try {
    ({ clusterId } = await cluster.metadata([]));
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new StartError(`the destination does not answer: ${reason}`, { cause: error });
  }
  if (clusterId === null) throw new StartError('the destination does not tell its cluster id');
  return clusterId;
}

/** What cannot be looked at is an error, never absent. */
export async function exists(file: string): Promise<boolean> {
  try {
    await stat(file);
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return false;
    throw error;
  }
}

async function hasEntries(directory: string): Promise<boolean> {
  return (await exists(directory)) && (await readdir(directory)).length > 0;
}

export interface DirectoryFindings {
  /** There is something whose state must not be lost: a missing state topic is then refused. */
  readonly mirrorStorageExists: boolean;
  /** Where snapshots of the state go; beside a foreign identity, into a folder of their own. */
  readonly snapshotDirectory: string;
}

/** Looks at the storage directory before anything is written there. */
export async function inspectDirectory(
  config: CausewayConfig,
  clusterId: string,
): Promise<DirectoryFindings> {
  const { directory } = config.storage;
  const expected = { clusterId, instanceName: config.name, directoryId: null };
  const verdict = await judgeDirectory(nodeDisk, directory, expected);
  if (verdict.kind === 'refused') {
    const own = path.join(directory, `state-${config.name}-${clusterId}`);
    return { mirrorStorageExists: false, snapshotDirectory: own };
  }
  const mirrorStorageExists =
    verdict.kind === 'ours' &&
    ((await hasEntries(path.join(directory, logsDirectoryName))) ||
      (await exists(path.join(directory, snapshotFileName))));
  return { mirrorStorageExists, snapshotDirectory: directory };
}

/**
 * Ends a start by mistake, beside the instance that runs, while that one still has its lease: the
 * new owner of a state fences the old one for good, and would then have no directory or no port.
 * @throws StorageError LOCKED, StartError
 */
export async function assertAlone(
  config: CausewayConfig,
  options: { clusterId: string; acceptLoss: boolean; events: Events },
): Promise<void> {
  const { clusterId, acceptLoss, events } = options;
  const { directory } = config.storage;
  const expected = { clusterId, instanceName: config.name, directoryId: null };
  const verdict = await judgeDirectory(nodeDisk, directory, expected);
  const willBeUsed = verdict.kind !== 'refused' || acceptLoss;
  if (willBeUsed && (await exists(path.join(directory, lockFileName)))) {
    await assertUnlocked(directory, events);
  }
  const { bind, bootstrapPort } = config.gateway;
  const gatewayPort = `port ${bootstrapPort} for the bootstrap listener cannot be bound`;
  await assertFree({ host: bind, port: bootstrapPort }, gatewayPort);
  const { bind: host, port } = config.admin;
  await assertFree({ host, port }, 'the admin API cannot be served');
}

async function assertUnlocked(directory: string, events: Events): Promise<void> {
  try {
    const onReport = (report: StorageReport): void => emitStorageReport(events, report);
    await (await lockDirectory(nodeDisk, directory, onReport)).release();
  } catch (error) {
    // A directory that cannot be written is the storage's to report: the service starts without it.
    if (!(error instanceof DiskError)) throw error;
  }
}

function assertFree(address: { host: string; port: number }, otherwise: string): Promise<void> {
  const server = createServer((socket) => socket.destroy());
  return new Promise((resolve, reject) => {
    server.once('error', (cause) => {
      reject(new StartError(`${otherwise}: ${cause.message}`, { cause }));
    });
    server.listen(address, () => server.close(() => resolve()));
  });
}

/** A sentence for each limit of the destination's brokers that is below what we may need. */
export async function connectionWarnings(
  config: CausewayConfig,
  cluster: Cluster,
): Promise<string[]> {
  try {
    const addresses = new UpstreamAddresses(config.gateway.upstreamAddresses);
    return await connectionLimitWarnings(cluster, addresses);
  } catch (error) {
    if (!(error instanceof ClusterError)) throw error;
    if (error.code === 'CLOSED') return [];
    return [`the limits for connections cannot be read: ${error.message}`];
  }
}

export interface StorageStart {
  readonly config: CausewayConfig;
  readonly clusterId: string;
  readonly state: State;
  readonly events: Events;
  readonly acceptLoss: boolean;
}

/** Opens the mirror logs and records the directory in the state when it is new there. */
export async function openStorage(start: StorageStart): Promise<OpenedStorage> {
  const { config, clusterId, state, events } = start;
  const expectedDirectoryId = state.view.storage?.directoryId ?? null;
  const storage = await openDiskStorage({
    directory: config.storage.directory,
    disk: nodeDisk,
    clock: nodeClock,
    clusterId,
    instanceName: config.name,
    expectedDirectoryId,
    acceptLoss: start.acceptLoss,
    minFree: config.storage.minFreeBytes,
    onReport: (report) => emitStorageReport(events, report),
  });
  if (storage.refusal === null && storage.directoryId !== expectedDirectoryId) {
    await state.commit([{ put: { kind: 'storage', directoryId: storage.directoryId } }]);
  }
  return storage;
}

/** What links count for in the memory sum, with the mirrors that there are. */
export function linkMemory(
  links: Iterable<LinkRecord>,
  topics: Iterable<TopicRecord>,
): LinkMemory[] {
  const mirrors = [...topics].filter(({ state }) => isMirror(state));
  return [...links].map(({ name, configs }) => {
    const settings = parseLinkSettings(configs);
    // Each mirror of one source topic has connections of its own.
    const counts = new Map<string, number>();
    let most = 1;
    for (const { link, sourceTopic } of mirrors) {
      if (link !== name) continue;
      const count = (counts.get(sourceTopic) ?? 0) + 1;
      counts.set(sourceTopic, count);
      most = Math.max(most, count);
    }
    return {
      name,
      fetchersPerBroker: settings.fetchersPerBroker * most,
      sizes: answerSizes(settings, defaultLinkLimits),
    };
  });
}

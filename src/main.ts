// Wiring: makes every part of the service from its configuration, in order (destination, state,
// storage, links, gateway, admin), and ends them in reverse. Holds no logic of its own. Invariants:
// ports are bound before the first answer; a start that fails closes what it had opened.
import { totalmem } from 'node:os';
import { startAdminServer } from './admin/server.ts';
import type { AdminServices, ServiceStatus } from './admin/services.ts';
import { connectDestination, connectSource, destinationSecurity } from './clients.ts';
import type { CausewayConfig } from './config/config.ts';
import { eventsMax, memoryTermsOf, memoryWarning } from './config/limits.ts';
import { type Gateway, startGateway } from './gateway/gateway.ts';
import { type OffsetShift, shiftedDirectory } from './gateway/shifted-directory.ts';
import { systemClock } from './link/context.ts';
import { startLinks } from './link/start.ts';
import { Events } from './observe/events.ts';
import { Health } from './observe/health.ts';
import { createLogger, type Logger, logConnection, logEvents } from './observe/log.ts';
import { createMetrics } from './observe/metrics.ts';
import { StorageUsageReader } from './observe/storage-usage.ts';
import {
  assertAlone,
  connectionWarnings,
  destinationClusterId,
  inspectDirectory,
  linkMemory,
  openStorage,
} from './startup.ts';
import { formatExport } from './state/export-file.ts';
import { openState } from './state/open-state.ts';
import { StateError } from './state/state.ts';
import { version } from './version.ts';

/**
 * Our own topics of the destination; clients may not change them, links never mirror such names.
 */
const ownTopicPrefix = '__causeway';

export interface CausewayOptions {
  /** An operator's word that mirror logs which are missing or corrupt are lost. */
  readonly acceptLoss?: boolean;
  /** For tests: all topics are presented as promoted, with these shifts. */
  readonly offsetShift?: OffsetShift | undefined;
  /** An operator's word that an instance of the same name that lives may be fenced. */
  readonly takeOver?: boolean;
  /** Default: one that writes JSON lines to stdout. */
  readonly logger?: Logger;
}

export interface Causeway {
  readonly adminUrl: string;
  readonly events: Events;
  close(): Promise<void>;
}

/** What has been opened so far; closed in reverse order, each however the others end. */
class Opened {
  readonly #closers: { readonly name: string; readonly close: () => Promise<void> | void }[] = [];
  readonly #events: Events;

  constructor(events: Events) {
    this.#events = events;
  }

  add(name: string, close: () => Promise<void> | void): void {
    this.#closers.push({ name, close });
  }

  async close(): Promise<void> {
    for (const { name, close } of this.#closers.splice(0).reverse()) {
      try {
        await close();
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        this.#events.warn('close_failed', `The ${name} did not close in order: ${reason}.`);
      }
    }
  }
}

type Parts = Awaited<ReturnType<typeof openParts>>;

/** Destination, state, storage, links, gateway: what serves clients and mirrors. */
async function openParts(
  config: CausewayConfig,
  options: {
    acceptLoss: boolean;
    offsetShift: OffsetShift | undefined;
    takeOver: boolean;
    events: Events;
    logger: Logger;
    opened: Opened;
  },
) {
  const { acceptLoss, takeOver, offsetShift, events, logger, opened } = options;
  const destination = connectDestination(config);
  opened.add('client of the destination', () => destination.close());
  const clusterId = await destinationClusterId(destination);
  const findings = await inspectDirectory(config, clusterId);
  await assertAlone(config, { clusterId, acceptLoss, events });
  const state = await openState({
    name: config.name,
    cluster: destination,
    clock: { now: () => performance.now(), wallMs: () => Date.now() },
    events,
    takeOver,
    ...findings,
  });
  opened.add('state', () => state.close());
  const storage = await openStorage({ config, clusterId, state, events, acceptLoss });
  opened.add('storage', () => storage.close());
  const usage = new StorageUsageReader(storage, events);
  const links = await startLinks({
    state,
    storage,
    destination,
    connectSource,
    events,
    clock: systemClock,
    ownTopicPrefix,
    acceptLoss,
  });
  opened.add('links', () => links.close());
  let directory = links.directory;
  if (offsetShift !== undefined) {
    const shifting = { inner: directory, storage, destination, events, shift: offsetShift };
    const shifted = await shiftedDirectory(shifting);
    opened.add('offset shift', () => shifted.close());
    directory = shifted;
  }
  const gateway = await startGateway({
    config: config.gateway,
    cluster: destination,
    security: destinationSecurity(config),
    directory,
    groupGate: links.groupGate,
    ports: {
      load: () => state.view.nodePorts?.ports ?? {},
      save: (ports) => state.commit([{ put: { kind: 'node-ports', ports } }]),
    },
    events,
    instanceName: config.name,
    onConnection: (phase, connection) => logConnection(logger, phase, connection),
  });
  opened.add('gateway', () => gateway.close());
  const { links: linkRecords, topics } = state.view;
  const ofLinks = linkMemory(linkRecords.values(), topics.values());
  const memory = memoryWarning(totalmem(), memoryTermsOf(ofLinks));
  if (memory !== null) events.warn('memory_limit', `Memory: ${memory}.`);
  // Nobody waits for it: a broker that is down would hold up the start.
  void connectionWarnings(config, destination).then((warnings) => {
    for (const warning of warnings) {
      events.warn('connection_limit', `The destination: ${warning}.`);
    }
  });
  return { config, events, destination, clusterId, state, storage, usage, links, gateway };
}

async function checkDestination({ destination, clusterId }: Parts): Promise<void> {
  const found = await destination.metadata([]);
  if (found.clusterId !== clusterId) {
    throw new Error(`the destination is another cluster now: ${found.clusterId}`);
  }
}

function checkGateway(gateway: Gateway): void {
  if (gateway.endpoints().length === 0) throw new Error('no port is bound');
}

async function statusOf(parts: Parts): Promise<ServiceStatus> {
  const { config, clusterId, state, storage, gateway } = parts;
  const usage = await parts.usage.read();
  return {
    version,
    name: config.name,
    instanceId: state.lease.instanceId,
    role: state.lease.isValid() ? 'owner' : 'standby',
    clusterId,
    gateway: {
      advertise: config.gateway.advertise,
      bootstrapPort: gateway.bootstrapPort,
      connections: gateway.stats.connections,
      bypassGroups: gateway.bypassGroups,
    },
    storage: {
      directory: config.storage.directory,
      usable: storage.refusal === null,
      usedBytes: usage?.usedBytes ?? null,
      freeBytes: usage?.freeBytes ?? null,
      isFull: storage.isFull,
    },
  };
}

/** Why no link can move, whatever each of them says of itself. */
function sharedCauses({ storage, state }: Parts): { name: string; cause: string }[] {
  const causes: { name: string; cause: string }[] = [];
  const { refusal, isFull } = storage;
  if (refusal !== null) {
    causes.push({ name: 'storage', cause: refusal.message });
  } else if (isFull) {
    const cause = 'free space is below the minimum: fetching has stopped';
    causes.push({ name: 'storage', cause });
  }
  const notOwner = notOwnerBecause(state);
  if (notOwner !== null) causes.push({ name: 'state', cause: notOwner });
  return causes;
}

/** Without the lease nothing is fetched, synced or switched here. */
function notOwnerBecause({ lease }: Parts['state']): string | null {
  try {
    lease.check();
    return null;
  } catch (error) {
    if (error instanceof StateError) return `this instance changes nothing: ${error.message}`;
    throw error;
  }
}

function adminServices(parts: Parts, opened: Opened): AdminServices {
  const { config, events, clusterId, state, links, gateway } = parts;
  const { service } = links;
  const health = new Health({
    readiness: [
      { name: 'gateway', check: () => checkGateway(gateway) },
      { name: 'destination', check: () => checkDestination(parts) },
    ],
    links: service,
    shared: () => sharedCauses(parts),
    now: () => performance.now(),
  });
  const metrics = createMetrics(
    {
      version,
      links: service,
      events,
      receipts: () => state.view.receipts.values(),
      isOwner: () => state.lease.isValid(),
      storage: () => parts.usage.read(),
      gateway: () => ({
        connections: gateway.stats.connections,
        bytesFromClients: gateway.stats.bytesFromClientsTotal,
        bytesToClients: gateway.stats.bytesToClientsTotal,
        heldBytes: gateway.stats.heldBytes,
        vanished: gateway.stats.vanishedTotal,
        certificateExpiresTimeMs: gateway.certificateExpiresTimeMs,
        bypassGroups: gateway.bypassGroups,
      }),
    },
    { partitions: config.admin.partitionMetrics ?? true },
  );
  opened.add('metrics', () => metrics.close());
  return {
    clusterId,
    instanceId: state.lease.instanceId,
    links: service,
    events,
    health,
    metrics,
    status: () => statusOf(parts),
    exportState: async () => exportText(parts),
  };
}

function exportText({ config, clusterId, state }: Parts): string {
  const head = { name: config.name, clusterId, writtenTimeMs: Date.now() };
  return formatExport(head, state.view.records());
}

/** Starts the service; resolves when clients and operators are served. */
export async function startCauseway(
  config: CausewayConfig,
  options: CausewayOptions = {},
): Promise<Causeway> {
  const events = new Events({ ringMax: eventsMax });
  const logger = options.logger ?? createLogger({ level: config.log.level, name: config.name });
  const stopLogging = logEvents(events, logger);
  const opened = new Opened(events);
  opened.add('log', stopLogging);
  try {
    events.info('starting', `Causeway ${version} starts.`, { version, pid: process.pid });
    const { acceptLoss = false, takeOver = false, offsetShift } = options;
    const choices = { acceptLoss, takeOver, offsetShift };
    const parts = await openParts(config, { ...choices, events, logger, opened });
    const admin = await startAdminServer(adminServices(parts, opened), config.admin);
    opened.add('admin API', () => admin.close());
    events.info('started', `Causeway serves cluster ${parts.clusterId}.`, {
      clusterId: parts.clusterId,
      advertise: config.gateway.advertise,
      bootstrapPort: parts.gateway.bootstrapPort,
      adminUrl: admin.url,
    });
    const close = async (): Promise<void> => {
      events.info('stopping', 'Causeway stops.');
      await opened.close();
    };
    return { adminUrl: admin.url, events, close };
  } catch (error) {
    await opened.close();
    throw error;
  }
}

// What a start finds in its storage directory, and what it does with a directory that is new.
import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { after, beforeEach, test } from 'node:test';
import type { CausewayConfig } from '../../../src/config/config.ts';
import { parseConfig } from '../../../src/config/load.ts';
import { Events } from '../../../src/observe/events.ts';
import {
  assertAlone,
  exists,
  inspectDirectory,
  linkMemory,
  openStorage,
} from '../../../src/startup.ts';
import type { StorageRecord } from '../../../src/state/records.ts';
import type { State, StateChange } from '../../../src/state/state.ts';
import { formatIdentity, identityFileName } from '../../../storage/disk/directory-identity.ts';
import { mirrorRecord } from '../link/fakes.ts';

const clusterId = 'cluster-1';
const directories: string[] = [];
let directory: string;
let config: CausewayConfig;

beforeEach(async () => {
  directory = await mkdtemp(path.join(os.tmpdir(), 'causeway-startup-'));
  directories.push(directory);
  config = parseConfig(
    `destination: {bootstrap.servers: "k:9092"}
gateway: {advertise: h}
storage: {directory: ${directory}, minFreeBytes: 1MiB}
`,
    {},
  );
});

after(async () => {
  for (const made of directories) await rm(made, { recursive: true });
});

interface RecordedState extends State {
  readonly commits: StateChange[];
}

/** Only what a start asks of the state. */
function stateWith(storage: StorageRecord | undefined): RecordedState {
  const commits: StateChange[] = [];
  const view = {
    links: new Map(),
    topics: new Map(),
    receipts: new Map(),
    linkAcls: new Map(),
    topicGrants: new Map(),
    shareGroups: new Map(),
    sourcesSeen: new Map(),
    handovers: new Map(),
    logRemovals: new Map(),
    nodePorts: undefined,
    storage,
    records: () => (storage === undefined ? [] : [storage]),
  };
  return {
    commits,
    view,
    lease: { isValid: () => true, check: () => undefined, instanceId: 'i' },
    isSettled: true,
    isInDoubt: () => false,
    owned: async () => undefined,
    commit: async (changes) => void commits.push(...changes),
    onChange: () => () => undefined,
    onOwnership: () => () => undefined,
    close: async () => undefined,
  };
}

async function identity(of: { clusterId: string; instanceName: string }): Promise<void> {
  const text = formatIdentity({ ...of, directoryId: 'directory-1' });
  await writeFile(path.join(directory, identityFileName), text);
}

const ours = { clusterId, instanceName: 'causeway' };

test('R14: the memory sum of a start has each link with its own settings', () => {
  const servers = { 'bootstrap.servers': 'a:9092' };
  const given = { 'num.cluster.link.fetchers': '4', 'replica.fetch.max.bytes': '1048576' };
  const record = {
    ...{ kind: 'link' as const, linkId: 'a', sourceClusterId: 'b', createdTimeMs: 0 },
    paused: false,
  };
  const links = [
    { ...record, name: 'dr', configs: servers },
    { ...record, name: 'more', configs: { ...servers, ...given } },
  ];
  const mib = 1024 * 1024;
  assert.deepEqual(linkMemory(links, []), [
    {
      name: 'dr',
      fetchersPerBroker: 1,
      sizes: { bytesMax: 8 * mib, partitionBytesMax: 4 * mib },
    },
    { name: 'more', fetchersPerBroker: 4, sizes: { bytesMax: 8 * mib, partitionBytesMax: mib } },
  ]);
});

test('R14: of several mirrors of one source topic only the connections of one were counted', () => {
  const configs = { 'bootstrap.servers': 'a:9092', 'num.cluster.link.fetchers': '2' };
  const link = { kind: 'link', name: 'dr', linkId: 'a', sourceClusterId: 'b' } as const;
  const mirrors = [
    mirrorRecord({ name: 'a' }),
    mirrorRecord({ name: 'b', sourceTopic: 'a', state: 'PAUSED' }),
    mirrorRecord({ name: 'c', sourceTopic: 'a', state: 'STOPPED' }),
    mirrorRecord({ name: 'd', sourceTopic: 'a', link: 'other' }),
    mirrorRecord({ name: 'e' }),
  ];
  const [found] = linkMemory([{ ...link, configs, paused: false, createdTimeMs: 0 }], mirrors);
  assert.equal(found?.fetchersPerBroker, 4);
});

test('a new directory holds nothing that could be lost', async () => {
  const findings = await inspectDirectory(config, clusterId);
  assert.deepEqual(findings, { mirrorStorageExists: false, snapshotDirectory: directory });
});

test('R20: our own directory with logs or a snapshot makes a missing state a loss', async () => {
  await identity(ours);
  assert.equal((await inspectDirectory(config, clusterId)).mirrorStorageExists, false);
  await mkdir(path.join(directory, 'logs', 'x'), { recursive: true });
  assert.equal((await inspectDirectory(config, clusterId)).mirrorStorageExists, true);
  await rm(path.join(directory, 'logs'), { recursive: true });
  await writeFile(path.join(directory, 'state-snapshot.jsonl'), '');
  assert.equal((await inspectDirectory(config, clusterId)).mirrorStorageExists, true);
});

test('the snapshot of another cluster is not written over', async () => {
  await identity({ ...ours, clusterId: 'cluster-2' });
  await writeFile(path.join(directory, 'state-snapshot.jsonl'), 'theirs');
  const { mirrorStorageExists, snapshotDirectory } = await inspectDirectory(config, clusterId);
  assert.equal(mirrorStorageExists, false);
  assert.equal(snapshotDirectory, path.join(directory, 'state-causeway-cluster-1'));
});

function start(state: State, events: Events, acceptLoss = false) {
  return openStorage({ config, clusterId, state, events, acceptLoss });
}

test('a new directory is recorded in the state, a known one is not recorded again', async () => {
  const first = stateWith(undefined);
  const storage = await start(first, new Events());
  const record: StorageRecord = { kind: 'storage', directoryId: storage.directoryId };
  assert.deepEqual(first.commits, [{ put: record }]);
  await storage.close();
  const second = stateWith(record);
  await (await start(second, new Events())).close();
  assert.deepEqual(second.commits, []);
});

test('a directory whose record was lost in a crash is recorded at the next start', async () => {
  await (await start(stateWith(undefined), new Events())).close();
  const again = stateWith(undefined);
  const storage = await start(again, new Events());
  await storage.close();
  assert.equal(again.commits.length, 1);
});

test('R19: a directory that the state does not name is refused, said, and left alone', async () => {
  const state = stateWith({ kind: 'storage', directoryId: 'another' });
  const events = new Events();
  const storage = await start(state, events);
  assert.equal(storage.refusal?.code, 'MISSING');
  assert.deepEqual(await readdir(directory), []);
  assert.deepEqual(state.commits, []);
  const said = events.since(0).filter((event) => event.event === 'storage_foreign');
  assert.equal(said.length, 1);
  assert.match(said[0]?.message ?? '', /--accept-loss/);
  await storage.close();
});

test('R19: with the loss accepted the directory is adopted and recorded', async () => {
  const state = stateWith({ kind: 'storage', directoryId: 'another' });
  const storage = await start(state, new Events(), true);
  assert.equal(storage.refusal, null);
  assert.deepEqual(state.commits, [{ put: { kind: 'storage', directoryId: storage.directoryId } }]);
  await storage.close();
});

test('a start ends before it takes the lease when the directory or a port is in use', async () => {
  const free = { host: '127.0.0.1', port: 0 };
  const withPorts = (bootstrapPort: number, port: number): CausewayConfig => ({
    ...config,
    gateway: { ...config.gateway, bind: free.host, bootstrapPort },
    admin: { ...config.admin, bind: free.host, port },
  });
  const options = { clusterId, acceptLoss: false, events: new Events() };
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(free, resolve));
  try {
    const address = taken.address();
    assert.ok(address !== null && typeof address === 'object');
    await assertAlone(withPorts(0, 0), options);
    await assert.rejects(
      assertAlone(withPorts(address.port, 0), options),
      /^StartError: port \d+ for the bootstrap listener cannot be bound: .*EADDRINUSE/,
    );
    await assert.rejects(
      assertAlone(withPorts(0, address.port), options),
      /^StartError: the admin API cannot be served: .*EADDRINUSE/,
    );
    const running = await start(stateWith(undefined), new Events());
    const entries = await readdir(directory);
    await assert.rejects(assertAlone(withPorts(0, 0), options), { code: 'LOCKED' });
    assert.deepEqual(await readdir(directory), entries);
    await running.close();
    await assertAlone(withPorts(0, 0), options);
  } finally {
    taken.close();
  }
});

test('a directory that could not be looked at was told to be absent by an uninstall', async () => {
  const file = path.join(directory, 'file');
  await writeFile(file, '');
  assert.equal(await exists(file), true);
  assert.equal(await exists(path.join(directory, 'none')), false);
  await assert.rejects(exists(path.join(file, 'below')), { code: 'ENOTDIR' });
});

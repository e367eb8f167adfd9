// Loaded into a proxy before its own code (`node --import`): kills it with -9 at the named places
// of fault-points.ts that a test has armed.
//
// Owns: where in the product each place is: the commits of topic records, the calls that make or
// grow a shell, the creation and flushing of mirror logs, and the phases. Only for tests; nothing
// of the product imports it. Invariant: unless a point is armed it changes nothing.

import { rmSync, statSync } from 'node:fs';
import path from 'node:path';
import { createPartitionsApi, createTopicsApi } from '../../src/cluster/apis.ts';
import type { Api, Cluster, SendOptions, Target } from '../../src/cluster/cluster.ts';
import { connectCluster } from '../../src/cluster/cluster-client.ts';
import { MirrorTopics } from '../../src/link/mirror/mirror-topics.ts';
import { TopicChanges } from '../../src/link/mirror/topic-changes.ts';
import type { TopicRecord } from '../../src/state/records.ts';
import type { StateChange } from '../../src/state/state.ts';
import { DiskMirrorLog } from '../../storage/disk/partition-log.ts';
import { type FaultPoint, faultDirectoryVariable } from './fault-points.ts';

const directory = process.env[faultDirectoryVariable];

function dieAt(...points: readonly FaultPoint[]): void {
  if (directory === undefined) return;
  for (const point of points) {
    const file = path.join(directory, point);
    if (statSync(file, { throwIfNoEntry: false }) === undefined) continue;
    rmSync(file);
    process.kill(process.pid, 'SIGKILL');
  }
}

type Ends = readonly [before: FaultPoint, after: FaultPoint];

/** Which step of which command the commit of this record is. */
function stepOf(before: TopicRecord | undefined, after: TopicRecord): Ends | null {
  const command = after.stopping?.command;
  if (after.state === 'STOPPED') {
    return after.stoppedBy === 'promote'
      ? ['promote.before-commit', 'promote.committed']
      : ['failover.before-commit', 'failover.committed'];
  }
  if (command === 'failover') return ['failover.before-cuts', 'failover.cuts-committed'];
  if (command === 'promote') return ['promote.before-start', 'promote.start-committed'];
  if (after.state === 'PENDING_MIRROR') return ['create.before-intent', 'create.intent-committed'];
  if (before?.state === 'PENDING_MIRROR')
    return ['create.before-active', 'create.active-committed'];
  if (before !== undefined && before.partitions.length < after.partitions.length) {
    return ['grow.before-commit', 'grow.committed'];
  }
  return null;
}

const { commit } = TopicChanges.prototype;
TopicChanges.prototype.commit = async function (changes: readonly StateChange[]) {
  const steps = changes.flatMap((change) => {
    if (!('put' in change) || change.put.kind !== 'topic') return [];
    return [stepOf(this.record(change.put.name), change.put)];
  });
  for (const step of steps) if (step !== null) dieAt(step[0]);
  await commit.call(this, changes);
  for (const step of steps) if (step !== null) dieAt(step[1]);
};

const { createLog, setPhase } = MirrorTopics.prototype;
MirrorTopics.prototype.createLog = async function (...args: Parameters<typeof createLog>) {
  const log = await createLog.apply(this, args);
  dieAt('create.log-created', 'grow.log-created');
  return log;
};

MirrorTopics.prototype.setPhase = function (...args: Parameters<typeof setPhase>) {
  setPhase.apply(this, args);
  const [, phase] = args;
  if (phase === 'DRAINING') dieAt('promote.draining');
  if (phase === 'FINAL_OFFSETS') dieAt('promote.final-offsets');
  if (phase === 'SWITCHING') dieAt('promote.switching');
  if (phase === 'FAILING_OVER') dieAt('failover.closing');
};

const { flush } = DiskMirrorLog.prototype;
DiskMirrorLog.prototype.flush = async function () {
  await flush.call(this);
  if (this.heldFrom !== null) dieAt('failover.aborts-appended');
};

const shellCalls: ReadonlyMap<number, Ends> = new Map([
  [createTopicsApi.key, ['create.before-shell', 'create.shell-created']],
  [createPartitionsApi.key, ['grow.before-shell', 'grow.shell-grown']],
]);

// The class is not exported; an instance that never connects leads to it.
const unused = connectCluster({ bootstrapServers: ['127.0.0.1:1'] });
const clients: Cluster = Object.getPrototypeOf(unused);
await unused.close();
const { send } = clients;
clients.send = async function <Request, Response>(
  this: Cluster,
  target: Target,
  api: Api<Request, Response>,
  request: Request | ((version: number) => Request),
  options?: SendOptions,
): Promise<Response> {
  const isTried = Object(request).validateOnly === true;
  const ends = isTried ? undefined : shellCalls.get(api.key);
  if (ends) dieAt(ends[0]);
  const response = (await send.call(this, target, api, request, options)) as Response;
  if (ends) dieAt(ends[1]);
  return response;
} as Cluster['send'];

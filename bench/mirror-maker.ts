// MirrorMaker 2 as a baseline: one run that copies one topic, as it comes or tuned, in a JVM of its
// own. Owns that process and its configuration, and the topic that it makes, which goes with it.
// Invariant: what is measured lies between the first and the last record that it wrote; its start
// is not counted, nor are its brokers.
import { spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Cluster } from '../src/cluster/cluster.ts';
import type { KafkaCluster } from '../test/helpers/kafka-cluster.ts';
import { mirrorMakerJars } from '../test/helpers/kafka-jars.ts';
import { deleteTopic } from '../test/helpers/topic-admin.ts';
import { until } from '../test/helpers/wait.ts';
import { cpuSeconds } from './child.ts';
import { endsOf, type TopicPlan } from './loaded-topic.ts';
import type { Figures } from './sinks.ts';

export interface MirrorMakerRun {
  readonly source: KafkaCluster;
  readonly destination: KafkaCluster;
  /** For a look at the destination's ends. */
  readonly looker: Cluster;
  readonly plan: TopicPlan;
  /** Of the whole topic, as stored. */
  readonly bytes: number;
  readonly isTuned: boolean;
  /** Each has names of its own: positions are remembered by them. */
  readonly round: number;
  readonly directory: string;
}

/** The settings that its guides name for throughput; the producer compresses as the source does. */
function tuned(from: string, to: string, plan: TopicPlan): string[] {
  return [
    `tasks.max=${plan.partitions > 1 ? 2 : 1}`,
    `${from}.consumer.receive.buffer.bytes=-1`,
    `${from}.consumer.max.partition.fetch.bytes=4194304`,
    `${from}.consumer.fetch.max.bytes=52428800`,
    `${from}.consumer.max.poll.records=5000`,
    `${to}.producer.batch.size=524288`,
    `${to}.producer.linger.ms=5`,
    `${to}.producer.buffer.memory=67108864`,
    `${to}.producer.max.request.size=4194304`,
    `${to}.producer.send.buffer.bytes=-1`,
    `${to}.producer.enable.idempotence=true`,
    `${to}.producer.max.in.flight.requests.per.connection=5`,
    `${to}.producer.compression.type=${plan.compression}`,
  ];
}

function settings(run: MirrorMakerRun): string {
  const kind = run.isTuned ? 'tuned' : 'default';
  const suffix = `${run.plan.topic}${kind}${run.round}`.replace(/[^a-z0-9]/g, '');
  const [from, to] = [`from${suffix}`, `to${suffix}`];
  const internal = ['config', 'offset', 'status'].map(
    (name) => `${name}.storage.replication.factor=1`,
  );
  return [
    `clusters=${from},${to}`,
    `${from}.bootstrap.servers=${run.source.bootstrap}`,
    `${to}.bootstrap.servers=${run.destination.bootstrap}`,
    `${from}->${to}.enabled=true`,
    `${from}->${to}.topics=${run.plan.topic}`,
    `${to}->${from}.enabled=false`,
    'replication.policy.class=org.apache.kafka.connect.mirror.IdentityReplicationPolicy',
    'replication.factor=1',
    'emit.heartbeats.enabled=false',
    'emit.checkpoints.enabled=false',
    'sync.topic.acls.enabled=false',
    'offset-syncs.topic.replication.factor=1',
    ...internal,
    ...(run.isTuned ? tuned(from, to, run.plan) : []),
    '',
  ].join('\n');
}

export async function mirrorMaker(run: MirrorMakerRun): Promise<Figures> {
  const file = path.join(run.directory, `mm2-${run.isTuned ? 'tuned' : 'default'}.properties`);
  await writeFile(file, settings(run));
  const jars = await mirrorMakerJars();
  const args = ['-Xmx1g', '-cp', path.join(jars, '*')];
  args.push('org.apache.kafka.connect.mirror.MirrorMaker', file);
  const child = spawn('java', args, { stdio: 'ignore' });
  const { pid } = child;
  if (pid === undefined) throw new Error('java could not be started');
  const ended = new Promise((resolve) => child.once('exit', resolve));
  const kill = (): boolean => child.kill('SIGKILL');
  process.once('exit', kill);
  let figures: Figures;
  try {
    const look = async () => {
      if (child.exitCode !== null) throw new Error(`MirrorMaker ended with ${child.exitCode}`);
      return endsOf(run.looker, run.plan.topic);
    };
    const options = { deadlineMs: 600_000, intervalMs: 100 };
    const first = await until('its first record', look, options);
    const begun = { at: performance.now(), cpu: cpuSeconds(pid) };
    const { records } = run.plan;
    await until('its last record', async () => (await look()) >= records, options);
    figures = {
      bytes: (run.bytes * (records - first)) / records,
      seconds: (performance.now() - begun.at) / 1000,
      cpuSeconds: cpuSeconds(pid) - begun.cpu,
    };
  } finally {
    process.off('exit', kill);
    kill();
    await ended;
  }
  // Not where it failed: what went wrong is to be told, not that there is nothing to delete.
  await deleteTopic(run.looker, run.plan.topic);
  return figures;
}

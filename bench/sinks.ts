// The baselines of the mirror path: a plain Node socket that reads as many bytes as there are to
// copy and throws them away, or writes them to a file. Owns the two child processes of one run.
import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { KafkaCluster } from '../test/helpers/kafka-cluster.ts';
import { rootDirectory } from '../test/helpers/repository.ts';
import { Child } from './child.ts';
import type { FetchScript } from './fetch-script.ts';

/** What moving bytes has taken. */
export interface Figures {
  readonly bytes: number;
  readonly seconds: number;
  readonly cpuSeconds: number;
}

export function megabytesPerCpuSecond(figures: Figures): number {
  return figures.bytes / figures.cpuSeconds / 1e6;
}

export function megabytesPerSecond(figures: Figures): number {
  return figures.bytes / figures.seconds / 1e6;
}

const programs = path.join(rootDirectory, 'dist/bench/baseline');

/** One that reads what a fellow Node process sends: the same megabyte again and again. */
export async function plainSink(bytes: number, file: string): Promise<Figures> {
  const source = new Child([path.join(programs, 'byte-source.js'), String(bytes)]);
  const port = await source.line();
  const sink = new Child([path.join(programs, 'socket-sink.js'), port, file]);
  const figures = JSON.parse(await sink.line()) as Figures;
  await source.stop();
  return figures;
}

/** One that reads what a broker answers to the requests of a script. */
export async function brokerSink(
  cluster: KafkaCluster,
  { requests, answersBytes }: FetchScript,
  file: string,
): Promise<Figures> {
  const script = `${file}.requests`;
  writeFileSync(script, requests);
  const port = cluster.bootstrap.split(':').at(-1) ?? '';
  const args = [port, file, script, String(answersBytes)];
  const sink = new Child([path.join(programs, 'socket-sink.js'), ...args]);
  try {
    return JSON.parse(await sink.line()) as Figures;
  } finally {
    await sink.stop();
    rmSync(script);
  }
}

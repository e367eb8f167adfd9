// What tests do with mirrors over the admin API: commands, states, receipts, the exported state.
//
// Owns: the shapes of these answers as far as tests read them. Knows nothing of clusters.
// Invariant: an answer that is not 2xx is a rejection with its text; waiting has a deadline and
// says what it saw.

import type { CausewayProcess } from './causeway-process.ts';
import { type UntilOptions, until } from './wait.ts';

export interface MirrorView {
  readonly name: string;
  readonly topicId: string;
  readonly state: string;
  readonly phase: string | null;
  readonly blocking: readonly { readonly code: string; readonly message: string }[];
  readonly error: { readonly code: string; readonly message: string } | null;
  readonly partitions: readonly {
    readonly partition: number;
    readonly logStart: number;
    readonly mirrorEnd: number;
    readonly sizeBytes: number;
  }[];
}

export interface CommandRow {
  readonly topic: string;
  readonly state: string | null;
  readonly error: { readonly code: string; readonly message: string } | null;
}

export interface Switched {
  readonly partition: number;
  /** S */
  readonly virtualEnd: number;
  /** Where the source's records end: S without ABORT batches of ours. */
  readonly mirroredEnd: number;
  /** n */
  readonly nativeEnd: number;
  readonly firstEpoch: number;
}

export type Verb = 'promote' | 'failover' | 'pause' | 'resume' | 'cancel';

/** POST to the admin API; rejects unless it is answered with 2xx. */
export async function post<Answer>(
  causeway: CausewayProcess,
  resource: string,
  body: unknown,
): Promise<Answer> {
  const answer = await fetch(`${causeway.adminUrl}${resource}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`POST ${resource}: ${answer.status} ${text}`);
  return (text === '' ? undefined : JSON.parse(text)) as Answer;
}

/** Runs a verb on one topic; an error of the topic itself is in the row. */
export async function command(
  causeway: CausewayProcess,
  verb: Verb,
  topic: string,
): Promise<CommandRow> {
  const resource = `/causeway/v1/mirrors:${verb}`;
  const { rows } = await post<{ rows: CommandRow[] }>(causeway, resource, { topics: [topic] });
  const [row] = rows;
  if (row === undefined) throw new Error(`${verb} of ${topic}: no row in the answer`);
  return row;
}

export function mirrorView(causeway: CausewayProcess, topic: string): Promise<MirrorView> {
  return causeway.get(`/causeway/v1/mirrors/${encodeURIComponent(topic)}`);
}

export async function waitForState(
  causeway: CausewayProcess,
  topic: string,
  state: string,
  { deadlineMs = 40_000 }: Pick<UntilOptions, 'deadlineMs'> = {},
): Promise<MirrorView> {
  let last: unknown;
  return until(
    `${topic} ${state}`,
    async () => {
      const view = await mirrorView(causeway, topic);
      last = { state: view.state, phase: view.phase, blocking: view.blocking, error: view.error };
      return view.state === state ? view : undefined;
    },
    { deadlineMs, describe: () => `last seen ${JSON.stringify(last)}` },
  );
}

/** Waits until a mirror is ACTIVE and ends, durably, at these offsets, one for each partition. */
export async function waitForMirrorEnds(
  causeway: CausewayProcess,
  topic: string,
  ends: readonly number[],
): Promise<void> {
  let seen = '';
  await until(
    `the mirror of ${topic} at the source's end`,
    async () => {
      const { state, partitions } = await mirrorView(causeway, topic);
      const reached = partitions.map(({ mirrorEnd }) => Number(mirrorEnd));
      seen = `${state}, ends ${reached.join(', ')}, wanted ${ends.join(', ')}`;
      return state === 'ACTIVE' && reached.join() === ends.join();
    },
    { describe: () => seen },
  );
}

/** Promotes or fails over one topic; resolves with what the receipt says when it is STOPPED. */
export async function stopMirroring(
  causeway: CausewayProcess,
  verb: 'promote' | 'failover',
  topic: string,
): Promise<readonly Switched[]> {
  const { error } = await command(causeway, verb, topic);
  if (error) throw new Error(`${verb} of ${topic}: ${error.code} ${error.message}`);
  await waitForState(causeway, topic, 'STOPPED');
  const [receipt] = await receiptsOf(causeway, topic);
  if (receipt === undefined) throw new Error(`${topic} has no receipt`);
  return receipt;
}

export async function stateExport(causeway: CausewayProcess): Promise<string> {
  const answer = await fetch(`${causeway.adminUrl}/causeway/v1/state`);
  const text = await answer.text();
  if (!answer.ok) throw new Error(`state export: ${answer.status} ${text}`);
  return text;
}

interface StateLine {
  readonly key: string;
  readonly value: Record<string, unknown>;
}

/** The records of the state, lease and ports left out. */
export async function stateRecords(causeway: CausewayProcess): Promise<readonly StateLine[]> {
  const [, ...lines] = (await stateExport(causeway)).trimEnd().split('\n');
  return lines.map((line) => JSON.parse(line) as StateLine);
}

interface StoredReceipt {
  readonly topics: readonly {
    readonly topic: string;
    /** 64-bit numbers are strings in the state. */
    readonly partitions: readonly Record<string, unknown>[];
  }[];
}

/** All receipts in the state that name the topic: a topic that switched once has one. */
export async function receiptsOf(
  causeway: CausewayProcess,
  topic: string,
): Promise<readonly (readonly Switched[])[]> {
  const receipts = (await stateRecords(causeway)).filter(({ key }) => key.startsWith('receipt/'));
  return receipts
    .flatMap(({ value }) => (value as unknown as StoredReceipt).topics)
    .filter((one) => one.topic === topic)
    .map(({ partitions }) =>
      partitions.map((one) => ({
        partition: Number(one.partition),
        virtualEnd: Number(one.virtualEnd),
        mirroredEnd: Number(one.mirroredEnd),
        nativeEnd: Number(one.nativeEnd),
        firstEpoch: Number(one.firstEpoch),
      })),
    );
}

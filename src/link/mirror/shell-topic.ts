// The shell topic of a mirror in the destination: made, grown, deleted. Owns these admin calls and
// their error codes; refuses to know states and links. Invariant: a call whose outcome is unknown
// is reported as such (ClusterError) and never taken for done.
import {
  createCreatePartitionsRequest,
  createCreatePartitionsTopic,
} from '../../../protocol/generated/create-partitions-request.ts';
import {
  createCreatableTopic,
  createCreatableTopicConfig,
  createCreateTopicsRequest,
} from '../../../protocol/generated/create-topics-request.ts';
import type { CreateTopicsResponse } from '../../../protocol/generated/create-topics-response.ts';
import {
  createDeleteTopicState,
  createDeleteTopicsRequest,
} from '../../../protocol/generated/delete-topics-request.ts';
import { ErrorCode, errorName } from '../../../protocol/index.ts';
import { createPartitionsApi, createTopicsApi, deleteTopicsApi } from '../../cluster/apis.ts';
import { type Cluster, ClusterError } from '../../cluster/cluster.ts';
import type { LinkContext } from '../context.ts';
import { LinkError } from '../link-error.ts';
import { missingRight } from './missing-right.ts';

const adminTimeoutMs = 30_000;

export interface NewShell {
  readonly name: string;
  readonly partitionsCount: number;
  /** -1: the destination's default. */
  readonly replicationFactor: number;
  readonly configs: Readonly<Record<string, string>>;
}

/** The id of a shell that was made, or why it was not; a ClusterError: nobody knows whether. */
export type ShellOutcome = string | LinkError | ClusterError;

/** @throws LinkError TOPIC_EXISTS, DESTINATION_REFUSED; ClusterError when the outcome is unknown */
export async function createShell(
  destination: Cluster,
  shell: NewShell & { readonly validateOnly: boolean },
): Promise<string> {
  const outcomes = await createShells(destination, [shell], shell);
  const outcome = outcomes.get(shell.name) ?? existsAlready(shell.name);
  if (typeof outcome !== 'string') throw outcome;
  return outcome;
}

/** Many by one request, with an outcome for each. */
export async function createShells(
  destination: Cluster,
  shells: readonly NewShell[],
  { validateOnly }: { readonly validateOnly: boolean },
): Promise<ReadonlyMap<string, ShellOutcome>> {
  const topics = shells.map((shell) =>
    createCreatableTopic({
      name: shell.name,
      numPartitions: shell.partitionsCount,
      replicationFactor: shell.replicationFactor,
      configs: Object.entries(shell.configs).map(([name, value]) =>
        createCreatableTopicConfig({ name, value }),
      ),
    }),
  );
  try {
    const response = await destination.send(
      { kind: 'controller' },
      createTopicsApi,
      createCreateTopicsRequest({ topics, timeoutMs: adminTimeoutMs, validateOnly }),
      { timeoutMs: adminTimeoutMs + 5_000 },
    );
    const results = new Map(response.topics.map((result) => [result.name, result] as const));
    return new Map(
      shells.map(({ name }) => [name, shellOutcome(name, results.get(name), validateOnly)]),
    );
  } catch (error) {
    if (!(error instanceof ClusterError)) throw error;
    return new Map(shells.map(({ name }) => [name, error]));
  }
}

export function existsAlready(name: string): LinkError {
  return new LinkError('TOPIC_EXISTS', `Topic '${name}' already exists.`);
}

function shellOutcome(
  name: string,
  result: CreateTopicsResponse['topics'][number] | undefined,
  validateOnly: boolean,
): ShellOutcome {
  if (result === undefined || result.errorCode === ErrorCode.TOPIC_ALREADY_EXISTS) {
    return existsAlready(name);
  }
  if (result.errorCode === ErrorCode.REQUEST_TIMED_OUT) {
    // The broker stopped waiting for the controller, which may well have created it, or still does.
    const message = `the destination did not create topic '${name}' in time`;
    return new ClusterError('TIMEOUT', message, { maybeSent: !validateOnly });
  }
  if (result.errorCode === ErrorCode.NONE) return result.topicId;
  return new LinkError(
    'DESTINATION_REFUSED',
    `The destination refuses to create topic '${name}': ` +
      `${errorName(result.errorCode)}${result.errorMessage ? `: ${result.errorMessage}` : ''}` +
      missingRight(result.errorCode, name, 'Create'),
  );
}

/** Makes the shell have `count` partitions. @throws LinkError DESTINATION_REFUSED, ClusterError */
export async function growShell(destination: Cluster, name: string, count: number): Promise<void> {
  const response = await destination.send(
    { kind: 'controller' },
    createPartitionsApi,
    createCreatePartitionsRequest({
      topics: [createCreatePartitionsTopic({ name, count, assignments: null })],
      timeoutMs: adminTimeoutMs,
      validateOnly: false,
    }),
    { timeoutMs: adminTimeoutMs + 5_000 },
  );
  const result = response.results[0];
  const errorCode = result?.errorCode ?? ErrorCode.UNKNOWN_SERVER_ERROR;
  if (errorCode === ErrorCode.NONE) return;
  // A repeated call after a lost answer: done already.
  const info = (await destination.metadata([name])).topics.get(name);
  if (info !== undefined && info.partitions.length >= count) return;
  throw new LinkError(
    'DESTINATION_REFUSED',
    `The destination refuses to grow topic '${name}' to ${count} partitions: ` +
      `${errorName(errorCode)}${result?.errorMessage ? `: ${result.errorMessage}` : ''}` +
      missingRight(errorCode, name, 'Alter'),
  );
}

/**
 * By name, only if it still has this id. A topic that is not there is fine.
 * @throws LinkError DESTINATION_REFUSED, ClusterError; StateError when the lease is lost meanwhile
 */
export async function deleteShell(
  { destination, state }: Pick<LinkContext, 'destination' | 'state'>,
  shell: { readonly name: string; readonly topicId: string },
): Promise<void> {
  const info = (await destination.metadata([shell.name])).topics.get(shell.name);
  if (info === undefined || info.errorCode === ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) return;
  if (info.errorCode !== ErrorCode.NONE && info.topicId !== shell.topicId) {
    // Whose topic it is cannot be told, so nobody may take it for gone.
    throw new LinkError(
      'DESTINATION_REFUSED',
      `Topic '${shell.name}' cannot be deleted: the destination answers ` +
        errorName(info.errorCode),
    );
  }
  if (info.topicId !== shell.topicId) return;
  state.lease.check();
  const response = await destination.send(
    { kind: 'controller' },
    deleteTopicsApi,
    (version) =>
      createDeleteTopicsRequest({
        topics:
          version >= 6 ? [createDeleteTopicState({ name: null, topicId: shell.topicId })] : [],
        topicNames: version >= 6 ? [] : [shell.name],
        timeoutMs: adminTimeoutMs,
      }),
    { timeoutMs: adminTimeoutMs + 5_000 },
  );
  const result = response.responses[0];
  const errorCode = result?.errorCode ?? ErrorCode.UNKNOWN_SERVER_ERROR;
  const gone: readonly number[] = [
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
  ];
  if (gone.includes(errorCode)) return;
  throw new LinkError(
    'DESTINATION_REFUSED',
    `The destination refuses to delete topic '${shell.name}': ${errorName(errorCode)}`,
  );
}

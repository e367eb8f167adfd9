// Which broker coordinates a group or a transactional id, remembered until it turns out wrong.
// Refuses to send anything but FindCoordinator. Invariant: a remembered coordinator is one that a
// broker named.
import {
  createFindCoordinatorRequest,
  type FindCoordinatorRequest,
} from '../../protocol/generated/find-coordinator-request.ts';
import type { FindCoordinatorResponse } from '../../protocol/generated/find-coordinator-response.ts';
import { ErrorCode, isRetriable } from '../../protocol/index.ts';
import { brokerReason } from './broker-reason.ts';
import { type BrokerInfo, ClusterError } from './cluster.ts';

export type CoordinatorKind = 'group' | 'transaction';

const keyTypes: Readonly<Record<CoordinatorKind, number>> = { group: 0, transaction: 1 };
/** From this version on several keys are asked for at once. */
const batchedFrom = 4;
const rememberedMax = 10_000;

export type FindCoordinator = (
  request: (version: number) => FindCoordinatorRequest,
) => Promise<FindCoordinatorResponse>;

interface Answer {
  readonly errorCode: number;
  readonly errorMessage: string | null;
  readonly nodeId: number;
  readonly host: string;
  readonly port: number;
}

export class Coordinators {
  readonly #known = new Map<string, BrokerInfo>();

  /** Null when none is available just now. @throws ClusterError */
  async lookUp(
    kind: CoordinatorKind,
    key: string,
    find: FindCoordinator,
  ): Promise<BrokerInfo | null> {
    const known = this.#known.get(`${kind}/${key}`);
    if (known) return known;
    const response = await find((version) =>
      createFindCoordinatorRequest(
        version >= batchedFrom
          ? { keyType: keyTypes[kind], coordinatorKeys: [key] }
          : { keyType: keyTypes[kind], key },
      ),
    );
    const answer: Answer = response.coordinators[0] ?? response;
    if (answer.errorCode !== ErrorCode.NONE) {
      if (isRetriable(answer.errorCode)) return null;
      const reason = brokerReason(answer.errorCode, answer.errorMessage);
      const message = `no coordinator for ${kind} "${key}": ${reason}`;
      throw new ClusterError('AUTHENTICATION', message, { maybeSent: false });
    }
    const { nodeId, host, port } = answer;
    if (this.#known.size >= rememberedMax) this.#known.clear();
    const broker = { nodeId, host, port, rack: null };
    this.#known.set(`${kind}/${key}`, broker);
    return broker;
  }

  forget(kind: CoordinatorKind, key: string): void {
    this.#known.delete(`${kind}/${key}`);
  }
}

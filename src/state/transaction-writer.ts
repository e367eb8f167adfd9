// Writes the state topic in transactions of one transactional id: fence, write, commit, and the
// ways in which each may fail. Owns producer id, epoch and sequence. Refuses to know what records
// mean, and to fence back: only `fence()`, called once at start, takes over from another writer.
// A fence is not always one: the coordinator aborts what is open for too long and raises the epoch
// by one. A successor that finds a transaction open has it aborted in the same way, and only then
// gets an epoch, one higher again. So if ours was open for certain, nobody has the epoch after it,
// and a raise that names that epoch works only as long as nobody has taken over.
// Invariant: a transaction whose commit was asked for and whose answer was lost stays the only
// thing that this writer deals with until its outcome is known (`resolve`), so that nothing is ever
// written around a doubt.
import {
  createAddPartitionsToTxnRequest,
  createAddPartitionsToTxnTopic,
} from '../../protocol/generated/add-partitions-to-txn-request.ts';
import { createEndTxnRequest } from '../../protocol/generated/end-txn-request.ts';
import { createInitProducerIdRequest } from '../../protocol/generated/init-producer-id-request.ts';
import { ErrorCode, errorName } from '../../protocol/index.ts';
import { addPartitionsToTxnApi, endTxnApi, initProducerIdApi } from '../cluster/apis.ts';
import { type Cluster, ClusterError } from '../cluster/cluster.ts';
import { pauseMs } from '../cluster/pause.ts';
import { FencedError, isFencedCode } from './fenced.ts';
import { type KeyValue, lane, PartitionWriter } from './partition-writer.ts';
import { StateError } from './state.ts';

export interface TransactionWriterOptions {
  readonly cluster: Cluster;
  readonly topic: string;
  readonly transactionalId: string;
  readonly now: () => number;
  readonly wallMs: () => number;
  readonly signal: AbortSignal;
  /** Called when the answer to a commit was lost, before anything else is tried. */
  readonly onDoubt: () => void;
  /**
   * After a fence in a doubt: reads the topic to its end and tells whether the commit is not there.
   * Without it a fence in a doubt is final.
   */
  readonly wasAborted?: () => Promise<boolean>;
  /** The coordinator had aborted a transaction of ours, and nobody had taken over. */
  readonly onTakenBack?: () => void;
}

/** The broker aborts a transaction that is open for longer; the id's next owner does so at once. */
const transactionTimeoutMs = 60_000;
/** The next one comes with another producer id. */
const epochMax = 32_766;
const pauseAfterErrorMs = 100;
/** The transaction before is being completed: a matter of a round trip between brokers. */
const pauseWhileBusyMs = 15;

/** The coordinator did not and will not carry out an EndTxn that it answers so. */
const refusedCodes: ReadonlySet<number> = new Set([
  ErrorCode.INVALID_TXN_STATE,
  ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
  ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
  ErrorCode.TRANSACTION_ABORTABLE,
]);

const passingCodes: ReadonlySet<number> = new Set([
  ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
  ErrorCode.COORDINATOR_NOT_AVAILABLE,
  ErrorCode.NOT_COORDINATOR,
  ErrorCode.CONCURRENT_TRANSACTIONS,
  ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
  ErrorCode.REQUEST_TIMED_OUT,
  ErrorCode.NETWORK_EXCEPTION,
]);

export class TransactionWriter {
  readonly #options: TransactionWriterOptions;
  readonly #partition: PartitionWriter;
  #producerId = -1n;
  #producerEpoch = -1;
  /**
   * Something may be open, or written and not counted: abort and raise the epoch before the next.
   */
  #isDirty = false;
  #isInDoubt = false;
  /** Begun for certain in this epoch, and nothing that may have ended it is without an answer. */
  #isOpen = false;

  constructor(options: TransactionWriterOptions) {
    this.#options = options;
    this.#partition = new PartitionWriter(options);
  }

  get isInDoubt(): boolean {
    return this.#isInDoubt;
  }

  /** Takes the transactional id over: no one before us can commit any more. @throws StateError */
  async fence(timeoutMs: number): Promise<void> {
    await this.#initProducer(-1n, -1, this.#options.now() + timeoutMs);
  }

  /**
   * All or nothing. Returns the offset after the last record.
   * @throws StateError UNAVAILABLE: nothing was and nothing will be committed; IN_DOUBT
   * @throws FencedError
   */
  async commit(records: readonly KeyValue[], timeoutMs: number): Promise<bigint> {
    const deadlineMs = this.#options.now() + timeoutMs;
    if (this.#isInDoubt) throw new StateError('IN_DOUBT', 'an earlier commit is still in doubt');
    if (this.#isDirty) await this.#recover(deadlineMs);
    const batches = this.#partition.plan(records);
    this.#isDirty = true;
    try {
      await this.#addPartition(deadlineMs);
      this.#isOpen = true;
      const producer = {
        producerId: this.#producerId,
        producerEpoch: this.#producerEpoch,
        transactionalId: this.#options.transactionalId,
      };
      const next = await this.#partition.write(batches, producer, deadlineMs);
      await this.#end(deadlineMs);
      return next;
    } catch (error) {
      await this.#takeBack(error, deadlineMs);
      throw this.#unavailable(new Error('the destination aborted the transaction'));
    }
  }

  /** After IN_DOUBT: asks until the outcome is known. Returns true when it was committed. */
  async resolve(timeoutMs: number): Promise<boolean> {
    const deadlineMs = this.#options.now() + timeoutMs;
    try {
      await this.#end(deadlineMs);
      return true;
    } catch (error) {
      if (error instanceof FencedError) await this.#takeBack(error, deadlineMs);
      else if (this.#isInDoubt) throw error;
      else await this.#recover(deadlineMs);
      return false;
    }
  }

  async #initProducer(id: bigint, epoch: number, deadlineMs: number): Promise<void> {
    const { transactionalId } = this.#options;
    const request = createInitProducerIdRequest({
      transactionalId,
      transactionTimeoutMs,
      producerId: id,
      producerEpoch: epoch,
    });
    const answer = await this.#ask('InitProducerId', deadlineMs, async (timeoutMs) => {
      const { cluster } = this.#options;
      const target = { kind: 'transaction', transactionalId } as const;
      const response = await cluster.send(target, initProducerIdApi, request, { timeoutMs, lane });
      return { code: response.errorCode, response };
    });
    this.#producerId = answer.producerId;
    this.#producerEpoch = answer.producerEpoch;
    this.#partition.restartSequence();
    this.#isDirty = false;
    this.#isOpen = false;
  }

  /** The epoch is raised only if it is still ours: a successor is found out, never fenced. */
  async #recover(deadlineMs: number): Promise<void> {
    try {
      await this.#ask('EndTxn (abort)', deadlineMs, (timeoutMs) => this.#abort(timeoutMs));
    } catch (error) {
      return await this.#takeBack(error, deadlineMs);
    }
    this.#isOpen = false;
    await this.#initProducer(this.#producerId, this.#producerEpoch, deadlineMs);
  }

  async #abort(timeoutMs: number): Promise<{ code: number; response: null }> {
    try {
      const code = await this.#sendEnd({ isCommit: false, epoch: this.#producerEpoch }, timeoutMs);
      return { code: code === ErrorCode.INVALID_TXN_STATE ? ErrorCode.NONE : code, response: null };
    } catch (error) {
      if (!(error instanceof ClusterError) || error.maybeSent) this.#isOpen = false;
      throw error;
    }
  }

  /**
   * After a fence, if it was the coordinator's own (see above): takes up the epoch that it left
   * behind. @throws the error itself when it is anything else, and whenever that is not certain
   */
  async #takeBack(error: unknown, deadlineMs: number): Promise<void> {
    if (!(error instanceof FencedError) || !this.#isOpen) throw error;
    if (this.#producerEpoch >= epochMax) throw error;
    if (error.wasInDoubt && !(await this.#wasAborted())) throw error;
    const epoch = this.#producerEpoch + 1;
    await this.#ask('EndTxn (abort)', deadlineMs, async (timeoutMs) => {
      const code = await this.#sendEnd({ isCommit: false, epoch }, timeoutMs);
      // Nothing was aborted in it: somebody's new epoch.
      if (code === ErrorCode.INVALID_TXN_STATE) throw error;
      return { code, response: null };
    });
    await this.#initProducer(this.#producerId, epoch, deadlineMs);
    this.#options.onTakenBack?.();
  }

  async #wasAborted(): Promise<boolean> {
    try {
      const wasAborted = (await this.#options.wasAborted?.()) ?? false;
      if (!wasAborted) this.#isOpen = false;
      return wasAborted;
    } catch (error) {
      this.#isInDoubt = true;
      const message = "the commit's outcome is not known yet: the state cannot be read";
      throw new StateError('IN_DOUBT', message, { cause: error });
    }
  }

  async #addPartition(deadlineMs: number): Promise<void> {
    const { cluster, topic, transactionalId } = this.#options;
    const request = createAddPartitionsToTxnRequest({
      v3AndBelowTransactionalId: transactionalId,
      v3AndBelowProducerId: this.#producerId,
      v3AndBelowProducerEpoch: this.#producerEpoch,
      v3AndBelowTopics: [createAddPartitionsToTxnTopic({ name: topic, partitions: [0] })],
    });
    await this.#ask('AddPartitionsToTxn', deadlineMs, async (timeoutMs) => {
      const target = { kind: 'transaction', transactionalId } as const;
      const response = await cluster.send(target, addPartitionsToTxnApi, request, {
        timeoutMs,
        lane,
      });
      const result = response.resultsByTopicV3AndBelow[0]?.resultsByPartition[0];
      const code = result?.partitionErrorCode ?? ErrorCode.UNKNOWN_SERVER_ERROR;
      return { code, response: null };
    });
  }

  async #sendEnd(
    { isCommit, epoch }: { isCommit: boolean; epoch: number },
    timeoutMs: number,
  ): Promise<number> {
    const { cluster, transactionalId } = this.#options;
    const request = createEndTxnRequest({
      transactionalId,
      producerId: this.#producerId,
      producerEpoch: epoch,
      committed: isCommit,
    });
    const target = { kind: 'transaction', transactionalId } as const;
    const response = await cluster.send(target, endTxnApi, request, { timeoutMs, lane });
    return response.errorCode;
  }

  /** Commits what is open. From the first lost answer on we are in doubt until a definite one. */
  async #end(deadlineMs: number): Promise<void> {
    for (;;) {
      const leftMs = deadlineMs - this.#options.now();
      let code: number | undefined;
      let reason: string;
      try {
        const end = { isCommit: true, epoch: this.#producerEpoch };
        code = await this.#sendEnd(end, Math.max(1, Math.min(leftMs, 2_000)));
        reason = errorName(code);
      } catch (error) {
        if (!(error instanceof ClusterError)) throw error;
        if (!error.maybeSent && !this.#isInDoubt && leftMs <= 0) throw this.#unavailable(error);
        if (error.maybeSent) this.#enterDoubt();
        reason = error.message;
      }
      if (code === ErrorCode.NONE) return this.#leaveDoubt({ isDirty: false });
      if (code !== undefined && isFencedCode(code)) throw this.#fenced(code);
      if (code !== undefined && refusedCodes.has(code)) {
        this.#leaveDoubt({ isDirty: true });
        throw this.#unavailable(new Error(`EndTxn: ${reason}`));
      }
      if (code !== undefined) this.#enterDoubt();
      if (this.#options.now() >= deadlineMs || this.#options.signal.aborted) {
        if (!this.#isInDoubt) throw this.#unavailable(new Error(reason));
        throw new StateError('IN_DOUBT', `the commit's outcome is not known yet: ${reason}`);
      }
      const isBusy = code === ErrorCode.CONCURRENT_TRANSACTIONS;
      await pauseMs(isBusy ? pauseWhileBusyMs : pauseAfterErrorMs, this.#options.signal);
    }
  }

  #enterDoubt(): void {
    if (this.#isInDoubt) return;
    this.#isInDoubt = true;
    this.#options.onDoubt();
  }

  #leaveDoubt(state: { isDirty: boolean }): void {
    this.#isInDoubt = false;
    this.#isDirty = state.isDirty;
    this.#isOpen = false;
  }

  #fenced(code: number): FencedError {
    const wasInDoubt = this.#isInDoubt;
    this.#isInDoubt = false;
    return new FencedError(code, wasInDoubt);
  }

  /** Repeats a request that may be carried out twice without harm, until the deadline. */
  async #ask<Response>(
    what: string,
    deadlineMs: number,
    attempt: (timeoutMs: number) => Promise<{ code: number; response: Response }>,
  ): Promise<Response> {
    for (;;) {
      const leftMs = Math.max(1, deadlineMs - this.#options.now());
      let reason: string;
      let isBusy = false;
      try {
        const { code, response } = await attempt(Math.min(leftMs, 5_000));
        if (code === ErrorCode.NONE) return response;
        if (isFencedCode(code)) throw new FencedError(code, false);
        reason = `${what}: ${errorName(code)}`;
        if (!passingCodes.has(code)) throw this.#unavailable(new Error(reason));
        isBusy = code === ErrorCode.CONCURRENT_TRANSACTIONS;
      } catch (error) {
        if (!(error instanceof ClusterError)) throw error;
        if (error.code === 'CLOSED' || error.code === 'UNSUPPORTED') throw this.#unavailable(error);
        reason = `${what}: ${error.message}`;
      }
      if (this.#options.now() >= deadlineMs || this.#options.signal.aborted) {
        throw this.#unavailable(new Error(reason));
      }
      await pauseMs(isBusy ? pauseWhileBusyMs : pauseAfterErrorMs, this.#options.signal);
    }
  }

  #unavailable(cause: Error): StateError {
    const message = `the state cannot be written, nothing was committed: ${cause.message}`;
    return new StateError('UNAVAILABLE', message, { cause });
  }
}

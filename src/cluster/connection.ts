// One connection to one broker: ApiVersions first, then who we are, then pipelined requests
// answered in order. Owns the queue of expected answers and their deadlines, and when we
// authenticate again. Refuses to know nodes, retries and what answers say.
// Invariant: every request ends exactly once, with its answer or a ClusterError; an answer that is
// not the expected one (correlation id) ends the connection, because nothing after it can be
// trusted.
import {
  decodeResponseHeader,
  encodeRequestFrame,
  ProtocolError,
  Reader,
} from '../../protocol/index.ts';
import { type Address, formatAddress } from './address.ts';
import { apiVersionsApi, metadataApi } from './apis.ts';
import { authenticate } from './authentication.ts';
import { type Api, ClusterError, type VersionRange } from './cluster.ts';
import { type FrameIntake, type FrameReceiver, WholeFrame } from './frame-intake.ts';
import type { ClusterLimits } from './limits.ts';
import { metadataRequest } from './metadata.ts';
import { pauseMs } from './pause.ts';
import { ResponseAssembler } from './response-assembler.ts';
import type { Login } from './security.ts';
import { throttleTimeOf } from './throttle-time.ts';
import type { Ticker } from './ticker.ts';
import { connectionError, type Transport, type TransportStream } from './transport.ts';

export interface ConnectionOptions {
  readonly address: Address;
  readonly transport: Transport;
  /** Who we are, asked anew each time; null for a listener without SASL. */
  readonly login?: () => Promise<Login | null>;
  readonly clientId: string;
  readonly limits: ClusterLimits;
  readonly ticker: Ticker;
  /** Called once when the connection is of no more use. */
  readonly onClosed: () => void;
}

interface Pending {
  readonly name: string;
  readonly key: number;
  readonly version: number;
  readonly correlationId: number;
  deadlineMs: number;
  readonly timeoutMs: number;
  /** Who takes the answer in; undefined: it gets a buffer of its own. */
  readonly into: FrameReceiver | undefined;
  isAbandoned: boolean;
  settle(reader: Reader): void;
  reject(error: ClusterError): void;
}

const unsupportedVersion = 35;

/** How a TLS listener answers what is no TLS. As the size of an answer it would be 352 MB. */
const tlsAlert = 0x15;
const tlsMajorVersion = 3;

export class BrokerConnection {
  readonly address: Address;
  versions: ReadonlyMap<number, VersionRange> = new Map();
  readonly #options: ConnectionOptions;
  readonly #pending: Pending[] = [];
  readonly #assembler: ResponseAssembler;
  readonly #opened: Promise<void>;
  readonly #ticker: Ticker;
  #stream: TransportStream;
  /** Whose answer is coming in. */
  #coming: Pending | undefined;
  #nextCorrelationId = 1;
  #closedBy: ClusterError | undefined;
  #stopTicks: (() => void) | undefined;
  #authenticateAgainAtMs = Number.POSITIVE_INFINITY;
  /** While we authenticate again no other request may go out. */
  #authenticating: Promise<void> | undefined;
  #answersCount = 0;
  /** Until then the broker reads nothing of this connection (KIP-219). */
  #throttledUntilMs = Number.NEGATIVE_INFINITY;
  /** While a quota has us wait; requests go out afterwards, in their order. */
  #throttled: Promise<void> | undefined;
  readonly #closing = new AbortController();
  /** What the broker says that its cluster is, once it was asked. */
  #clusterId: Promise<string | null> | undefined;

  constructor(options: ConnectionOptions) {
    this.address = options.address;
    this.#options = options;
    this.#ticker = options.ticker;
    this.#assembler = new ResponseAssembler({
      frameBytesMax: options.limits.frameBytesMax,
      begin: (sizeInBytes, correlationId) => this.#beginAnswer(sizeInBytes, correlationId),
      onFrame: (frame) => this.#onFrame(frame),
    });
    let opened: () => void;
    let failed: (error: ClusterError) => void;
    this.#opened = new Promise((resolve, reject) => {
      opened = resolve;
      failed = reject;
    });
    this.#stream = options.transport.open(options.address, {
      onOpen: () => opened(),
      onData: (chunk) => this.#take(() => this.#onData(chunk)),
      readTarget: () => this.#take(() => this.#assembler.target),
      onReadToTarget: (bytesCount) => this.#take(() => this.#assembler.filled(bytesCount)),
      onClose: (error) => {
        this.#close(this.#endedBy(error));
        failed(this.#notSent());
      },
    });
  }

  get isClosed(): boolean {
    return this.#closedBy !== undefined;
  }

  /** How long a quota of the broker holds what is sent now. */
  get throttledMs(): number {
    return Math.max(0, this.#throttledUntilMs - this.#ticker.now());
  }

  get inFlightCount(): number {
    return this.#pending.length;
  }

  /** Connects and learns the broker's versions. @throws ClusterError with maybeSent false */
  async open(): Promise<void> {
    const { limits } = this.#options;
    const ticker = this.#ticker;
    const deadlineMs = ticker.now() + limits.connectTimeoutMs;
    const stopWatching = ticker.add((now) => {
      if (now < deadlineMs) return;
      const where = formatAddress(this.address);
      const message = `${where}: no answer within ${limits.connectTimeoutMs} ms`;
      this.#close(new ClusterError('TIMEOUT', message, { maybeSent: false }));
    });
    try {
      await this.#opened;
      await this.#learnVersions(Math.max(1, deadlineMs - ticker.now()));
      await this.#authenticate(() => Math.max(1, deadlineMs - ticker.now()));
    } catch (error) {
      this.#close(this.#asClusterError(error));
      throw this.#notSent();
    } finally {
      stopWatching();
    }
  }

  /**
   * Asks the broker once which cluster it belongs to.
   * @throws ClusterError PROTOCOL when it is another one; the connection is closed then
   */
  async assertCluster(clusterId: string): Promise<void> {
    const { connectTimeoutMs: timeoutMs } = this.#options.limits;
    this.#clusterId ??= this.send(metadataApi, this.pickVersion(metadataApi), metadataRequest([]), {
      timeoutMs,
    }).then((answer) => answer.clusterId);
    const found = await this.#clusterId;
    if (found === clusterId) return;
    const message = `a broker of cluster '${found ?? 'unknown'}', not of '${clusterId}'`;
    const error = new ClusterError('PROTOCOL', `${formatAddress(this.address)}: ${message}`, {
      maybeSent: false,
    });
    this.#close(error);
    throw error;
  }

  /** @throws ClusterError UNSUPPORTED */
  pickVersion(api: Api<never, unknown>, versionMax = Number.POSITIVE_INFINITY): number {
    const range = this.versions.get(api.key);
    const version = range && Math.min(range.max, api.versionMax, versionMax);
    if (!range || version === undefined || version < Math.max(range.min, api.versionMin)) {
      const theirs = range ? `${range.min} to ${range.max}` : 'none';
      const message =
        `${formatAddress(this.address)}: no common version of ${api.name}: ` +
        `broker has ${theirs}, needed ${api.versionMin} to ${Math.min(api.versionMax, versionMax)}`;
      throw new ClusterError('UNSUPPORTED', message, { maybeSent: false });
    }
    return version;
  }

  send<Request, Response>(
    api: Api<Request, Response>,
    version: number,
    request: Request,
    options: { readonly timeoutMs: number; readonly into?: FrameReceiver | undefined },
  ): Promise<Response> {
    if (this.#ticker.now() >= this.#authenticateAgainAtMs) this.#authenticateAgain();
    const { timeoutMs, into } = options;
    const gate = this.#authenticating ?? this.#untilUnthrottled();
    if (gate === undefined) return this.#sendNow(api, version, request, timeoutMs, into);
    return gate.then(() => this.#sendNow(api, version, request, timeoutMs, into));
  }

  #sendNow<Request, Response>(
    api: Api<Request, Response>,
    version: number,
    request: Request,
    timeoutMs: number,
    into?: FrameReceiver,
  ): Promise<Response> {
    if (this.#closedBy) return Promise.reject(this.#notSent());
    if (this.#pending.length >= this.#options.limits.inFlightMax) {
      const message = `${formatAddress(this.address)}: too many requests in flight`;
      return Promise.reject(new ClusterError('UNREACHABLE', message, { maybeSent: false }));
    }
    const correlationId = this.#nextCorrelationId;
    this.#nextCorrelationId = (this.#nextCorrelationId + 1) & 0x7fffffff;
    const frame = this.#encode(api, version, correlationId, request);
    const answer = new Promise<Response>((resolve, reject) => {
      this.#pending.push({
        name: api.name,
        key: api.key,
        version,
        correlationId,
        deadlineMs: this.#ticker.now() + this.throttledMs + timeoutMs,
        timeoutMs,
        into,
        isAbandoned: false,
        settle: (reader) => {
          const decoded = api.decode(reader, version);
          this.#noteThrottle(throttleTimeOf(decoded));
          resolve(decoded);
        },
        reject,
      });
    });
    this.#stopTicks ??= this.#ticker.add((now) => this.#onTick(now));
    this.#stream.write(frame);
    return answer;
  }

  /** What is sent or under way is answered so much later, and is not late before that. */
  #noteThrottle(throttleTimeMs: number): void {
    const waitMs = Math.min(throttleTimeMs, this.#options.limits.throttleMsMax);
    if (waitMs <= 0) return;
    this.#throttledUntilMs = Math.max(this.#throttledUntilMs, this.#ticker.now() + waitMs);
    for (const request of this.#pending) request.deadlineMs += waitMs;
  }

  #untilUnthrottled(): Promise<void> | undefined {
    if (this.throttledMs === 0) return this.#throttled;
    this.#throttled ??= this.#waitThrottled().finally(() => {
      this.#throttled = undefined;
    });
    return this.#throttled;
  }

  async #waitThrottled(): Promise<void> {
    const { signal } = this.#closing;
    while (this.throttledMs > 0 && !signal.aborted) await pauseMs(this.throttledMs, signal);
  }

  close(reason = 'closed by us'): void {
    const message = `${formatAddress(this.address)}: ${reason}`;
    this.#close(new ClusterError('CLOSED', message, { maybeSent: true }));
  }

  async #authenticate(timeoutMs: () => number): Promise<void> {
    const login = await this.#options.login?.();
    if (!login) return;
    const startedAtMs = this.#ticker.now();
    try {
      const againAfterMs = await authenticate(
        (api, request) => this.#sendNow(api, this.pickVersion(api), request, timeoutMs()),
        login,
      );
      this.#authenticateAgainAtMs = startedAtMs + againAfterMs;
    } catch (error) {
      if (!(error instanceof ClusterError) || error.code !== 'AUTHENTICATION') throw error;
      if (this.#closedBy !== undefined) throw error;
      throw connectionError(this.address, error, { maybeSent: true });
    }
  }

  /** Requests that come meanwhile wait; those under way are answered first. */
  #authenticateAgain(): void {
    if (this.#authenticating || this.#closedBy) return;
    // Not as short as at the start: the answers to earlier requests come first.
    const { requestTimeoutMs } = this.#options.limits;
    this.#authenticating = this.#authenticate(() => requestTimeoutMs)
      .catch((error) => this.#close(this.#asClusterError(error)))
      .finally(() => {
        this.#authenticating = undefined;
      });
  }

  #encode<Request>(
    api: Api<Request, unknown>,
    version: number,
    correlationId: number,
    request: Request,
  ): Buffer[] {
    const { clientId } = this.#options;
    const header = { apiKey: api.key, apiVersion: version, correlationId, clientId };
    try {
      return encodeRequestFrame(header, (writer) => api.encode(writer, request, version));
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      const message = `${formatAddress(this.address)}: ${error.message}`;
      throw new ClusterError('UNSUPPORTED', message, { cause: error, maybeSent: false });
    }
  }

  async #learnVersions(timeoutMs: number): Promise<void> {
    const request = {
      clientSoftwareName: 'causeway',
      clientSoftwareVersion: '0',
      clusterId: null,
      nodeId: -1,
    };
    const { versionMax } = apiVersionsApi;
    let answer = await this.#sendNow(apiVersionsApi, versionMax, request, timeoutMs);
    if (answer.errorCode === unsupportedVersion) {
      const theirs = answer.apiKeys.find((range) => range.apiKey === apiVersionsApi.key);
      const version = Math.min(theirs?.maxVersion ?? 0, apiVersionsApi.versionMax);
      answer = await this.#sendNow(apiVersionsApi, version, request, timeoutMs);
    }
    if (answer.errorCode !== 0) {
      const where = formatAddress(this.address);
      const message = `${where}: ApiVersions ended with error ${answer.errorCode}`;
      throw new ClusterError('PROTOCOL', message, { maybeSent: false });
    }
    this.versions = new Map(
      answer.apiKeys.map(({ apiKey, minVersion, maxVersion }) => [
        apiKey,
        { min: minVersion, max: maxVersion },
      ]),
    );
  }

  #take<T>(bytes: () => T): T | undefined {
    try {
      return bytes();
    } catch (error) {
      this.#close(this.#asClusterError(error));
      return undefined;
    }
  }

  #onData(chunk: Buffer): void {
    if (this.#answersCount === 0 && chunk[0] === tlsAlert && chunk[1] === tlsMajorVersion) {
      throw new ProtocolError('INVALID_FRAME', 'it answers in TLS: its listener is SSL');
    }
    this.#assembler.push(chunk);
  }

  /** The next answer is taken in as its request wants it, unless nobody waits for it any more. */
  #beginAnswer(sizeInBytes: number, correlationId: number): FrameIntake {
    const expected = this.#pending[0];
    if (expected?.correlationId !== correlationId) {
      const wanted = expected ? `expected ${expected.correlationId}` : 'none is expected';
      throw new ProtocolError('INVALID_FRAME', `answer ${correlationId}, but ${wanted}`);
    }
    this.#coming = expected;
    const { into, version, isAbandoned } = expected;
    if (into === undefined || isAbandoned) return new WholeFrame(Buffer.allocUnsafe(sizeInBytes));
    return into.begin({ sizeInBytes, version });
  }

  #onFrame(frame: Buffer): void {
    if (this.#closedBy) return;
    this.#answersCount++;
    const expected = this.#coming;
    if (expected === undefined) throw new ProtocolError('INVALID_FRAME', 'no answer had begun');
    this.#coming = undefined;
    const reader = new Reader(frame);
    decodeResponseHeader(reader, expected.key, expected.version);
    if (!expected.isAbandoned) expected.settle(reader);
    this.#pending.shift();
    if (this.#pending.length === 0) this.#restTicks();
  }

  #onTick(now: number): void {
    const isHeadLate = (this.#pending[0]?.deadlineMs ?? now) < now;
    for (const request of this.#pending) {
      if (request.isAbandoned || request.deadlineMs >= now) continue;
      request.isAbandoned = true;
      const message =
        `${formatAddress(this.address)}: no answer to ${request.name} ` +
        `within ${Math.round(request.timeoutMs)} ms`;
      request.reject(new ClusterError('TIMEOUT', message, { maybeSent: true }));
    }
    if (!isHeadLate) return;
    const message = `${formatAddress(this.address)}: given up after an answer that did not come`;
    this.#close(new ClusterError('UNREACHABLE', message, { maybeSent: true }));
  }

  #restTicks(): void {
    this.#stopTicks?.();
    this.#stopTicks = undefined;
  }

  /** With a guess at what a broker means that hangs up without a word. */
  #endedBy(error: Error | undefined): ClusterError {
    const ended = connectionError(this.address, error, { maybeSent: true });
    if (error !== undefined || this.#answersCount > 1) return ended;
    const hint =
      this.#answersCount === 0
        ? 'before its first answer: its listener may want TLS, or none'
        : 'after ApiVersions: its listener may want SASL';
    return new ClusterError(ended.code, `${ended.message} ${hint}`, { maybeSent: true });
  }

  #asClusterError(error: unknown): ClusterError {
    if (error instanceof ClusterError) return error;
    const reason = error instanceof Error ? error.message : String(error);
    const message = `${formatAddress(this.address)}: ${reason}`;
    return new ClusterError('PROTOCOL', message, { cause: error, maybeSent: true });
  }

  /** The reason of the end, for a request that never left. */
  #notSent(): ClusterError {
    const reason = this.#closedBy;
    const code = reason?.code ?? 'UNREACHABLE';
    const message = reason?.message ?? `${formatAddress(this.address)}: closed`;
    return new ClusterError(code, message, { cause: reason?.cause, maybeSent: false });
  }

  #close(reason: ClusterError): void {
    if (this.#closedBy) return;
    this.#closedBy = reason;
    this.#closing.abort();
    this.#restTicks();
    this.#stream.destroy();
    for (const request of this.#pending.splice(0)) {
      if (!request.isAbandoned) request.reject(reason);
    }
    this.#options.onClosed();
  }
}

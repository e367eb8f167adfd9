// Relays before brokers, and the part of Toxiproxy's HTTP API that sarama's suite uses on them:
// a relay can be switched off and on, made slow, or told to reset its connections.
// Knows nothing of Kafka. Invariant: `reset` leaves every relay as it was at the start.

import { createServer as createHttpServer, type IncomingMessage, type Server } from 'node:http';
import { connect, createServer, type Socket, type Server as TcpServer } from 'node:net';

export interface RelayPlace {
  readonly host: string;
  readonly port: number;
}

export interface RelayPlan {
  /** As the suite calls it; nobody asks for a relay without a name. */
  readonly name: string | null;
  readonly listen: RelayPlace;
  readonly to: RelayPlace;
}

interface Toxic {
  readonly type: string;
  readonly attributes: Readonly<Record<string, number>>;
}

class Relay {
  readonly plan: RelayPlan;
  readonly #sockets = new Set<Socket>();
  readonly #server: TcpServer;
  #isEnabled = true;
  #latencyMs = 0;
  #resetsPeers = false;

  constructor(plan: RelayPlan) {
    this.plan = plan;
    this.#server = createServer({ noDelay: true }, (client) => this.#accept(client));
  }

  get isEnabled(): boolean {
    return this.#isEnabled;
  }

  listen(): Promise<void> {
    const { host, port } = this.plan.listen;
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(port, host, resolve);
    });
  }

  setEnabled(isEnabled: boolean): void {
    this.#isEnabled = isEnabled;
    if (!isEnabled) this.#endAll((socket) => socket.destroy());
  }

  add(toxic: Toxic): void {
    if (toxic.type === 'latency') {
      this.#latencyMs = toxic.attributes.latency ?? 0;
      return;
    }
    if (toxic.type !== 'reset_peer') throw new Error(`no toxic of type ${toxic.type} here`);
    this.#resetsPeers = true;
    this.#endAll((socket) => socket.resetAndDestroy());
  }

  reset(): void {
    this.#latencyMs = 0;
    this.#resetsPeers = false;
    this.setEnabled(true);
  }

  async close(): Promise<void> {
    this.#endAll((socket) => socket.destroy());
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #endAll(end: (socket: Socket) => void): void {
    for (const socket of this.#sockets) end(socket);
  }

  #accept(client: Socket): void {
    client.once('error', () => client.destroy());
    if (!this.#isEnabled || this.#resetsPeers) {
      client.resetAndDestroy();
      return;
    }
    const target = connect({ ...this.plan.to, noDelay: true });
    for (const [from, to] of [
      [client, target],
      [target, client],
    ] as const) {
      this.#sockets.add(from);
      from.on('data', (chunk: Buffer) => this.#forward(chunk, to));
      from.once('error', () => to.destroy());
      from.once('end', () => this.#later(() => to.end()));
      from.once('close', () => {
        this.#sockets.delete(from);
        this.#later(() => to.destroy());
      });
    }
  }

  #forward(chunk: Buffer, to: Socket): void {
    this.#later(() => {
      if (!to.destroyed) to.write(chunk);
    });
  }

  #later(work: () => void): void {
    if (this.#latencyMs === 0) work();
    else setTimeout(work, this.#latencyMs);
  }
}

async function bodyOf(request: IncomingMessage): Promise<Record<string, unknown>> {
  let text = '';
  for await (const chunk of request.setEncoding('utf8')) text += String(chunk);
  return text === '' ? {} : (JSON.parse(text) as Record<string, unknown>);
}

export class ToxicRelays {
  readonly #relays: readonly Relay[];
  readonly #http: Server;
  #url = '';

  private constructor(plans: readonly RelayPlan[]) {
    this.#relays = plans.map((plan) => new Relay(plan));
    this.#http = createHttpServer((request, response) => {
      this.#answer(request).then(
        ({ status, body }) => {
          response.writeHead(status, { 'content-type': 'application/json' });
          response.end(body === undefined ? '' : JSON.stringify(body));
        },
        (error: unknown) => {
          response.writeHead(400);
          response.end(error instanceof Error ? error.message : String(error));
        },
      );
    });
  }

  static async start(plans: readonly RelayPlan[]): Promise<ToxicRelays> {
    const relays = new ToxicRelays(plans);
    for (const relay of relays.#relays) await relay.listen();
    await new Promise<void>((resolve) => relays.#http.listen(0, '127.0.0.1', resolve));
    const address = relays.#http.address();
    relays.#url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
    return relays;
  }

  /** Of the HTTP API. */
  get url(): string {
    return this.#url;
  }

  async close(): Promise<void> {
    await new Promise((resolve) => this.#http.close(resolve));
    for (const relay of this.#relays) await relay.close();
  }

  async #answer(request: IncomingMessage): Promise<{ status: number; body?: unknown }> {
    const [, head, name, tail] = (request.url ?? '').split('/');
    if (request.method === 'POST' && head === 'reset') {
      for (const relay of this.#relays) relay.reset();
      return { status: 204 };
    }
    const relay = this.#relays.find(({ plan }) => plan.name === name);
    if (head !== 'proxies' || relay === undefined) return { status: 404, body: { error: name } };
    if (request.method === 'POST') {
      const body = await bodyOf(request);
      if (tail === 'toxics') relay.add(body as unknown as Toxic);
      else relay.setEnabled(body.enabled !== false);
    }
    const { listen, to } = relay.plan;
    return {
      status: 200,
      body: {
        name,
        listen: `${listen.host}:${listen.port}`,
        upstream: `${to.host}:${to.port}`,
        enabled: relay.isEnabled,
      },
    };
  }
}

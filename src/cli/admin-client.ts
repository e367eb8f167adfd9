// Talks to the admin API of a running proxy: the only way in which commands act (besides `serve`
// and `state import`). Every failure becomes one sentence.
import os from 'node:os';
import { CliError, ExitCode, RefusedError } from './io.ts';

export const defaultUrl = 'http://127.0.0.1:8082';

function refusal(body: string, status: number): RefusedError {
  const fields = { code: `HTTP_${status}`, message: `the admin API answered HTTP ${status}` };
  try {
    const parsed: unknown = JSON.parse(body);
    for (const name of ['code', 'message'] as const) {
      const value: unknown =
        typeof parsed === 'object' && parsed !== null ? Reflect.get(parsed, name) : undefined;
      if (typeof value === 'string' && value !== '') fields[name] = value;
    }
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  return new RefusedError(fields.code, fields.message);
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause;
  if (cause instanceof Error) {
    const code = 'code' in cause ? String(cause.code) : '';
    return code === '' ? cause.message : code;
  }
  return error.message;
}

function userName(): string {
  try {
    return os.userInfo().username;
  } catch {
    // A container's user id may have no entry in the password file.
    return String(process.getuid?.() ?? 'unknown');
  }
}

/** A header holds no other characters. */
function actor(): string {
  return `${userName()}@${os.hostname()}`.replaceAll(/[^\x21-\x7e]/g, '?');
}

export type Query = Readonly<Record<string, string | number | boolean | undefined>>;

export class AdminClient {
  readonly #base: string;
  #clusterPath: string | undefined;

  constructor(url: string) {
    const withScheme = /^[a-z]+:\/\//.test(url) ? url : `http://${url}`;
    if (!URL.canParse(withScheme) || !/^https?:/.test(withScheme)) {
      throw new CliError(ExitCode.usage, `"${url}" is not a URL of the admin API`);
    }
    const { username, password, search, hash } = new URL(withScheme);
    if (username + password + search + hash !== '') {
      const message = 'the URL of the admin API has a host, a port and a path, and nothing else';
      throw new CliError(ExitCode.usage, message);
    }
    this.#base = withScheme.replace(/\/+$/, '');
  }

  async #fetch(
    method: string,
    path: string,
    options: { query?: Query; body?: unknown; signal?: AbortSignal },
  ): Promise<string> {
    const url = new URL(this.#base + path);
    for (const [name, value] of Object.entries(options.query ?? {})) {
      if (value !== undefined) url.searchParams.set(name, String(value));
    }
    const headers: Record<string, string> = { 'x-causeway-actor': actor() };
    if (options.body !== undefined) headers['content-type'] = 'application/json';
    let response: Response;
    let text: string;
    try {
      response = await fetch(url, {
        method,
        headers,
        ...(options.body === undefined ? {} : { body: JSON.stringify(options.body) }),
        ...(options.signal === undefined ? {} : { signal: options.signal }),
      });
      text = await response.text();
    } catch (error) {
      if (options.signal?.aborted === true) throw error;
      throw this.#unreachable(error);
    }
    if (!response.ok) throw refusal(text, response.status);
    return text;
  }

  /** GET of our own API under /causeway/v1. */
  async get<T extends object>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
    const options = signal === undefined ? { query } : { query, signal };
    return this.#parsed<T>(await this.#fetch('GET', `/causeway/v1${path}`, options));
  }

  getText(path: string): Promise<string> {
    return this.#fetch('GET', `/causeway/v1${path}`, {});
  }

  /** The bytes of an answer as they come. @throws CliError */
  async stream(path: string): Promise<AsyncIterable<Uint8Array>> {
    let response: Response;
    try {
      response = await fetch(new URL(`${this.#base}/causeway/v1${path}`));
    } catch (error) {
      throw this.#unreachable(error);
    }
    if (response.ok && response.body !== null) return response.body;
    throw refusal(await response.text(), response.status);
  }

  /** Something else may listen at that address, and be content with any path. */
  #parsed<T extends object>(text: string): T {
    try {
      const parsed: unknown = JSON.parse(text);
      if (typeof parsed === 'object' && parsed !== null) return parsed as T;
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
    }
    const message = `what answers at ${this.#base} is not the admin API of Causeway`;
    throw new CliError(ExitCode.failed, message);
  }

  #unreachable(error: unknown): CliError {
    const hint = 'is the proxy running, and is --url or CAUSEWAY_URL right?';
    return new CliError(
      ExitCode.failed,
      `cannot reach the admin API at ${this.#base} (${reasonOf(error)}); ${hint}`,
    );
  }

  async post<T extends object>(path: string, body: unknown, query: Query = {}): Promise<T> {
    return this.#parsed<T>(await this.#fetch('POST', `/causeway/v1${path}`, { query, body }));
  }

  /** For what is answered without a body. */
  async order(path: string, body: unknown): Promise<void> {
    await this.#fetch('POST', `/causeway/v1${path}`, { body });
  }

  async delete(path: string, query: Query = {}): Promise<void> {
    await this.#fetch('DELETE', `/causeway/v1${path}`, { query });
  }

  /** A request of REST v3 below the path of the cluster. */
  async rest(
    method: 'POST' | 'PUT' | 'DELETE',
    path: string,
    options: { query?: Query; body?: unknown },
  ): Promise<void> {
    this.#clusterPath ??= await this.#findCluster();
    await this.#fetch(method, this.#clusterPath + path, options);
  }

  async #findCluster(): Promise<string> {
    const text = await this.#fetch('GET', '/kafka/v3/clusters', {});
    const { data } = this.#parsed<{ data?: { cluster_id: string }[] }>(text);
    const [cluster] = data ?? [];
    if (cluster === undefined) throw new CliError(ExitCode.failed, 'the proxy names no cluster');
    return `/kafka/v3/clusters/${encodeURIComponent(cluster.cluster_id)}`;
  }
}

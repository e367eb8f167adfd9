// The TLS identity of our listeners: certificate, key, and whose clients' certificates are taken.
// Owns reading the PEM files, at the start and again when they change, and the refusal of files
// that do not fit together. Refuses to know sockets.
// Invariant: what is in use has been checked; files that cannot be used leave the old ones in use
// and are told once.
import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createSecureContext, type SecureContextOptions } from 'node:tls';
import type { TlsListenerConfig } from '../config/config.ts';
import { certificateBlocks, hasPrivateKey, normalPem } from '../config/pem.ts';
import type { Events } from '../observe/events.ts';
import { GatewayError } from './gateway-error.ts';

export interface ListenerTlsOptions {
  readonly config: TlsListenerConfig;
  readonly events: Events;
  readonly checkIntervalMs?: number;
}

interface Loaded {
  readonly material: SecureContextOptions;
  /** Of the certificate of ours that ends first. */
  readonly expiresTimeMs: number;
}

const checkIntervalMsDefault = 5_000;

export class ListenerTls {
  readonly clientAuth: TlsListenerConfig['clientAuth'];
  readonly #options: ListenerTlsOptions;
  readonly #listeners = new Set<() => void>();
  readonly #timer: NodeJS.Timeout;
  #loaded: Loaded;
  #isChecking = false;
  #toldFault = '';

  private constructor(options: ListenerTlsOptions, loaded: Loaded) {
    this.#options = options;
    this.#loaded = loaded;
    this.clientAuth = options.config.clientAuth;
    const intervalMs = options.checkIntervalMs ?? checkIntervalMsDefault;
    this.#timer = setInterval(() => void this.check(), intervalMs).unref();
  }

  /** @throws GatewayError TLS_FILES */
  static async load(options: ListenerTlsOptions): Promise<ListenerTls> {
    return new ListenerTls(options, await loadAtStart(options.config));
  }

  get material(): SecureContextOptions {
    return this.#loaded.material;
  }

  get expiresTimeMs(): number {
    return this.#loaded.expiresTimeMs;
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Looks at the files now. */
  async check(): Promise<void> {
    if (this.#isChecking) return;
    this.#isChecking = true;
    const { config, events } = this.#options;
    try {
      const loaded = await load(config);
      this.#toldFault = '';
      const isSame = JSON.stringify(loaded.material) === JSON.stringify(this.#loaded.material);
      if (isSame) return;
      this.#loaded = loaded;
      for (const listener of this.#listeners) listener();
      const expires = new Date(loaded.expiresTimeMs).toISOString();
      events.info('tls_reloaded', `The listeners' certificate was replaced: valid to ${expires}.`, {
        certificate: config.certificate,
        expires,
      });
    } catch (error) {
      const reason = reasonOf(error);
      if (reason === this.#toldFault) return;
      this.#toldFault = reason;
      const message = `New TLS files are not used, the old ones are kept: ${reason}`;
      events.error('tls_reload_failed', message, { certificate: config.certificate });
    } finally {
      this.#isChecking = false;
    }
  }

  close(): void {
    clearInterval(this.#timer);
    this.#listeners.clear();
  }
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** What a start would refuse. @throws GatewayError TLS_FILES */
export async function checkTlsFiles(config: TlsListenerConfig): Promise<void> {
  await loadAtStart(config);
}

async function loadAtStart(config: TlsListenerConfig): Promise<Loaded> {
  try {
    return await load(config);
  } catch (cause) {
    throw new GatewayError('TLS_FILES', `gateway.tls: ${reasonOf(cause)}`, { cause });
  }
}

async function readPem(file: string): Promise<string> {
  try {
    return normalPem(await readFile(file, 'utf8'));
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : reasonOf(error);
    throw new Error(`${file} cannot be read (${code})`);
  }
}

async function readCertificates(file: string): Promise<string[]> {
  const certificates = certificateBlocks(await readPem(file));
  if (certificates.length === 0) throw new Error(`${file} holds no PEM certificate`);
  return certificates;
}

async function load(config: TlsListenerConfig): Promise<Loaded> {
  const chain = await readCertificates(config.certificate);
  const key = await readPem(config.key);
  if (!hasPrivateKey(key)) throw new Error(`${config.key} holds no PEM private key`);
  const clientCa = config.clientCa === undefined ? null : await readCertificates(config.clientCa);
  const material = {
    cert: chain.join('\n'),
    key,
    ...(clientCa === null ? {} : { ca: clientCa }),
  };
  let ends: number[];
  try {
    createSecureContext(material);
    ends = chain.map((pem) => Date.parse(new X509Certificate(pem).validTo));
  } catch (error) {
    // OpenSSL's words, which quote nothing: "key values mismatch" is the usual one.
    const words = `${config.certificate} and ${config.key} cannot be used`;
    throw new Error(`${words}: ${reasonOf(error)}`);
  }
  return { material, expiresTimeMs: Math.min(...ends) };
}

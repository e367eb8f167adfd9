// The security of one cluster's connections, made from its settings: what TLS needs and who we are.
// Owns reading PEM files and resolving references, anew for each connection, so that replaced files
// are taken up without a restart. Refuses to know sockets and the SASL exchange.
// Invariants: a broker's certificate is always verified, its name too unless that is switched off;
// a client's connection is never made with our own certificate; no fault repeats a secret.
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import {
  type ConnectionOptions,
  checkServerIdentity,
  createSecureContext,
  type SecureContext,
  type SecureContextOptions,
} from 'node:tls';
import type { KafkaClientSettings } from '../config/config.ts';
import { JaasError } from '../config/jaas.ts';
import { certificateBlocks, hasPrivateKey, normalPem } from '../config/pem.ts';
import {
  isReference,
  ReferenceFault,
  type ReferenceSources,
  resolveReferences,
} from '../config/references.ts';
import {
  loginOptions,
  oauthSetting,
  oauthSettings,
  type SaslMechanism,
  saslMechanism,
  securityFaults,
  usesTls,
  verifiesHostNames,
} from '../config/security-settings.ts';
import type { Address } from './address.ts';
import { BearerTokens, TokenFault } from './bearer-tokens.ts';
import { ClusterError } from './cluster.ts';

export interface PasswordLogin {
  readonly mechanism: Exclude<SaslMechanism, 'OAUTHBEARER'>;
  readonly username: string;
  readonly password: string;
  /** Of a delegation token: its id and its HMAC. */
  readonly isToken?: boolean;
}

export interface BearerLogin {
  readonly mechanism: 'OAUTHBEARER';
  readonly token: string;
}

export type Login = PasswordLogin | BearerLogin;

export interface SecurityOptions {
  /** Where references lead; without it values are taken as they are. */
  readonly references?: ReferenceSources | undefined;
}

/** For our own work, or for a connection on which a client will say itself who it is. */
export type ConnectionUse = 'own' | 'client';

function refused(setting: string, reason: string): ClusterError {
  return new ClusterError('AUTHENTICATION', `${setting}: ${reason}`, { maybeSent: false });
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return 'code' in error ? String(error.code) : error.message;
}

export class ClusterSecurity {
  readonly usesTls: boolean;
  readonly mechanism: SaslMechanism | null;
  readonly #settings: KafkaClientSettings;
  readonly #references: ReferenceSources | undefined;
  /** By what it was made of: files change seldom, and reading certificates takes long. */
  readonly #contexts = new Map<ConnectionUse, { made: string; context: SecureContext }>();
  readonly #tokens = new BearerTokens();

  /** @throws ClusterError UNSUPPORTED, naming each setting that cannot be used */
  constructor(settings: KafkaClientSettings, options: SecurityOptions = {}) {
    const faults = securityFaults(settings);
    if (faults.length > 0) {
      const message = faults.map(({ setting, reason }) => `${setting}: ${reason}`).join('; ');
      throw new ClusterError('UNSUPPORTED', message, { maybeSent: false });
    }
    this.#settings = settings;
    this.#references = options.references;
    this.usesTls = usesTls(settings);
    this.mechanism = saslMechanism(settings);
  }

  /** Who we are now: username and password, or a token. @throws ClusterError AUTHENTICATION */
  async login(): Promise<Login | null> {
    const { mechanism } = this;
    if (mechanism === null) return null;
    if (mechanism === 'OAUTHBEARER') return { mechanism, token: await this.#bearerToken() };
    const setting = 'sasl.jaas.config';
    const written = this.#settings[setting] ?? '';
    const isWhole = this.#references !== undefined && isReference(written);
    const jaas = isWhole ? await this.#resolve(setting, written) : written;
    try {
      const { username, password } = loginOptions(jaas, mechanism);
      if (isWhole) return { mechanism, username, password };
      return {
        mechanism,
        username: await this.#resolve(setting, username),
        password: await this.#resolve(setting, password),
      };
    } catch (error) {
      if (!(error instanceof JaasError)) throw error;
      throw refused(setting, `cannot be used: ${error.message}`);
    }
  }

  async #bearerToken(): Promise<string> {
    const settings = oauthSettings(this.#settings);
    try {
      return await this.#tokens.token({
        endpoint: await this.#resolve(oauthSetting.endpoint, settings.endpoint),
        clientId: await this.#resolve(oauthSetting.clientId, settings.clientId),
        clientSecret: await this.#resolve(oauthSetting.clientSecret, settings.clientSecret),
        scope: settings.scope,
        ca: (await this.#trust()).ca,
      });
    } catch (error) {
      if (!(error instanceof TokenFault)) throw error;
      throw refused(oauthSetting.endpoint, error.message);
    }
  }

  /** What `tls.connect` needs for this address. @throws ClusterError AUTHENTICATION */
  async tlsOptions(address: Address, use: ConnectionUse): Promise<ConnectionOptions> {
    const name = address.advertisedHost ?? address.host;
    const verifiesNames = verifiesHostNames(this.#settings);
    return {
      host: address.host,
      port: address.port,
      ...(isIP(name) === 0 ? { servername: name } : {}),
      secureContext: await this.#context(use),
      rejectUnauthorized: true,
      checkServerIdentity: (_, certificate) =>
        verifiesNames ? checkServerIdentity(name, certificate) : undefined,
    };
  }

  async #context(use: ConnectionUse): Promise<SecureContext> {
    const material = { ...(await this.#trust()), ...(use === 'own' ? await this.#identity() : {}) };
    const made = JSON.stringify(material);
    const known = this.#contexts.get(use);
    if (known?.made === made) return known.context;
    let context: SecureContext;
    try {
      context = createSecureContext(material);
    } catch (error) {
      throw refused('ssl.*', `the certificates or the key cannot be used (${reasonOf(error)})`);
    }
    this.#contexts.set(use, { made, context });
    return context;
  }

  /** Without a truststore the certificate authorities that Node.js comes with are trusted. */
  async #trust(): Promise<{ ca?: string[] }> {
    const found = await this.#pem('ssl.truststore.certificates', 'ssl.truststore.location');
    if (found === undefined) return {};
    const ca = certificateBlocks(found.text);
    if (ca.length === 0) throw refused(found.setting, 'holds no PEM certificate');
    return { ca };
  }

  async #identity(): Promise<SecureContextOptions> {
    const chain = await this.#pem('ssl.keystore.certificate.chain', 'ssl.keystore.location');
    if (chain === undefined) return {};
    const key = await this.#pem('ssl.keystore.key', 'ssl.keystore.location');
    const certificates = certificateBlocks(chain.text);
    if (certificates.length === 0) throw refused(chain.setting, 'holds no PEM certificate');
    if (key === undefined || !hasPrivateKey(key.text)) {
      throw refused(key?.setting ?? 'ssl.keystore.key', 'holds no PEM private key');
    }
    const passphrase = await this.#value('ssl.key.password');
    return {
      cert: certificates.join('\n'),
      key: key.text,
      ...(passphrase === '' ? {} : { passphrase }),
    };
  }

  async #pem(
    inlineSetting: string,
    fileSetting: string,
  ): Promise<{ setting: string; text: string } | undefined> {
    const inline = await this.#value(inlineSetting);
    if (inline !== '') return { setting: inlineSetting, text: normalPem(inline) };
    const file = await this.#value(fileSetting);
    if (file === '') return undefined;
    try {
      return { setting: fileSetting, text: normalPem(await readFile(file, 'utf8')) };
    } catch (error) {
      throw refused(fileSetting, `${file} cannot be read (${reasonOf(error)})`);
    }
  }

  #value(setting: string): Promise<string> {
    return this.#resolve(setting, this.#settings[setting] ?? '');
  }

  async #resolve(setting: string, written: string): Promise<string> {
    if (this.#references === undefined) return written;
    try {
      return await resolveReferences(written, this.#references);
    } catch (error) {
      if (!(error instanceof ReferenceFault)) throw error;
      throw refused(setting, error.message);
    }
  }
}

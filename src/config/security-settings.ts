// How our own Kafka clients are secured: which `security.protocol`, `ssl.*` and `sasl.*` settings
// there are, which combinations mean something, and what they mean. Pure: files and secrets are
// read where a connection is made (cluster/security.ts).
// Invariants: a setting that this version would ignore is refused by name; no fault repeats a value
// that could be secret.
import type { KafkaClientSettings } from './config.ts';
import { JaasError, parseJaas } from './jaas.ts';
import { isReference } from './references.ts';

export const securityProtocols = ['PLAINTEXT', 'SSL', 'SASL_PLAINTEXT', 'SASL_SSL'] as const;

export const saslMechanisms = ['PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512', 'OAUTHBEARER'] as const;
export type SaslMechanism = (typeof saslMechanisms)[number];

/** Of OAUTHBEARER: where its tokens come from. */
export const oauthSetting = {
  endpoint: 'sasl.oauthbearer.token.endpoint.url',
  clientId: 'sasl.oauthbearer.client.credentials.client.id',
  clientSecret: 'sasl.oauthbearer.client.credentials.client.secret',
  scope: 'sasl.oauthbearer.scope',
} as const;

/** Name -> default. Stores are PEM unless another type is named, which is then refused. */
export const securitySettingDefaults: Readonly<Record<string, string>> = {
  'security.protocol': 'PLAINTEXT',
  'sasl.mechanism': '',
  'sasl.jaas.config': '',
  [oauthSetting.endpoint]: '',
  [oauthSetting.clientId]: '',
  [oauthSetting.clientSecret]: '',
  [oauthSetting.scope]: '',
  'ssl.truststore.type': 'PEM',
  'ssl.truststore.location': '',
  'ssl.truststore.certificates': '',
  'ssl.keystore.type': 'PEM',
  'ssl.keystore.location': '',
  'ssl.keystore.certificate.chain': '',
  'ssl.keystore.key': '',
  'ssl.key.password': '',
  'ssl.endpoint.identification.algorithm': 'https',
};

export interface SettingFault {
  readonly setting: string;
  /** Completes the sentence `setting ...`. */
  readonly reason: string;
}

export function isSecuritySetting(name: string): boolean {
  return name === 'security.protocol' || /^(ssl|sasl)\./.test(name);
}

const effective = (settings: KafkaClientSettings, name: string): string =>
  settings[name] ?? securitySettingDefaults[name] ?? '';

export function usesTls(settings: KafkaClientSettings): boolean {
  return /^(SASL_)?SSL$/.test(effective(settings, 'security.protocol'));
}

export function saslMechanism(settings: KafkaClientSettings): SaslMechanism | null {
  if (!effective(settings, 'security.protocol').startsWith('SASL_')) return null;
  const wanted = effective(settings, 'sasl.mechanism');
  return saslMechanisms.find((mechanism) => mechanism === wanted) ?? null;
}

/** False only for an empty `ssl.endpoint.identification.algorithm`. */
export function verifiesHostNames(settings: KafkaClientSettings): boolean {
  return effective(settings, 'ssl.endpoint.identification.algorithm') !== '';
}

const loginModules: Readonly<Record<SaslMechanism, string>> = {
  PLAIN: 'PlainLoginModule',
  'SCRAM-SHA-256': 'ScramLoginModule',
  'SCRAM-SHA-512': 'ScramLoginModule',
  OAUTHBEARER: 'OAuthBearerLoginModule',
};

export interface OauthSettings {
  readonly endpoint: string;
  readonly clientId: string;
  readonly clientSecret: string;
  readonly scope: string;
}

/** As written; `sasl.jaas.config` may name what newer settings do not. @throws JaasError */
export function oauthSettings(settings: KafkaClientSettings): OauthSettings {
  const jaas = effective(settings, 'sasl.jaas.config');
  if (isReference(jaas)) throw new JaasError('with OAUTHBEARER the line itself is no reference');
  const { module, options } = parseJaas(jaas);
  if (module.split('.').at(-1) !== loginModules.OAUTHBEARER) {
    throw new JaasError(`the login module of OAUTHBEARER is ${loginModules.OAUTHBEARER}`);
  }
  for (const name of options.keys()) {
    if (!['clientId', 'clientSecret', 'scope'].includes(name)) {
      throw new JaasError('options other than clientId, clientSecret and scope are not supported');
    }
  }
  const either = (setting: string, option: string): string =>
    effective(settings, setting) || (options.get(option) ?? '');
  return {
    endpoint: effective(settings, oauthSetting.endpoint),
    clientId: either(oauthSetting.clientId, 'clientId'),
    clientSecret: either(oauthSetting.clientSecret, 'clientSecret'),
    scope: either(oauthSetting.scope, 'scope'),
  };
}

export interface LoginOptions {
  readonly username: string;
  readonly password: string;
}

/** Username and password as written; they may be references. @throws JaasError */
export function loginOptions(
  jaas: string,
  mechanism: Exclude<SaslMechanism, 'OAUTHBEARER'>,
): LoginOptions {
  const { module, options } = parseJaas(jaas);
  const wanted = loginModules[mechanism];
  if (module.split('.').at(-1) !== wanted) {
    throw new JaasError(`the login module of ${mechanism} is ${wanted}`);
  }
  for (const name of options.keys()) {
    if (name !== 'username' && name !== 'password') {
      throw new JaasError('options other than username and password are not in this version');
    }
  }
  const username = options.get('username') ?? '';
  const password = options.get('password') ?? '';
  if (username === '' || password === '') throw new JaasError('it needs username and password');
  return { username, password };
}

function protocolFaults(protocol: string): SettingFault[] {
  if ((securityProtocols as readonly string[]).includes(protocol)) return [];
  const reason = `must be one of ${securityProtocols.join(', ')}`;
  return [{ setting: 'security.protocol', reason }];
}

function mechanismFaults(mechanism: string): SettingFault[] {
  if ((saslMechanisms as readonly string[]).includes(mechanism)) return [];
  const what = mechanism === '' ? "is missing (Kafka's default GSSAPI is not in this version)" : '';
  const refused =
    mechanism === 'GSSAPI' ? 'GSSAPI is not in this version' : 'is no mechanism that we know';
  const reason = `${what || refused}; there are ${saslMechanisms.join(', ')}`;
  return [{ setting: 'sasl.mechanism', reason }];
}

function oauthFaults(settings: KafkaClientSettings): SettingFault[] {
  let written: OauthSettings;
  try {
    written = oauthSettings(settings);
  } catch (error) {
    if (!(error instanceof JaasError)) throw error;
    return [{ setting: 'sasl.jaas.config', reason: `cannot be used: ${error.message}` }];
  }
  const { endpoint, clientId, clientSecret, scope } = written;
  const setting = oauthSetting.endpoint;
  if (endpoint === '') return [{ setting, reason: 'is missing' }];
  if (isReference(endpoint)) return [];
  if (!/^(?:https?:\/\/[^/@\s]+(?:\/\S*)?|file:\/\/\/\S+)$/.test(endpoint)) {
    return [{ setting, reason: 'must be http://HOST/..., https://HOST/... or file:///PATH' }];
  }
  if (!endpoint.startsWith('file:')) {
    if (clientId !== '' && clientSecret !== '') return [];
    const reason = 'needs the client id and secret, as settings or in sasl.jaas.config';
    return [{ setting, reason }];
  }
  if (clientId + clientSecret + scope === '') return [];
  return [{ setting, reason: 'is a file: client id, secret and scope have no effect' }];
}

function saslFaults(settings: KafkaClientSettings): SettingFault[] {
  const faults = mechanismFaults(effective(settings, 'sasl.mechanism'));
  const mechanism = saslMechanism(settings);
  const jaas = effective(settings, 'sasl.jaas.config');
  if (jaas === '') return [...faults, { setting: 'sasl.jaas.config', reason: 'is missing' }];
  if (mechanism === 'OAUTHBEARER') return [...faults, ...oauthFaults(settings)];
  faults.push(...uselessFaults(settings, 'sasl.oauthbearer.', `sasl.mechanism=${mechanism}`));
  if (isReference(jaas) || mechanism === null) return faults;
  try {
    loginOptions(jaas, mechanism);
  } catch (error) {
    if (!(error instanceof JaasError)) throw error;
    const reason = `cannot be used: ${error.message}`;
    return [...faults, { setting: 'sasl.jaas.config', reason }];
  }
  return faults;
}

function storeFaults(settings: KafkaClientSettings): SettingFault[] {
  const isSet = (name: string): boolean => effective(settings, name) !== '';
  const faults: SettingFault[] = [];
  for (const setting of ['ssl.truststore.type', 'ssl.keystore.type']) {
    if (effective(settings, setting) === 'PEM') continue;
    faults.push({ setting, reason: 'can only be PEM in this version' });
  }
  const both = (setting: string, other: string): void => {
    if (!isSet(setting) || !isSet(other)) return;
    faults.push({ setting, reason: `cannot be given together with ${other}` });
  };
  both('ssl.truststore.certificates', 'ssl.truststore.location');
  both('ssl.keystore.certificate.chain', 'ssl.keystore.location');
  both('ssl.keystore.key', 'ssl.keystore.location');
  const needs = (setting: string, other: string): void => {
    if (isSet(setting) && !isSet(other)) faults.push({ setting, reason: `needs ${other}` });
  };
  needs('ssl.keystore.key', 'ssl.keystore.certificate.chain');
  needs('ssl.keystore.certificate.chain', 'ssl.keystore.key');
  if (isSet('ssl.key.password') && !isSet('ssl.keystore.key') && !isSet('ssl.keystore.location')) {
    faults.push({ setting: 'ssl.key.password', reason: 'has no key to open' });
  }
  const algorithm = effective(settings, 'ssl.endpoint.identification.algorithm');
  if (!['', 'https'].includes(algorithm.toLowerCase())) {
    const reason = 'must be https, or empty to switch the check of host names off';
    faults.push({ setting: 'ssl.endpoint.identification.algorithm', reason });
  }
  return faults;
}

function uselessFaults(
  settings: KafkaClientSettings,
  prefix: string,
  because = `security.protocol=${effective(settings, 'security.protocol')}`,
): SettingFault[] {
  return Object.entries(settings)
    .filter(([name, value]) => name.startsWith(prefix) && value !== '')
    .filter(([name, value]) => value !== securitySettingDefaults[name])
    .map(([setting]) => ({ setting, reason: `has no effect with ${because}` }));
}

/** Everything that is wrong with the security settings among `settings`. */
export function securityFaults(settings: KafkaClientSettings): SettingFault[] {
  const protocol = effective(settings, 'security.protocol');
  const faults = protocolFaults(protocol);
  if (faults.length > 0) return faults;
  for (const setting of Object.keys(settings)) {
    if (!isSecuritySetting(setting) || Object.hasOwn(securitySettingDefaults, setting)) continue;
    faults.push({ setting, reason: 'is not supported in this version' });
  }
  const isSasl = protocol.startsWith('SASL_');
  faults.push(...(isSasl ? saslFaults(settings) : uselessFaults(settings, 'sasl.')));
  faults.push(...(usesTls(settings) ? storeFaults(settings) : uselessFaults(settings, 'ssl.')));
  const reported = new Set<string>();
  return faults.filter(({ setting }) => !reported.has(setting) && reported.add(setting));
}

/**
 * May this value be kept where it can be read? A secret only as a reference; a JAAS line when its
 * password is one.
 */
export function isKeptSecret(name: string, value: string): boolean {
  if (isReference(value)) return true;
  if (name !== 'sasl.jaas.config') return false;
  try {
    const { options } = parseJaas(value);
    // A login module alone holds nothing: tokens come from elsewhere.
    if (options.size === 0) return true;
    const secrets = ['password', 'clientSecret'].filter((option) => options.has(option));
    return secrets.length > 0 && secrets.every((name) => isReference(options.get(name) ?? ''));
  } catch (error) {
    if (error instanceof JaasError) return false;
    throw error;
  }
}

// Kafka client settings under Kafka's own names: which ones we take, which ones are Kafka's but not
// taken yet, and which ones hold secrets. Used for the destination in the configuration file;
// values of sensitive settings are never repeated in an error.
import { didYouMean } from './nearest.ts';
import { isSecuritySetting, oauthSetting, securitySettingDefaults } from './security-settings.ts';

/** Settings that this version carries out. */
export const supportedClientSettings = [
  'bootstrap.servers',
  'client.id',
  'request.timeout.ms',
  ...Object.keys(securitySettingDefaults),
];

/** Kafka client settings that exist and could be meant, beyond `ssl.*` and `sasl.*`. */
const otherClientSettings = [
  'client.dns.lookup',
  'connections.max.idle.ms',
  'default.api.timeout.ms',
  'metadata.max.age.ms',
  'receive.buffer.bytes',
  'reconnect.backoff.max.ms',
  'reconnect.backoff.ms',
  'retry.backoff.max.ms',
  'retry.backoff.ms',
  'retries',
  'send.buffer.bytes',
  'socket.connection.setup.timeout.max.ms',
  'socket.connection.setup.timeout.ms',
];

const sensitivePattern = /password|passphrase|secret|jaas\.config|token|credential|keystore\.key/i;

/** Named like secrets, and none. */
const readableSettings: readonly string[] = [oauthSetting.endpoint, oauthSetting.clientId];

/** True for settings whose values are write-only. */
export function isSensitiveSetting(name: string): boolean {
  return sensitivePattern.test(name) && !readableSettings.includes(name);
}

/** Why a key cannot be used for the destination, or undefined when it can. */
export function refusedClientSetting(
  key: string,
  knownBesides: readonly string[],
): string | undefined {
  // What is wrong with one of these is told with the others that it belongs to.
  if (supportedClientSettings.includes(key)) return undefined;
  if (isSecuritySetting(key)) return 'this Kafka client setting is not in this version';
  if (otherClientSettings.includes(key)) return 'this Kafka client setting is not in this version';
  return `unknown setting${didYouMean(key, [...supportedClientSettings, ...knownBesides])}`;
}

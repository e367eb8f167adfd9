// `gateway.tls` as the service uses it: checks what its settings mean together, and with those of
// the destination. Pure; the files are read by gateway/listener-tls.ts.
// Invariant: a setting that would have no effect is refused by name.
import path from 'node:path';
import type { KafkaClientSettings, TlsListenerConfig } from './config.ts';
import {
  MappingRuleError,
  type PrincipalMapping,
  parsePrincipalMapping,
} from './principal-mapping.ts';
import type { ConfigFile } from './schema.ts';
import type { Problem } from './schema-problems.ts';

type TlsSection = NonNullable<ConfigFile['gateway']['tls']>;

const rulesSetting = 'ssl.principal.mapping.rules';

/** Undefined for plain listeners; every fault is added to `problems`. */
export function listenerTls(
  tls: ConfigFile['gateway']['tls'],
  client: KafkaClientSettings,
  problems: Problem[],
): TlsListenerConfig | undefined {
  if (tls === undefined) return undefined;
  const fault = (name: string, message: string): void => {
    problems.push({ path: `gateway.tls.${name}`, message });
  };
  for (const name of ['certificate', 'key', 'clientCa'] as const) {
    const file = tls[name];
    if (file !== undefined && !path.isAbsolute(file)) fault(name, 'must be an absolute path');
  }
  const asksClients = tls.clientAuth !== 'none';
  if (asksClients && tls.clientCa === undefined) {
    fault('clientCa', `is needed with clientAuth: ${tls.clientAuth}`);
  }
  if (!asksClients && tls.clientCa !== undefined) {
    fault('clientCa', 'has no effect with clientAuth: none');
  }
  const principalMapping = mappingOf(tls, fault);
  const isSasl = (client['security.protocol'] ?? '').startsWith('SASL_');
  if (principalMapping !== undefined && !asksClients) {
    fault('clientPrincipal', 'certificate needs clientAuth: requested or required');
  } else if (principalMapping !== undefined && !isSasl) {
    const needed = 'destination.security.protocol SASL_SSL or SASL_PLAINTEXT';
    fault('clientPrincipal', `certificate needs ${needed}: clients log in by delegation tokens`);
  }
  const { clientPrincipal: _, [rulesSetting]: __, ...files } = tls;
  return { ...files, ...(principalMapping === undefined ? {} : { principalMapping }) };
}

function mappingOf(
  tls: TlsSection,
  fault: (name: string, message: string) => void,
): PrincipalMapping | undefined {
  const rules = tls[rulesSetting];
  if (tls.clientPrincipal !== 'certificate') {
    if (rules !== undefined) fault(rulesSetting, 'has no effect with clientPrincipal: sasl');
    return undefined;
  }
  try {
    return parsePrincipalMapping(rules ?? 'DEFAULT');
  } catch (error) {
    if (!(error instanceof MappingRuleError)) throw error;
    fault(rulesSetting, error.message);
    return undefined;
  }
}

// Takes secrets out of text that leaves the service: log lines, error messages. The rule is that
// secrets are never put there; this is the second net, for messages that quote what an operator or
// a peer sent (R17).

const hidden = '[hidden]';

// `password="x"`, `sasl.jaas.config=...`, `"secret": "x"`, `token=x`. A JAAS line ends with a
// semicolon.
const jaas = /(jaas\.config["']?\s*[=:]\s*)(?:"(?:\\.|[^"\\])*"|'[^']*'|[^;\n]*;?)/gi;
const secretName = /(?:password|passphrase|secret|token|credentials?|keystore\.key)["']?\s*[=:]\s*/;
const secretValue = /\\?"(?:\\.|[^"\\])*\\?"|'[^']*'|[^\s,;&}]+/;
const named = new RegExp(`(${secretName.source})(${secretValue.source})`, 'gi');
// user:password@host in an address.
const userInfo = /(\/\/[^/\s:@]+:)[^/\s@]+(@)/g;
const pem = /-----BEGIN [^-]*PRIVATE KEY-----[\s\S]*?(?:-----END [^-]*PRIVATE KEY-----|$)/g;

/** Every rule needs one of these; few texts have any. */
const suspicious =
  /jaas\.config|password|passphrase|secret|token|credential|keystore\.key|\/\/|-----BEGIN/i;

export function mayHaveSecret(text: string): boolean {
  return suspicious.test(text);
}

export function scrubSecrets(text: string): string {
  if (!suspicious.test(text)) return text;
  return text
    .replace(pem, hidden)
    .replace(jaas, `$1${hidden}`)
    .replace(named, `$1${hidden}`)
    .replace(userInfo, `$1${hidden}$2`);
}

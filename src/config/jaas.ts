// Reads `sasl.jaas.config` in Kafka's own form: one login module, its flag and its options. Pure.
// Invariant: no error repeats any of the text, which holds a password.
//
//   org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b";

export interface JaasEntry {
  readonly module: string;
  readonly options: ReadonlyMap<string, string>;
}

export class JaasError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'JaasError';
  }
}

interface Token {
  readonly text: string;
  readonly isQuoted: boolean;
}

const tokenPattern =
  /\s*(?:"((?:\\[\s\S]|[^"\\])*)"|'((?:\\[\s\S]|[^'\\])*)'|([=;])|([^\s=;"']+))/y;

function tokensOf(text: string): Token[] {
  const tokens: Token[] = [];
  const end = text.trimEnd().length;
  tokenPattern.lastIndex = 0;
  while (tokenPattern.lastIndex < end) {
    const match = tokenPattern.exec(text);
    if (match === null) throw new JaasError('a quotation mark is not closed');
    const quoted = match[1] ?? match[2];
    if (quoted === undefined) tokens.push({ text: match[3] ?? match[4] ?? '', isQuoted: false });
    else tokens.push({ text: quoted.replaceAll(/\\([\s\S])/g, '$1'), isQuoted: true });
  }
  return tokens;
}

const flags = new Set(['required', 'requisite', 'sufficient', 'optional']);

/** @throws JaasError */
export function parseJaas(text: string): JaasEntry {
  const tokens = tokensOf(text);
  const isMark = (index: number, mark: string): boolean =>
    tokens[index]?.text === mark && !tokens[index].isQuoted;
  const [module, flag] = tokens;
  if (module === undefined || isMark(0, '=') || isMark(0, ';')) {
    throw new JaasError('no login module is named');
  }
  if (flag === undefined || !flags.has(flag.text.toLowerCase())) {
    throw new JaasError('the flag ("required") after the login module is missing');
  }
  const options = new Map<string, string>();
  let index = 2;
  for (; index < tokens.length && !isMark(index, ';'); index += 3) {
    const [name, , value] = tokens.slice(index, index + 3);
    if (name === undefined || value === undefined || !isMark(index + 1, '=')) {
      throw new JaasError('an option is not of the form name="value"');
    }
    options.set(name.text, value.text);
  }
  if (!isMark(index, ';')) throw new JaasError('the semicolon at the end is missing');
  if (index + 1 < tokens.length) throw new JaasError('it holds more than one login module');
  return { module: module.text, options };
}

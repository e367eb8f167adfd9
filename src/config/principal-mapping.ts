// `ssl.principal.mapping.rules` as Kafka's brokers have it: from the name in a certificate to the
// name of a principal, by the first rule that fits. Owns the grammar and Java's meaning of patterns
// and replacements; pure. Invariant: a pattern that Java would read otherwise than we do is refused
// when the rules are read, never applied in another sense.
//
//   RULE:pattern/replacement/[LU] , ... , DEFAULT

export class MappingRuleError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'MappingRuleError';
  }
}

/** The principal's name, or null when this rule does not fit. */
type Rule = (name: string) => string | null;

/** The first rule that fits decides. @throws MappingRuleError when there is none */
export type PrincipalMapping = (distinguishedName: string) => string;

const inJavaOnly: readonly [RegExp, string][] = [
  [/\\[QEAZzGhHRXpP]/, 'an escape that Java reads in its own way'],
  [/[*+?}]\+/, 'a possessive quantifier'],
  [/\(\?>/, 'an independent group'],
  [/\(\?[a-zA-Z-]+[:)]/, 'flags inside'],
  [/\[[^\]]*(?:&&|(?<!\\)\[)/, 'a class made of classes'],
];

function compile(pattern: string, rule: string): { whole: RegExp; each: RegExp; groups: number } {
  // Java takes a backslash before any character but a letter or digit; here it may stand only
  // before those that need it, and not before a hyphen.
  const source = pattern.replaceAll(/\\([\s\S])/g, (written, character: string) => {
    if (character === '-') return '\\u002d';
    return /[A-Za-z0-9^$\\.*+?()[\]{}|/]/.test(character) ? written : character;
  });
  const unescaped = source.replaceAll(/\\[^A-Za-z]/g, '');
  const found = inJavaOnly.find(([construct]) => construct.test(unescaped));
  if (found) throw new MappingRuleError(`${rule}: its pattern has ${found[1]}: not supported`);
  try {
    return {
      whole: new RegExp(`^(?:${source})$`, 'u'),
      each: new RegExp(source, 'gu'),
      groups: (new RegExp(`${source}|`, 'u').exec('')?.length ?? 1) - 1,
    };
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new MappingRuleError(`${rule}: its pattern cannot be used (${error.message})`);
  }
}

/** What stands for a `$` and digits: as many of the digits as make a group that exists. */
function reference(digits: string, values: readonly string[]): string {
  for (let length = digits.length; length > 0; length--) {
    const group = Number(digits.slice(0, length));
    if (digits.startsWith('0') && length > 1) continue;
    if (group < values.length) return (values[group] ?? '') + digits.slice(length);
  }
  return `$${digits}`;
}

/** `values`: the match and its groups. */
function expand(replacement: string, values: readonly string[]): string {
  return replacement.replaceAll(/\\([\s\S])|\$(\d+)/g, (_, escaped?: string, digits?: string) =>
    digits === undefined ? (escaped ?? '') : reference(digits, values),
  );
}

function mappingRule(parts: {
  pattern: string;
  replacement: string;
  letters: string;
  text: string;
}): Rule {
  const { pattern, replacement, letters, text } = parts;
  const { whole, each, groups } = compile(pattern, text);
  if (/\$(?!\d)/.test(replacement.replaceAll(/\\[\s\S]/g, ''))) {
    throw new MappingRuleError(`${text}: a $ in its replacement is followed by no digit`);
  }
  return (name) => {
    if (!whole.test(name)) return null;
    const mapped = name.replaceAll(each, (...found: unknown[]) => {
      const values = found.slice(0, groups + 1).map((value) => (value ?? '') as string);
      return expand(replacement, values);
    });
    if (letters === 'L') return mapped.toLowerCase();
    return letters === 'U' ? mapped.toUpperCase() : mapped;
  };
}

const ruleAtStart =
  /^(?:(DEFAULT)|RULE:((?:\\[\s\S]|[^\\/])*)\/((?:\\[\s\S]|[^\\/])*)\/([LU]?))\s*(?:,\s*|$)/;

/** @throws MappingRuleError naming the rule */
export function parsePrincipalMapping(written: string): PrincipalMapping {
  const rules: Rule[] = [];
  let rest = written.trim();
  if (rest === '') throw new MappingRuleError('there is no rule');
  while (rest !== '') {
    const match = ruleAtStart.exec(rest);
    if (match === null) {
      throw new MappingRuleError(
        `"${rest}" does not begin with DEFAULT or RULE:pattern/replacement/[LU]`,
      );
    }
    const [text, isDefault, pattern = '', replacement = '', letters = ''] = match;
    rules.push(
      isDefault === undefined
        ? mappingRule({ pattern, replacement, letters, text: text.replace(/\s*,?\s*$/, '') })
        : (name) => name,
    );
    rest = rest.slice(text.length);
  }
  return (name) => {
    for (const rule of rules) {
      const mapped = rule(name);
      if (mapped !== null) return mapped;
    }
    throw new MappingRuleError(`no rule of ssl.principal.mapping.rules fits "${name}"`);
  };
}

// Java's properties files: what key=value files of Kafka's tools are, and files of secrets. Pure.
//
// Owns the format as java.util.Properties reads it: continued lines, escapes, `=`, `:` or blanks
// after a key. Refuses to know what keys mean. Invariant: an error names a line, never a value.

export interface Property {
  readonly key: string;
  /** With blanks at its end, as Java keeps them. */
  readonly value: string;
  /** Where it begins, from 1. */
  readonly line: number;
  /** False for a lone word, which Java takes for a key with an empty value. */
  readonly hasSeparator: boolean;
}

export class PropertiesFault extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'PropertiesFault';
  }
}

interface LogicalLine {
  readonly text: string;
  readonly line: number;
}

/** An odd number of backslashes at its end: the next line goes on with it. */
const continued = /(?<!\\)(?:\\\\)*\\$/;
const escapes: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r', f: '\f' };

function logicalLines(text: string): LogicalLine[] {
  const lines: LogicalLine[] = [];
  let open: LogicalLine | null = null;
  for (const [index, natural] of text.split(/\r\n|\r|\n/).entries()) {
    const rest = natural.replace(/^[ \t\f]+/, '');
    if (open === null && /^(?:$|[#!])/.test(rest)) continue;
    const begun: LogicalLine = open ?? { text: '', line: index + 1 };
    const isContinued = continued.test(rest);
    const whole = { ...begun, text: begun.text + (isContinued ? rest.slice(0, -1) : rest) };
    open = isContinued ? whole : null;
    if (!isContinued) lines.push(whole);
  }
  // A backslash that ends the file continues nothing.
  return open === null ? lines : [...lines, open];
}

function unescaped(text: string, line: number): string {
  return text.replaceAll(/\\(?:u([0-9a-fA-F]{4})|([\s\S]))/g, (_, unit, letter) => {
    if (unit !== undefined) return String.fromCharCode(Number.parseInt(unit, 16));
    if (letter === 'u') {
      throw new PropertiesFault(`line ${line}: \\u is not followed by four hexadecimal digits`);
    }
    return escapes[letter] ?? letter;
  });
}

/** @throws PropertiesFault */
export function readProperties(text: string): Property[] {
  return logicalLines(text).map((logical) => {
    const match = /^((?:\\[\s\S]|[^\\ \t\f:=])*)[ \t\f]*([:=]?)[ \t\f]*([\s\S]*)$/.exec(
      logical.text,
    );
    const [, key = '', separator = '', value = ''] = match ?? [];
    return {
      key: unescaped(key, logical.line),
      value: unescaped(value, logical.line),
      line: logical.line,
      hasSeparator: separator !== '' || value !== '',
    };
  });
}

// The name in a client's certificate, written as Kafka's brokers write it (RFC 2253, in the form of
// Java's X500Principal), so that mapping rules and ACLs made for brokers fit here too. Pure: a
// certificate's bytes in, text out. Invariant: two names that brokers tell apart are told apart.

interface Element {
  readonly tag: number;
  readonly content: Buffer;
  /** Tag, length and content. */
  readonly whole: Buffer;
  readonly end: number;
}

const sequence = 0x30;
const set = 0x31;
const objectIdentifier = 0x06;
const explicitVersion = 0xa0;
/** T61, Printable, IA5, General, BMP and UTF-8: all others are written as bytes. */
const textTags = new Map<number, (content: Buffer) => string>([
  [0x0c, (content) => content.toString('utf8')],
  [0x13, (content) => content.toString('latin1')],
  [0x14, (content) => content.toString('latin1')],
  [0x16, (content) => content.toString('latin1')],
  [0x1b, (content) => content.toString('latin1')],
  [0x1e, (content) => Buffer.from(content).swap16().toString('utf16le')],
]);

/** Those that RFC 2253 knows by a word; all others are written as numbers, with bytes. */
const keywords = new Map([
  ['2.5.4.3', 'CN'],
  ['2.5.4.6', 'C'],
  ['2.5.4.7', 'L'],
  ['2.5.4.8', 'ST'],
  ['2.5.4.9', 'STREET'],
  ['2.5.4.10', 'O'],
  ['2.5.4.11', 'OU'],
  ['0.9.2342.19200300.100.1.1', 'UID'],
  ['0.9.2342.19200300.100.1.25', 'DC'],
]);

function elementAt(bytes: Buffer, start: number): Element {
  const tag = bytes[start];
  const first = bytes[start + 1];
  if (tag === undefined || first === undefined) throw new RangeError('a certificate is cut short');
  const lengthBytes = first < 0x80 ? 0 : first & 0x7f;
  if (lengthBytes > 4) throw new RangeError('a length in a certificate is too large');
  const contentAt = start + 2 + lengthBytes;
  const length = lengthBytes === 0 ? first : bytes.readUIntBE(start + 2, lengthBytes);
  const end = contentAt + length;
  if (end > bytes.length) throw new RangeError('a certificate is cut short');
  return {
    tag,
    content: bytes.subarray(contentAt, end),
    whole: bytes.subarray(start, end),
    end,
  };
}

function elementsOf(bytes: Buffer): Element[] {
  const elements: Element[] = [];
  for (let at = 0; at < bytes.length; ) {
    const element = elementAt(bytes, at);
    elements.push(element);
    at = element.end;
  }
  return elements;
}

function expected(element: Element | undefined, tag: number): Element {
  if (element?.tag === tag) return element;
  throw new RangeError(`a certificate has ${element?.tag ?? 'nothing'} where ${tag} belongs`);
}

function dotted(content: Buffer): string {
  const numbers: bigint[] = [];
  let value = 0n;
  for (const byte of content) {
    value = (value << 7n) | BigInt(byte & 0x7f);
    if ((byte & 0x80) !== 0) continue;
    numbers.push(value);
    value = 0n;
  }
  const [first = 0n, ...rest] = numbers;
  const root = first < 80n ? first / 40n : 2n;
  return [root, first - root * 40n, ...rest].join('.');
}

function escaped(text: string): string {
  const quoted = text.replaceAll(/[,=+<>#;"\\]/g, '\\$&').replaceAll('\0', '\\00');
  return quoted
    .replace(/^[ \r]+/, (spaces) => spaces.replaceAll(/[ \r]/g, '\\$&'))
    .replace(/[ \r]+$/, (spaces) => spaces.replaceAll(/[ \r]/g, '\\$&'));
}

function attribute(element: Element): string {
  const [type, value] = elementsOf(expected(element, sequence).content);
  const oid = dotted(expected(type, objectIdentifier).content);
  if (value === undefined) throw new RangeError('an attribute in a certificate has no value');
  const keyword = keywords.get(oid);
  const read = textTags.get(value.tag);
  if (keyword === undefined || read === undefined) {
    return `${keyword ?? oid}=#${value.whole.toString('hex')}`;
  }
  return `${keyword}=${escaped(read(value.content))}`;
}

/** The subject of a certificate. @throws RangeError when the bytes are no certificate */
export function subjectOf(certificate: Buffer): string {
  const [body] = elementsOf(expected(elementAt(certificate, 0), sequence).content);
  const fields = elementsOf(expected(body, sequence).content);
  // Serial number, algorithm, issuer, validity, subject; a version may come before them.
  const subjectIndex = fields[0]?.tag === explicitVersion ? 5 : 4;
  return elementsOf(expected(fields[subjectIndex], sequence).content)
    .map((names) => elementsOf(expected(names, set).content).map(attribute).join('+'))
    .reverse()
    .join(',');
}

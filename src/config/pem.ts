// PEM text as people paste it: with `\n` spelled out, or on one line, as in Java properties. Pure.
// Brings it into the form that OpenSSL reads and finds what is in it.

const block = /-----BEGIN ([A-Z0-9 ]+)-----([\s\S]*?)-----END \1-----/g;

/** The blocks of the text, each in lines of 64 characters; what is between them is dropped. */
export function normalPem(text: string): string {
  const blocks = [...text.replaceAll('\\n', '\n').matchAll(block)].map(([, label, body = '']) => {
    // A key in OpenSSL's old form has header lines, which end where an empty line is.
    const lines = body.includes(':')
      ? body.trim()
      : (body.replaceAll(/\s+/g, '').match(/.{1,64}/g) ?? []).join('\n');
    return `-----BEGIN ${label}-----\n${lines}\n-----END ${label}-----\n`;
  });
  return blocks.join('');
}

export function certificateBlocks(pem: string): string[] {
  return [...pem.matchAll(block)]
    .filter(([, label = '']) => label.endsWith('CERTIFICATE'))
    .map(([whole]) => whole);
}

export function hasPrivateKey(pem: string): boolean {
  return [...pem.matchAll(block)].some(([, label = '']) => label.endsWith('PRIVATE KEY'));
}

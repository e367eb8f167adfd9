// Recognises what is often sent to a Kafka port by mistake, so that the log says what happened
// instead of "frame too large". Looks at the first bytes of a connection only.

/** A sentence about bytes that are not Kafka's, or null when they could be. */
export function describeForeignBytes(start: Buffer): string | null {
  // TLS record: handshake, version 3.x. As a Kafka size prefix this reads as 369 million.
  if (start.length >= 3 && start[0] === 0x16 && start[1] === 0x03) {
    return 'a TLS handshake came in, and this listener is PLAINTEXT';
  }
  const text = start.toString('latin1', 0, 8);
  if (/^(GET|PUT|POST|HEAD|DELETE|OPTIONS|CONNECT|PATCH|PRI) /.test(text)) {
    return 'an HTTP request came in, and this is a Kafka listener';
  }
  if (text.startsWith('PROXY ') || text.startsWith('\r\n\r\n\0\r\nQ')) {
    return 'a PROXY protocol header came in, which this listener does not accept';
  }
  return null;
}

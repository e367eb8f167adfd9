/**
 * Topic ids: 16 bytes on the wire, Kafka's own base64url text (22 characters, no padding) in
 * memory, because that is what its tools print and what makes a good map key.
 */

export const zeroUuid = 'AAAAAAAAAAAAAAAAAAAAAA';

export const uuidBytes = 16;

const uuidPattern = /^[A-Za-z0-9_-]{21}[AQgw]$/;

/** The last character carries only two bits, so other endings would be a second spelling. */
export function isUuid(text: string): boolean {
  return uuidPattern.test(text);
}

export function uuidFromBytes(bytes: Buffer, offset = 0): string {
  return bytes.toString('base64url', offset, offset + uuidBytes);
}

// Whose connection it is, by the certificate that the client showed at our listener. Owns how the
// certificate's name becomes a principal; refuses to know what becomes of it.
// Invariant: only a certificate that was verified names anybody.
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { PrincipalMapping } from '../config/principal-mapping.ts';
import { subjectOf } from './distinguished-name.ts';

/** The name of the principal, or null for a client without a certificate. */
export function ownerOf(socket: Socket, mapping: PrincipalMapping): string | null {
  if (!(socket instanceof TLSSocket) || !socket.authorized) return null;
  const certificate = socket.getPeerX509Certificate();
  return certificate === undefined ? null : mapping(subjectOf(certificate.raw));
}

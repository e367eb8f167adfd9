// SASL OAUTHBEARER (RFC 7628), the client's side as Kafka speaks it: one message with the token; a
// server that refuses it says why, and wants a last message before it ends the exchange. Refuses to
// know where tokens come from and what is in them.
import { SaslError } from './sasl-error.ts';

/** The characters of RFC 6750; others could end the message early. */
const bearerToken = /^[A-Za-z0-9._~+/-]+=*$/;

export function oauthBearerMessage(token: string): Buffer {
  if (!bearerToken.test(token)) throw new SaslError('the token has characters that none may have');
  return Buffer.from(`n,,\x01auth=Bearer ${token}\x01\x01`, 'utf8');
}

/** What is sent after the server's reason for refusing; only then does it end the exchange. */
export const oauthBearerGoodbye: Buffer = Buffer.from([0x01]);

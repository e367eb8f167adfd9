// SASL PLAIN (RFC 4616), the client's side: one message and no answer to check. Refuses to know how
// it is carried; whoever sends it does so over TLS or accepts that the password is readable.
import { SaslError } from './sasl-error.ts';

export interface PlainCredentials {
  readonly username: string;
  readonly password: string;
}

/** `[authzid] NUL authcid NUL passwd`; without an authorization id, as Kafka's own client. */
export function plainMessage({ username, password }: PlainCredentials): Buffer {
  if (username === '' || password === '') throw new SaslError('a username or password is empty');
  if (`${username}${password}`.includes('\0')) {
    throw new SaslError('a username or password must not contain NUL');
  }
  return Buffer.from(`\0${username}\0${password}`, 'utf8');
}

// SaslHandshake: forwarded, so that the destination authenticates the client itself. A client that
// is known by its certificate is refused like at a listener without SASL: its upstream has a
// principal already. Refuses to know mechanisms.
import { saslHandshakeRequestCodec } from '../../../protocol/generated/sasl-handshake-request.ts';
import {
  createSaslHandshakeResponse,
  saslHandshakeResponseCodec,
} from '../../../protocol/generated/sasl-handshake-response.ts';
import { ErrorCode } from '../../../protocol/index.ts';
import type { Handler } from '../handler.ts';
import { answer, decodeBody } from '../messages.ts';

export const saslHandshakeHandler: Handler = (context) => {
  const { principal, services } = context.session;
  if (principal === null) return { kind: 'forward' };
  const { mechanism } = decodeBody(context, saslHandshakeRequestCodec);
  const message = `${principal} is known by its certificate and wants SASL ${mechanism} as well`;
  services.events.warn('sasl_refused', `${message}: such clients use SSL, not SASL_SSL.`, {
    principal,
  });
  const response = createSaslHandshakeResponse({ errorCode: ErrorCode.ILLEGAL_SASL_STATE });
  return answer(context, saslHandshakeResponseCodec, response);
};

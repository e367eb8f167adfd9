// How sockets of the gateway are opened, a client's and the broker's behind it: one session joins
// two of them. Owns these options alone; refuses to know TLS. Invariants: a FIN from one side does
// not cut what the other still sends; a peer that vanished is noticed.
import { socketBufferBytes } from './limits.ts';

export const socketOptions = {
  allowHalfOpen: true,
  noDelay: true,
  keepAlive: true,
  keepAliveInitialDelay: 60_000,
  highWaterMark: socketBufferBytes,
};

// What can keep the gateway from starting, or from naming a broker, as one closed set of codes.

export type GatewayErrorCode =
  | 'LINK_NODE_ID_TAKEN' // a broker of the destination has the reserved id
  | 'PORT_IN_USE' // a configured or recorded port cannot be bound
  | 'PORTS_USED_UP' // more brokers than gateway.brokerPorts
  | 'NO_CLUSTER_ID' // the destination does not tell its cluster id
  | 'TLS_FILES' // certificate, key or client CA of the listeners cannot be used
  | 'CLOSED';

export class GatewayError extends Error {
  readonly code: GatewayErrorCode;

  constructor(code: GatewayErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = 'GatewayError';
    this.code = code;
  }
}

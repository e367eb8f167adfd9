// What can go wrong in a SASL exchange, on our side of it. Invariant: the message holds nothing
// that was derived from a password.

export class SaslError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'SaslError';
  }
}

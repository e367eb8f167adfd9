/**
 * What a proxy must not overlook, asked of the generated field facts: addresses, and ids of
 * brokers. It owns the search, not the decision: the lists are compared in tests with what was
 * reviewed by hand, so that a field of a new Kafka release fails a test instead of leaking.
 */
import { apis } from './generated/apis.ts';
import { type FieldFact, fieldFacts } from './generated/field-facts.ts';

export { type FieldFact, fieldFacts } from './generated/field-facts.ts';

const brokerApis = new Set(
  apis.filter((api) => api.listeners.includes('broker')).map((api) => api.name),
);

/** Whether clients of a broker's listener may see the message. */
export function isOnBrokerListener(message: string): boolean {
  return brokerApis.has(message.replace(/(Request|Response)$/, ''));
}

function parentOf(path: string): string {
  return path.slice(0, path.lastIndexOf('.') + 1);
}

function nameOf(path: string): string {
  return path.slice(parentOf(path).length).replace('[]', '');
}

/** A host and a port in one struct: `parent` is its path with a dot at the end, or empty. */
export interface AddressFact {
  readonly message: string;
  readonly parent: string;
  readonly versions: string;
}

/** Every struct that carries an address, in all messages. */
export function addressFacts(): AddressFact[] {
  return fieldFacts
    .filter((fact) => nameOf(fact.path) === 'host' && fact.type === 'string')
    .filter((fact) => hasField(fact.message, `${parentOf(fact.path)}port`))
    .map(({ message, path, versions }) => ({ message, parent: parentOf(path), versions }));
}

function hasField(message: string, path: string): boolean {
  return fieldFacts.some((fact) => fact.message === message && fact.path === path);
}

/** Text fields whose name speaks of a host or an address without being half of a pair. */
export function loneHostFacts(): FieldFact[] {
  const paired = new Set(addressFacts().map(({ message, parent }) => `${message} ${parent}host`));
  return fieldFacts.filter(
    (fact) =>
      fact.type === 'string' &&
      /host|address|endpoint|url/i.test(nameOf(fact.path)) &&
      !paired.has(`${fact.message} ${fact.path}`),
  );
}

/** Fields that the definitions mark as ids of brokers. */
export function brokerIdFacts(): FieldFact[] {
  return fieldFacts.filter((fact) => fact.entityType === 'brokerId');
}

/** Fields that look like ids of nodes but are not marked: the definitions forget some. */
export function unmarkedNodeIdFacts(): FieldFact[] {
  return fieldFacts.filter((fact) => {
    const name = nameOf(fact.path);
    const isNumber = fact.type === 'int32' || fact.type === '[]int32';
    const sounds = /node|broker|leader|replica|isr|elr|controller|voter/i.test(name);
    return isNumber && fact.entityType === undefined && sounds && !/epoch/i.test(name);
  });
}

// What every route reads from a request: who asks, and through which address.
import type { FastifyRequest } from 'fastify';
import { RequestError } from './errors.ts';
import { missingLink, type Place } from './present.ts';
import type { AdminServices } from './services.ts';

/**
 * Header in which our own command line tells its user. The API has no authentication: it is a note.
 */
export const actorHeader = 'x-causeway-actor';

/** For audit: what the client says of itself, and from where. */
export function actorOf(request: FastifyRequest): string {
  const told = request.headers[actorHeader];
  const name = typeof told === 'string' ? told.replaceAll(/[^\x21-\x7e]/g, '').slice(0, 128) : '';
  return `${name === '' ? 'admin-api' : name} (${request.ip})`;
}

export function baseUrl(request: FastifyRequest): string {
  return `${request.protocol}://${request.host}`;
}

/**
 * Checks the cluster id of the path. `lkc-` before it is an alias that Confluent's cloud tools
 * need.
 */
export function placeOf(
  request: FastifyRequest,
  options: { prefix: string; clusterId: string; asked: string },
): Place {
  const { prefix, clusterId, asked } = options;
  if (asked !== clusterId && asked !== `lkc-${clusterId}`) {
    throw new RequestError(404, 404, `Cluster ${asked} cannot be found.`);
  }
  return { base: `${baseUrl(request)}${prefix}`, clusterId };
}

/** @throws RequestError 404 */
export function checkLink(services: AdminServices, name: string): void {
  const isKnown = services.links.listLinks().some((link) => link.record.name === name);
  if (!isKnown) throw missingLink(name);
}

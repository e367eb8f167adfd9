// Groups of a link under /causeway/v1: their offsets here and at the source, and their handover.

import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { inPlaceOrder } from '../link/place-order.ts';
import { actorOf, checkLink } from './request.ts';
import * as schemas from './schemas.ts';
import type { AdminServices } from './services.ts';

export interface GroupRouteOptions {
  readonly services: AdminServices;
}

const deadlineMsDefault = 300_000;

export const groupRoutes: FastifyPluginAsyncTypebox<GroupRouteOptions> = async (app, options) => {
  const { services } = options;
  const { links } = services;

  app.get(
    '/links/:link/groups',
    {
      schema: {
        summary: 'Committed offsets of groups, here and at the source',
        operationId: 'listGroups',
        params: schemas.ownLinkParams,
        response: schemas.answer(schemas.groupsData),
      },
    },
    async (request) => {
      checkLink(services, request.params.link);
      return { groups: inPlaceOrder(links.listGroups(request.params.link)) };
    },
  );

  app.get(
    '/links/:link/handovers',
    {
      schema: {
        summary: 'Handovers of groups, under way and ended',
        operationId: 'listHandovers',
        params: schemas.ownLinkParams,
        response: schemas.answer(schemas.handoversData),
      },
    },
    async (request) => {
      checkLink(services, request.params.link);
      return { handovers: links.listHandovers(request.params.link) };
    },
  );

  app.post(
    '/links/:link/groups/:group/handover',
    {
      schema: {
        summary: "Let members wait here until the source's last commit has arrived",
        operationId: 'handOverGroup',
        params: schemas.groupParams,
        querystring: schemas.ownValidateOnlyQuery,
        body: schemas.handoverBody,
        response: schemas.answer(schemas.handoverData),
      },
    },
    async (request) => {
      const { link, group } = request.params;
      checkLink(services, link);
      return links.handOver({
        link,
        group,
        deadlineMs: request.body.deadlineMs ?? deadlineMsDefault,
        validateOnly: request.query.validateOnly,
        actor: actorOf(request),
      });
    },
  );

  app.delete(
    '/links/:link/groups/:group/handover',
    {
      schema: {
        summary: 'End a handover: members may join at once',
        operationId: 'cancelHandover',
        params: schemas.groupParams,
      },
    },
    async (request, reply) => {
      const { link, group } = request.params;
      checkLink(services, link);
      links.cancelHandover(link, group, actorOf(request));
      return reply.code(204).send();
    },
  );
};

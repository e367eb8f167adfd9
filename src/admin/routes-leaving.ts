// Leaving the proxy, under /causeway/v1: a topic is detached, and a list of everything that was
// made in the clusters. Refuses to remove the latter: what it is worth only an operator knows.
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { stateTopicName } from '../state/state-topic.ts';
import { actorOf } from './request.ts';
import * as schemas from './schemas.ts';
import type { AdminServices } from './services.ts';

export const leavingRoutes: FastifyPluginAsyncTypebox<{ services: AdminServices }> = async (
  app,
  { services },
) => {
  const { links } = services;
  app.post(
    '/mirrors/:topic/detach',
    {
      schema: {
        summary: 'End the timeline of a promoted topic: clients may go to its brokers directly',
        operationId: 'detachTopic',
        params: schemas.ownTopicParams,
        querystring: schemas.ownValidateOnlyQuery,
        body: schemas.detachBody,
        response: schemas.answer(schemas.detachData),
      },
    },
    async (request) =>
      links.detach({
        topic: request.params.topic,
        dropHistory: request.body.dropHistory,
        validateOnly: request.query.validateOnly,
        actor: actorOf(request),
      }),
  );

  app.post(
    '/mirrors/:topic/unfence',
    {
      schema: {
        summary: 'Take back the denial of WRITE at the source of a switched topic',
        operationId: 'unfenceSource',
        params: schemas.ownTopicParams,
      },
    },
    async (request, reply) => {
      await links.unfence(request.params.topic, { actor: actorOf(request) });
      return reply.code(204).send();
    },
  );

  app.get(
    '/leftovers',
    {
      schema: {
        summary: 'All topics, configs, ACLs and committed offsets that were made in the clusters',
        operationId: 'listLeftovers',
        response: schemas.answer(schemas.leftoversData),
      },
    },
    async () => {
      const { name, storage } = await services.status();
      const state = {
        kind: 'topic',
        subject: stateTopicName(name),
        detail: 'the state of the proxy itself',
        remedy: 'kafka-topics --delete, last of all and with the proxy stopped',
      };
      const directory = {
        kind: 'directory',
        subject: storage.directory,
        detail: 'mirror logs and snapshots of the state',
        remedy: 'delete it, last of all and with the proxy stopped',
      };
      return { leftovers: [...(await links.leftovers()), state, directory] };
    },
  );
};

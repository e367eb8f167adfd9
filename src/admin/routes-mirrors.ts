// REST v3: mirrors of links, and the deletion of a mirror topic. Verbs such as `mirrors:promote`
// are literal paths; per-topic failures are rows of an answer 200, as Confluent's tools expect.
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyRequest } from 'fastify';
import { didYouMean } from '../config/nearest.ts';
import { LinkError } from '../link/link-error.ts';
import type { MirrorCommand, MirrorStatus } from '../link/service.ts';
import { RequestError } from './errors.ts';
import {
  mirrorStates,
  type Place,
  presentCommandRow,
  presentList,
  presentMirror,
} from './present.ts';
import { actorOf, checkLink, placeOf } from './request.ts';
import { configMap, type RouteOptions } from './routes-links.ts';
import * as schemas from './schemas.ts';
import { selectTopics } from './select-topics.ts';
import type { AdminServices } from './services.ts';

/** Reads a state filter in any case; a word that is no state is refused. */
export function stateFilter(text: string | undefined): (mirror: MirrorStatus) => boolean {
  if (text === undefined || text === '') return () => true;
  const wanted = text.toUpperCase();
  if (!mirrorStates.includes(wanted)) {
    const hint = didYouMean(wanted, mirrorStates);
    const all = `a mirror is one of ${mirrorStates.join(', ')}`;
    throw new RequestError(400, 400, `"${text}" is no mirror status${hint || `; ${all}`}`);
  }
  return (mirror) => mirror.state === wanted;
}

function mirrorOfLink(services: AdminServices, link: string, topic: string): MirrorStatus {
  checkLink(services, link);
  const mirror = services.links.describeMirror(topic);
  if (mirror.link !== link) {
    const message = `Topic ${topic} is not a mirror of link ${link}; it belongs to ${mirror.link}.`;
    throw new LinkError('MIRROR_NOT_FOUND', message);
  }
  return mirror;
}

interface Context extends RouteOptions {
  placeFor(request: FastifyRequest, asked: string): Place;
  summary(text: string, operationId: string): object;
}

const path = '/clusters/:cluster_id/links/:link_name/mirrors';

const readRoutes: FastifyPluginAsyncTypebox<Context> = async (app, context) => {
  const { services, placeFor, summary } = context;
  const { links } = services;

  app.get(
    path,
    {
      schema: {
        ...summary('Mirrors of a link; "-" stands for all links', 'listKafkaMirrorTopics'),
        params: schemas.linkParams,
        querystring: schemas.listMirrorsQuery,
        response: schemas.answer(schemas.listOf('KafkaMirrorDataList', schemas.mirrorData)),
      },
    },
    async (request) => {
      const { cluster_id: asked, link_name: link } = request.params;
      const place = placeFor(request, asked);
      if (link !== '-') checkLink(services, link);
      const mirrors = link === '-' ? links.listMirrors() : links.listMirrors(link);
      const rows = mirrors
        .filter(stateFilter(request.query.mirror_status))
        .map((mirror) => presentMirror(place, mirror, { includeTransitionErrors: false }));
      const self = `${place.base}/clusters/${asked}/links/${encodeURIComponent(link)}/mirrors`;
      return presentList('KafkaMirrorDataList', self, rows);
    },
  );

  app.get(
    `${path}/:topic`,
    {
      schema: {
        ...summary('One mirror', 'readKafkaMirrorTopic'),
        params: schemas.mirrorParams,
        querystring: schemas.getMirrorQuery,
        response: schemas.answer(schemas.mirrorData),
      },
    },
    async (request) => {
      const { cluster_id: asked, link_name: link, topic } = request.params;
      const place = placeFor(request, asked);
      const includeTransitionErrors = request.query.include_state_transition_errors;
      return presentMirror(place, mirrorOfLink(services, link, topic), { includeTransitionErrors });
    },
  );
};

const changeRoutes: FastifyPluginAsyncTypebox<Context> = async (app, context) => {
  const { services, placeFor, summary } = context;
  const { links } = services;

  app.post(
    path,
    {
      schema: {
        ...summary('Create a mirror', 'createKafkaMirrorTopic'),
        params: schemas.linkParams,
        querystring: schemas.validateOnlyQuery,
        body: schemas.createMirrorBody,
      },
    },
    async (request, reply) => {
      const { cluster_id: asked, link_name: link } = request.params;
      placeFor(request, asked);
      checkLink(services, link);
      const { body } = request;
      const factor = body.replication_factor ?? undefined;
      if (factor === 0) {
        const message = "replication_factor: 0 is none; -1 stands for the destination's default.";
        throw new RequestError(400, 400, message);
      }
      await links.createMirror({
        link,
        sourceTopic: body.source_topic_name,
        ...(body.mirror_topic_name ? { mirrorTopic: body.mirror_topic_name } : {}),
        ...(factor === undefined ? {} : { replicationFactor: factor }),
        configs: configMap(body.configs),
        validateOnly: request.query.validate_only,
        actor: actorOf(request),
      });
      return reply.code(204).send();
    },
  );

  app.delete(
    '/clusters/:cluster_id/topics/:topic',
    {
      schema: {
        ...summary('Delete a mirror topic', 'deleteKafkaTopic'),
        params: schemas.topicParams,
        querystring: schemas.deleteTopicQuery,
      },
    },
    async (request, reply) => {
      placeFor(request, request.params.cluster_id);
      const { keep_topic: keepTopic, validate_only: validateOnly } = request.query;
      const options = { keepTopic, validateOnly, actor: actorOf(request) };
      await links.deleteMirror(request.params.topic, options);
      return reply.code(204).send();
    },
  );
};

const verbs: readonly MirrorCommand[] = ['promote', 'failover', 'pause', 'resume'];

const laterVerbs = [
  'reverse-and-start-mirror',
  'reverse-and-pause-mirror',
  'promote-local-and-start-remote-mirror',
  'promote-local-and-pause-remote-mirror',
  'truncate-and-restore',
];

const verbRoutes: FastifyPluginAsyncTypebox<Context> = async (app, context) => {
  const { services, placeFor, summary } = context;
  const { links } = services;

  for (const command of verbs) {
    const name = `${command[0]?.toUpperCase()}${command.slice(1)}`;
    app.post(
      `${path}::${command}`,
      {
        schema: {
          ...summary(`${name} mirrors of a link`, `updateKafkaMirrorTopics${name}`),
          params: schemas.linkParams,
          querystring: schemas.validateOnlyQuery,
          body: schemas.alterMirrorsBody,
          response: schemas.answer(schemas.alterMirrorsData),
        },
      },
      async (request) => {
        const { cluster_id: asked, link_name: link } = request.params;
        const place = placeFor(request, asked);
        checkLink(services, link);
        const { mirror_topic_names: names, mirror_topic_name_pattern: pattern } = request.body;
        const topics = selectTopics({ names, pattern }, () =>
          links.listMirrors(link).map((mirror) => mirror.name),
        );
        const validateOnly = request.query.validate_only;
        const actor = actorOf(request);
        const result = await links.command({ command, link, topics, validateOnly, actor });
        const rows = result.rows.map((row) => presentCommandRow(place, link, row));
        const self = `${place.base}/clusters/${asked}/links/${encodeURIComponent(link)}/mirrors`;
        const list = presentList('KafkaPromoteMirror', `${self}:${command}`, rows);
        return { ...list, receipt_id: result.receipt?.id ?? null };
      },
    );
  }

  for (const verb of laterVerbs) {
    app.post(`${path}::${verb}`, { schema: { hide: true } }, async () => {
      throw new RequestError(501, 40035, `mirrors:${verb} is not in this version.`);
    });
  }
};

export const mirrorRoutes: FastifyPluginAsyncTypebox<RouteOptions> = async (app, options) => {
  const { restPrefix, hide } = options;
  const { clusterId } = options.services;
  const context: Context = {
    ...options,
    placeFor: (request, asked) => placeOf(request, { prefix: restPrefix, clusterId, asked }),
    summary: (text, operationId) => ({ summary: text, operationId, hide }),
  };
  // Fastify would apply a prefix among the options once more.
  const inner = { ...context, prefix: '' };
  await app.register(readRoutes, inner);
  await app.register(changeRoutes, inner);
  await app.register(verbRoutes, inner);
};

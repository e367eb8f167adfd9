// REST v3: clusters, links and their settings. Each route translates and calls LinkService; it
// decides nothing.
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { nearestName } from '../config/nearest.ts';
import type { LinkStatus } from '../link/service.ts';
import { RequestError } from './errors.ts';
import {
  missingLink,
  type Place,
  presentCluster,
  presentLink,
  presentLinkConfig,
  presentList,
} from './present.ts';
import { actorOf, baseUrl, placeOf } from './request.ts';
import * as schemas from './schemas.ts';
import type { AdminServices } from './services.ts';

export interface RouteOptions {
  readonly services: AdminServices;
  /** `/kafka/v3` or `/v3`. */
  readonly restPrefix: string;
  /**
   * The second prefix is left out of /openapi.json, where each operation id may appear only once.
   */
  readonly hide: boolean;
}

interface ConfigRow {
  name: string;
  value?: string | null;
}

/** @throws RequestError when a name is there twice: nobody could say which one counts */
function checkNamedOnce(rows: readonly ConfigRow[]): void {
  const names = new Set<string>();
  for (const { name } of rows) {
    if (names.has(name)) throw new RequestError(400, 400, `The setting ${name} is given twice.`);
    names.add(name);
  }
}

export function configMap(rows: readonly ConfigRow[] | null | undefined): Record<string, string> {
  checkNamedOnce(rows ?? []);
  const given = (rows ?? []).flatMap(({ name, value }) =>
    typeof value === 'string' ? [[name, value] as const] : [],
  );
  return Object.fromEntries(given);
}

function requiredLink(services: AdminServices, name: string): LinkStatus {
  const found = services.links.listLinks().find((link) => link.record.name === name);
  if (found === undefined) throw missingLink(name);
  return found;
}

interface CreateLinkBody {
  source_cluster_id?: string | null;
  destination_cluster_id?: string | null;
  remote_cluster_id?: string | null;
  cluster_link_id?: string | null;
}

/**
 * The source's id as the client believes it; refuses what belongs to links made from the other
 * side.
 */
function expectedSourceId(body: CreateLinkBody): { sourceClusterId?: string } {
  if (body.destination_cluster_id) {
    const message = 'destination_cluster_id: links that the source opens are not in this version.';
    throw new RequestError(400, 40035, message);
  }
  if (body.cluster_link_id) {
    const message = 'cluster_link_id: should not be provided; the link gets an id of its own.';
    throw new RequestError(400, 40002, message);
  }
  const { source_cluster_id: source, remote_cluster_id: remote } = body;
  if (source && remote && source !== remote) {
    throw new RequestError(400, 400, 'source_cluster_id and remote_cluster_id differ.');
  }
  const id = source || remote;
  return id ? { sourceClusterId: id } : {};
}

const clusterRoutes: FastifyPluginAsyncTypebox<RouteOptions> = async (app, options) => {
  const { services, restPrefix, hide } = options;
  const { clusterId } = services;
  const summary = (text: string, operationId: string) => ({ summary: text, operationId, hide });

  app.get(
    '/clusters',
    {
      schema: {
        ...summary('The one cluster: the destination', 'listKafkaClusters'),
        response: schemas.answer(schemas.listOf('KafkaClusterList', schemas.clusterData)),
      },
    },
    async (request) => {
      const place = { base: `${baseUrl(request)}${restPrefix}`, clusterId };
      return presentList('KafkaClusterList', `${place.base}/clusters`, [presentCluster(place)]);
    },
  );

  app.get(
    '/clusters/:cluster_id',
    {
      schema: {
        ...summary('The destination', 'getKafkaCluster'),
        params: schemas.clusterParams,
        response: schemas.answer(schemas.clusterData),
      },
    },
    async (request) => {
      const asked = request.params.cluster_id;
      return presentCluster(placeOf(request, { prefix: restPrefix, clusterId, asked }));
    },
  );
};

const linksPath = '/clusters/:cluster_id/links';

const linkReadRoutes: FastifyPluginAsyncTypebox<RouteOptions> = async (app, options) => {
  const { services, restPrefix, hide } = options;
  const { clusterId, links } = services;
  const summary = (text: string, operationId: string) => ({ summary: text, operationId, hide });

  app.get(
    linksPath,
    {
      schema: {
        ...summary('All links', 'listKafkaLinks'),
        params: schemas.clusterParams,
        response: schemas.answer(schemas.listOf('KafkaLinkDataList', schemas.linkData)),
      },
    },
    async (request) => {
      const asked = request.params.cluster_id;
      const place = placeOf(request, { prefix: restPrefix, clusterId, asked });
      const rows = links
        .listLinks()
        .map((link) =>
          presentLink(place, link, links.listMirrors(link.record.name), { includeTasks: false }),
        );
      return presentList('KafkaLinkDataList', `${place.base}/clusters/${asked}/links`, rows);
    },
  );

  app.get(
    `${linksPath}/:link_name`,
    {
      schema: {
        ...summary('One link', 'getKafkaLink'),
        params: schemas.linkParams,
        querystring: schemas.getLinkQuery,
        response: schemas.answer(schemas.linkData),
      },
    },
    async (request) => {
      const { cluster_id: asked, link_name: name } = request.params;
      const place = placeOf(request, { prefix: restPrefix, clusterId, asked });
      const status = requiredLink(services, name);
      const includeTasks = request.query.include_tasks;
      return presentLink(place, status, links.listMirrors(name), { includeTasks });
    },
  );
};

const linkChangeRoutes: FastifyPluginAsyncTypebox<RouteOptions> = async (app, options) => {
  const { services, restPrefix, hide } = options;
  const { clusterId, links } = services;
  const summary = (text: string, operationId: string) => ({ summary: text, operationId, hide });

  app.post(
    linksPath,
    {
      schema: {
        ...summary('Create a link', 'createKafkaLink'),
        params: schemas.clusterParams,
        querystring: schemas.createLinkQuery,
        body: schemas.createLinkBody,
      },
    },
    async (request, reply) => {
      const asked = request.params.cluster_id;
      placeOf(request, { prefix: restPrefix, clusterId, asked });
      const { link_name: name, validate_only: validateOnly } = request.query;
      if (!request.query.validate_link) {
        const message = 'validate_link=false is not in this version: the source must be reachable.';
        throw new RequestError(400, 40035, message);
      }
      const source = expectedSourceId(request.body);
      const configs = configMap(request.body.configs);
      await links.createLink({ name, configs, ...source, validateOnly, actor: actorOf(request) });
      return reply.code(204).send();
    },
  );

  app.delete(
    `${linksPath}/:link_name`,
    {
      schema: {
        ...summary('Delete a link', 'deleteKafkaLink'),
        params: schemas.linkParams,
        querystring: schemas.deleteLinkQuery,
      },
    },
    async (request, reply) => {
      const { cluster_id: asked, link_name: name } = request.params;
      placeOf(request, { prefix: restPrefix, clusterId, asked });
      requiredLink(services, name);
      const { force, validate_only: validateOnly } = request.query;
      await links.deleteLink(name, { force, validateOnly, actor: actorOf(request) });
      return reply.code(200).send();
    },
  );
};

function requiredConfig(link: LinkStatus, name: string): { name: string; value: string } {
  const value = link.record.configs[name];
  if (value === undefined) {
    const near = nearestName(name, Object.keys(link.record.configs));
    const hint = near === undefined ? '' : `; did you mean ${near}?`;
    const message = `The setting ${name} is not set on link ${link.record.name}${hint}`;
    throw new RequestError(404, 404, message);
  }
  return { name, value };
}

const configsPath = `${linksPath}/:link_name/configs`;

const configReadRoutes: FastifyPluginAsyncTypebox<RouteOptions> = async (app, options) => {
  const { services, restPrefix, hide } = options;
  const { clusterId } = services;
  const summary = (text: string, operationId: string) => ({ summary: text, operationId, hide });
  const placeFor = (request: Parameters<typeof placeOf>[0], asked: string): Place =>
    placeOf(request, { prefix: restPrefix, clusterId, asked });

  app.get(
    configsPath,
    {
      schema: {
        ...summary('Settings of a link', 'listKafkaLinkConfigs'),
        params: schemas.linkParams,
        response: schemas.answer(schemas.listOf('KafkaLinkConfigDataList', schemas.linkConfigData)),
      },
    },
    async (request) => {
      const { cluster_id: asked, link_name: name } = request.params;
      const place = placeFor(request, asked);
      const rows = Object.entries(requiredLink(services, name).record.configs).map((row) =>
        presentLinkConfig(place, name, { name: row[0], value: row[1] }),
      );
      const self = `${place.base}/clusters/${asked}/links/${encodeURIComponent(name)}/configs`;
      return presentList('KafkaLinkConfigDataList', self, rows);
    },
  );

  app.get(
    `${configsPath}/:name`,
    {
      schema: {
        ...summary('One setting of a link', 'getKafkaLinkConfigs'),
        params: schemas.linkConfigParams,
        response: schemas.answer(schemas.linkConfigData),
      },
    },
    async (request) => {
      const { cluster_id: asked, link_name: link, name } = request.params;
      const place = placeFor(request, asked);
      return presentLinkConfig(place, link, requiredConfig(requiredLink(services, link), name));
    },
  );
};

const configChangeRoutes: FastifyPluginAsyncTypebox<RouteOptions> = async (app, options) => {
  const { services, restPrefix, hide } = options;
  const { clusterId, links } = services;
  const summary = (text: string, operationId: string) => ({ summary: text, operationId, hide });
  const placeFor = (request: Parameters<typeof placeOf>[0], asked: string): Place =>
    placeOf(request, { prefix: restPrefix, clusterId, asked });

  app.put(
    `${configsPath}/:name`,
    {
      schema: {
        ...summary('Change one setting of a link', 'updateKafkaLinkConfig'),
        params: schemas.linkConfigParams,
        body: schemas.putConfigBody,
      },
    },
    async (request, reply) => {
      const { cluster_id: asked, link_name: link, name } = request.params;
      placeFor(request, asked);
      requiredLink(services, link);
      const changes = [{ name, value: request.body.value }];
      const actor = actorOf(request);
      await links.alterLink(link, changes, { validateOnly: false, actor });
      return reply.code(204).send();
    },
  );

  app.delete(
    `${configsPath}/:name`,
    {
      schema: {
        ...summary('Put one setting of a link back to its default', 'deleteKafkaLinkConfig'),
        params: schemas.linkConfigParams,
      },
    },
    async (request, reply) => {
      const { cluster_id: asked, link_name: link, name } = request.params;
      placeFor(request, asked);
      requiredLink(services, link);
      const actor = actorOf(request);
      await links.alterLink(link, [{ name, value: null }], { validateOnly: false, actor });
      return reply.code(204).send();
    },
  );

  // A literal colon is written twice in route patterns.
  app.put(
    `${configsPath}::alter`,
    {
      schema: {
        ...summary('Change several settings of a link', 'updateKafkaLinkConfigBatch'),
        params: schemas.linkParams,
        querystring: schemas.validateOnlyQuery,
        body: schemas.alterConfigsBody,
      },
    },
    async (request, reply) => {
      const { cluster_id: asked, link_name: link } = request.params;
      placeFor(request, asked);
      requiredLink(services, link);
      checkNamedOnce(request.body.data);
      const changes = request.body.data.map(({ name, value, operation }) => {
        if (operation === 'DELETE') return { name, value: null };
        if (typeof value === 'string') return { name, value };
        throw new RequestError(400, 400, `The setting ${name} has no value.`);
      });
      const validateOnly = request.query.validate_only;
      await links.alterLink(link, changes, { validateOnly, actor: actorOf(request) });
      return reply.code(204).send();
    },
  );

  app.post(`${configsPath}::alter`, { schema: { hide: true } }, async () => {
    throw new RequestError(405, 405, 'HTTP 405 Method Not Allowed: use PUT.');
  });
};

export const linkRoutes: FastifyPluginAsyncTypebox<RouteOptions> = async (app, options) => {
  // Fastify would apply a prefix among the options once more.
  const inner = { ...options, prefix: '' };
  await app.register(clusterRoutes, inner);
  await app.register(linkReadRoutes, inner);
  await app.register(linkChangeRoutes, inner);
  await app.register(configReadRoutes, inner);
  await app.register(configChangeRoutes, inner);
};

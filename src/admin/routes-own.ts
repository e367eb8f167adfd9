// Our own API under /causeway/v1: what REST v3 lacks. Events with a long poll, receipts, the whole
// of a mirror's status, commands over topics of any link with a deadline, cancel, status, state
// export.
import { Readable } from 'node:stream';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { isSensitiveSetting } from '../config/client-settings.ts';
import type {
  LinkStatus,
  MirrorCommand,
  MirrorCommandResult,
  MirrorStatus,
} from '../link/service.ts';
import type { TailLine } from '../link/switch/export-tail.ts';
import { RequestError } from './errors.ts';
import { waitForEvents } from './event-wait.ts';
import { toJson } from './json.ts';
import { actorOf, checkLink } from './request.ts';
import { leavingRoutes } from './routes-leaving.ts';
import { stateFilter } from './routes-mirrors.ts';
import * as schemas from './schemas.ts';
import { selectTopics } from './select-topics.ts';
import type { AdminServices } from './services.ts';

export interface OwnRouteOptions {
  readonly services: AdminServices;
  /** Fires when the server closes: long polls end. */
  readonly closing: AbortSignal;
}

const eventRoutes: FastifyPluginAsyncTypebox<OwnRouteOptions> = async (app, options) => {
  const { services, closing } = options;
  app.get(
    '/events',
    {
      schema: {
        summary: 'Events after an id, oldest first; waits for one when there is none yet',
        operationId: 'listEvents',
        querystring: schemas.eventsQuery,
        response: schemas.answer(schemas.eventsData),
      },
    },
    async (request) => {
      const { since, waitMs, limit } = request.query;
      const all = await waitForEvents(services.events, {
        since,
        waitMs,
        signals: [closing, request.signal],
      });
      const shown = all.slice(0, limit);
      return {
        instanceId: services.instanceId,
        lastId: shown.at(-1)?.id ?? since,
        events: shown.map((event) => ({
          id: event.id,
          timeMs: event.timeMs,
          level: event.level,
          event: event.event,
          message: event.message,
          fields: event.fields,
        })),
      };
    },
  );
};

/** A link as our own API shows it; values of sensitive settings are left out. */
function presentOwnLink(status: LinkStatus): object {
  const { record, linkState, linkError, linkErrorMessage, ...rest } = status;
  const configs = Object.entries(record.configs).map(
    ([name, value]) => [name, isSensitiveSetting(name) ? '' : value] as const,
  );
  return {
    name: record.name,
    linkId: record.linkId,
    sourceClusterId: record.sourceClusterId,
    state: linkState,
    error: linkError,
    errorMessage: linkErrorMessage,
    configs: Object.fromEntries(configs),
    createdTimeMs: record.createdTimeMs,
    ...rest,
  };
}

const linkReadRoutes: FastifyPluginAsyncTypebox<OwnRouteOptions> = async (app, { services }) => {
  app.get('/links', { schema: { summary: 'All links', operationId: 'listLinks' } }, async () => ({
    links: services.links.listLinks().map(presentOwnLink),
  }));

  app.get(
    '/links/:link',
    {
      schema: {
        summary: 'One link with its settings and tasks',
        operationId: 'getLink',
        params: schemas.ownLinkParams,
      },
    },
    async (request) => {
      checkLink(services, request.params.link);
      return presentOwnLink(services.links.describeLink(request.params.link));
    },
  );
};

const readRoutes: FastifyPluginAsyncTypebox<OwnRouteOptions> = async (app, { services }) => {
  app.get(
    '/receipts/:id',
    {
      schema: {
        summary: 'What a failover or promotion did',
        operationId: 'getReceipt',
        params: schemas.receiptParams,
        response: schemas.answer(schemas.receiptData),
      },
    },
    async (request) => {
      const receipt = services.links.receipt(request.params.id);
      if (receipt === undefined) {
        throw new RequestError(404, 404, `There is no receipt ${request.params.id}.`);
      }
      const { kind: _, ...shown } = receipt;
      return shown;
    },
  );

  app.get(
    '/links/:link/plan',
    {
      schema: {
        summary: 'What the sync tasks would change now: their dry run',
        operationId: 'planTasks',
        params: schemas.ownLinkParams,
        response: schemas.answer(schemas.taskPlansData),
      },
    },
    async (request) => {
      checkLink(services, request.params.link);
      return { tasks: await services.links.planTasks(request.params.link) };
    },
  );

  app.get(
    '/status',
    { schema: { summary: 'The service in one look', operationId: 'getStatus' } },
    async () => {
      const [status, ready] = await Promise.all([services.status(), services.health.ready()]);
      const links = services.health.links();
      const linksCount = services.links.listLinks().length;
      return { ...status, healthy: ready.healthy && links.healthy, linksCount, ready, links };
    },
  );

  app.get(
    '/state',
    { schema: { summary: 'The state, for state import', operationId: 'exportState' } },
    async (_request, reply) => {
      const text = await services.exportState();
      return reply.type('application/json').serializer(String).send(text);
    },
  );
};

async function* tailText(
  first: IteratorResult<TailLine>,
  rest: AsyncIterator<TailLine>,
): AsyncGenerator<string> {
  for (let line = first; line.done !== true; line = await rest.next()) {
    yield `${toJson(line.value)}\n`;
  }
}

const offsetMax = 2n ** 63n - 1n;

function offsetOf(value: number | string | null | undefined): bigint | null {
  if (value === null || value === undefined) return null;
  const offset = BigInt(value);
  if (offset <= offsetMax) return offset;
  throw new RequestError(400, 400, `${value} is no offset: the largest is ${offsetMax}.`);
}

const mirrorReadRoutes: FastifyPluginAsyncTypebox<OwnRouteOptions> = async (app, { services }) => {
  const { links } = services;
  app.get(
    '/mirrors',
    {
      schema: {
        summary: 'Mirrors with all partitions, phases and blocking reasons',
        operationId: 'listMirrors',
        querystring: schemas.ownMirrorsQuery,
      },
    },
    async (request) => {
      const { link, status } = request.query;
      if (link !== undefined) checkLink(services, link);
      return { mirrors: links.listMirrors(link).filter(stateFilter(status)) };
    },
  );

  app.get(
    '/mirrors/:topic',
    {
      schema: {
        summary: 'One mirror',
        operationId: 'getMirror',
        params: schemas.ownTopicParams,
        response: schemas.answer(schemas.ownMirrorData),
      },
    },
    async (request) => links.describeMirror(request.params.topic),
  );

  app.get(
    '/mirrors/:topic/tail',
    {
      schema: {
        summary: 'What the source has of a switched topic and the topic has not; JSON lines',
        operationId: 'exportTail',
        params: schemas.ownTopicParams,
      },
    },
    async (request, reply) => {
      const lines = (await links.exportTail(request.params.topic))[Symbol.asyncIterator]();
      // What goes wrong before the first line is an answer like any other.
      const first = await lines.next();
      return reply.type('application/x-ndjson').send(Readable.from(tailText(first, lines)));
    },
  );

  app.post(
    '/mirrors/:topic/verify',
    {
      schema: {
        summary: 'Compare a part of a mirror partition with its source; repeat until isDone',
        operationId: 'verifyMirror',
        params: schemas.ownTopicParams,
        body: schemas.verifyBody,
        response: schemas.answer(schemas.verifyData),
      },
    },
    async (request) => {
      const { partition, since, from, end, hash, bytesPerSecond } = request.body;
      return links.verifyMirror({
        topic: request.params.topic,
        partition,
        since: offsetOf(since),
        from: offsetOf(from),
        end: offsetOf(end),
        hash: hash ?? null,
        bytesPerSecond,
      });
    },
  );
};

const mirrorEndRoutes: FastifyPluginAsyncTypebox<OwnRouteOptions> = async (app, { services }) => {
  const { links } = services;
  app.post(
    '/mirrors/:topic/recreate',
    {
      schema: {
        summary:
          'Begin a mirror anew whose source topic was made again; its old copy is kept or deleted',
        operationId: 'recreateMirror',
        params: schemas.ownTopicParams,
        querystring: schemas.ownValidateOnlyQuery,
        body: schemas.recreateBody,
        response: schemas.answer(schemas.ownMirrorData),
      },
    },
    async (request) =>
      links.recreateMirror(request.params.topic, {
        archiveAs: request.body.archiveAs ?? null,
        validateOnly: request.query.validateOnly,
        actor: actorOf(request),
      }),
  );

  app.delete(
    '/mirrors/:topic',
    {
      schema: {
        summary: 'End a mirror; its topic is deleted unless keepTopic is given',
        operationId: 'deleteMirror',
        params: schemas.ownTopicParams,
        querystring: schemas.deleteMirrorQuery,
      },
    },
    async (request, reply) => {
      const { keepTopic, validateOnly } = request.query;
      const options = { keepTopic, validateOnly, actor: actorOf(request) };
      await links.deleteMirror(request.params.topic, options);
      return reply.code(204).send();
    },
  );
};

function presentResult(result: MirrorCommandResult): object {
  const rows = result.rows.map((row) => ({
    topic: row.topic,
    state: row.state,
    error: row.error === null ? null : { code: row.error.code, message: row.error.message },
    partitions: row.partitions,
  }));
  if (result.receipt === null) return { rows, receipt: null };
  const { kind: _, ...receipt } = result.receipt;
  return { rows, receipt: receipt };
}

interface CommandBody {
  topics?: string[];
  link?: string | null;
  all?: boolean;
}

/** With `all`, every mirror of the link that is not stopped yet; otherwise the topics named. */
function commandTopics(services: AdminServices, body: CommandBody): string[] {
  const link = body.link ?? undefined;
  if (link !== undefined) checkLink(services, link);
  if (body.all !== true) {
    if (body.topics?.length) return selectTopics({ names: body.topics, pattern: null }, () => []);
    throw new RequestError(400, 400, 'Give topics, or a link and all.');
  }
  if (link === undefined) throw new RequestError(400, 400, 'all: needs a link.');
  if (body.topics !== undefined) throw new RequestError(400, 400, 'Give topics or all, not both.');
  const isLeft = (mirror: MirrorStatus): boolean => mirror.state !== 'STOPPED';
  return services.links
    .listMirrors(link)
    .filter(isLeft)
    .map((mirror) => mirror.name);
}

const commands: readonly MirrorCommand[] = ['promote', 'failover', 'pause', 'resume', 'cancel'];

const commandRoutes: FastifyPluginAsyncTypebox<OwnRouteOptions> = async (app, { services }) => {
  for (const command of commands) {
    app.post(
      `/mirrors::${command}`,
      {
        schema: {
          summary: `${command} mirrors, by topic or all of a link`,
          operationId: `${command}Mirrors`,
          querystring: schemas.ownValidateOnlyQuery,
          body: schemas.commandBody,
          response: schemas.answer(schemas.commandData),
        },
      },
      async (request) => {
        const { body } = request;
        if (body.deadlineMs !== undefined && command !== 'promote') {
          throw new RequestError(400, 400, 'deadlineMs: only promote has a deadline.');
        }
        if (body.atomic !== undefined && command !== 'promote') {
          throw new RequestError(400, 400, 'atomic: only promote can be all or none.');
        }
        if ((body.fenceSource ?? body.requireReplicated) !== undefined && command !== 'promote') {
          throw new RequestError(400, 400, 'fenceSource, requireReplicated: only of promote.');
        }
        if ((body.written ?? body.acceptLoss) !== undefined && command !== 'failover') {
          throw new RequestError(400, 400, 'written, acceptLoss: only of failover.');
        }
        const topics = commandTopics(services, body);
        if (topics.length === 0) return { rows: [], receipt: null };
        const result = await services.links.command({
          command,
          link: body.link ?? null,
          topics,
          validateOnly: request.query.validateOnly,
          actor: actorOf(request),
          ...(body.deadlineMs === undefined ? {} : { deadlineMs: body.deadlineMs }),
          ...(body.atomic === undefined ? {} : { atomic: body.atomic }),
          ...(body.fenceSource === undefined ? {} : { fenceSource: body.fenceSource }),
          ...(body.requireReplicated === undefined
            ? {}
            : { requireReplicated: body.requireReplicated }),
          ...(body.written === undefined ? {} : { written: body.written }),
          ...(body.acceptLoss === undefined ? {} : { acceptLoss: body.acceptLoss }),
        });
        return presentResult(result);
      },
    );
  }
};

const writerRoutes: FastifyPluginAsyncTypebox<OwnRouteOptions> = async (app, { services }) => {
  app.post(
    '/mirrors::writers',
    {
      schema: {
        summary: 'Idempotent and transactional producers that write to the sources of mirrors',
        operationId: 'listRecentWriters',
        body: schemas.writersBody,
        response: schemas.answer(schemas.writersData),
      },
    },
    async ({ body }) => services.links.recentWriters(commandTopics(services, body), body.withinMs),
  );
};

export const ownRoutes: FastifyPluginAsyncTypebox<OwnRouteOptions> = async (app, options) => {
  // Fastify would apply a prefix among the options once more.
  const inner = { ...options, prefix: '' };
  await app.register(eventRoutes, inner);
  await app.register(linkReadRoutes, inner);
  await app.register(readRoutes, inner);
  await app.register(mirrorReadRoutes, inner);
  await app.register(mirrorEndRoutes, inner);
  await app.register(commandRoutes, inner);
  await app.register(writerRoutes, inner);
  await app.register(leavingRoutes, inner);
};

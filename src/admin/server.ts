// The admin HTTP server: puts routes, checks, errors and limits together and binds the port.
// Refuses to know what links are. Invariant: every answer that is an error has the body
// `{error_code, message}`, whoever made it, and bad input changes nothing (R18).
import { STATUS_CODES } from 'node:http';
import { BlockList, isIP, type Socket } from 'node:net';
import swagger from '@fastify/swagger';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import Fastify, {
  type ConnectionError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from 'fastify';
import { adminBodyBytesMax, adminConnectionsMax } from '../config/limits.ts';
import { answerTo, type HttpAnswer } from './errors.ts';
import { toJson } from './json.ts';
import { groupRoutes } from './routes-groups.ts';
import { healthRoutes } from './routes-health.ts';
import { linkRoutes } from './routes-links.ts';
import { mirrorRoutes } from './routes-mirrors.ts';
import { ownRoutes } from './routes-own.ts';
import type { AdminServices } from './services.ts';
import { validatorCompiler } from './validation.ts';

const requestTimeoutMs = 120_000;

export interface AdminServer {
  /** As bound, for example `http://127.0.0.1:8082`. */
  readonly url: string;
  close(): Promise<void>;
}

const ownPrefix = '/causeway/v1';

function send(reply: FastifyReply, answer: HttpAnswer): FastifyReply {
  const { status, errorCode, message, code } = answer;
  if (status === 503) reply.header('retry-after', '1');
  const body = { error_code: errorCode, message };
  // REST v3 has these two fields and no other.
  const isNamed = code !== undefined && reply.request.url.startsWith(ownPrefix);
  return reply
    .code(status)
    .type('application/json')
    .serializer(String)
    .send(toJson(isNamed ? { ...body, code } : body));
}

function routeName(request: FastifyRequest): string {
  return `${request.method} ${request.routeOptions.url ?? '(no route)'}`;
}

/**
 * JSON only; an empty body counts as none, since some clients name a content type on every request.
 */
function parseJsonOnly(app: FastifyInstance): void {
  const parse = app.getDefaultJsonParser('error', 'error');
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (request, body, done) => {
    if (body.length === 0) done(null, undefined);
    else void parse(request, body.toString(), done);
  });
}

function handleErrors(app: FastifyInstance, services: AdminServices): void {
  app.setErrorHandler((error, request, reply) =>
    send(reply, answerTo(error, services.events, routeName(request))),
  );
  app.setNotFoundHandler((request, reply) => {
    if (request.method === 'GET' && request.url === '/') {
      const text = 'Causeway. The API is described at /openapi.json; metrics are at /metrics.\n';
      return reply.code(404).type('text/plain').serializer(String).send(text);
    }
    return send(reply, { status: 404, errorCode: 404, message: 'HTTP 404 Not Found' });
  });
}

/** Bytes that are no HTTP request get an answer like any other. */
function refuseBytes(error: ConnectionError, socket: Socket): void {
  const statuses = new Map([
    ['ERR_HTTP_REQUEST_TIMEOUT', 408],
    ['HPE_HEADER_OVERFLOW', 431],
  ]);
  const status = statuses.get(error.code) ?? 400;
  const text = STATUS_CODES[status] ?? '';
  if (socket.writable && error.code !== 'ECONNRESET') {
    const body = toJson({ error_code: status, message: `HTTP ${status} ${text}` });
    const length = `content-length: ${Buffer.byteLength(body)}`;
    const head = ['content-type: application/json', length, 'connection: close'];
    socket.write(`HTTP/1.1 ${status} ${text}\r\n${head.join('\r\n')}\r\n\r\n${body}`);
  }
  socket.destroy();
}

const restPrefixes = ['/kafka/v3', '/v3'] as const;

const loopbackHost = /^(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?$/i;

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');

/** As the configuration has it: a name or an address, an IPv6 one without brackets. */
function isLoopback(bind: string): boolean {
  const version = isIP(bind);
  if (version === 0) return bind.toLowerCase() === 'localhost';
  return loopback.check(bind, version === 6 ? 'ipv6' : 'ipv4');
}

/**
 * A browser tells where the page that asks comes from, also when the request needs nobody's
 * consent (a POST without a body): what another site asks for changes nothing here.
 */
function refuseForeignPages(app: FastifyInstance): void {
  app.addHook('onRequest', async (request, reply) => {
    const { host, origin } = request.headers;
    if (origin === undefined || request.method === 'GET') return;
    if (URL.canParse(origin) && new URL(origin).host === host) return;
    const message = 'A web page of another site asks for this: it is not done.';
    send(reply, { status: 403, errorCode: 403, message });
    await reply;
  });
}

/**
 * A page that a browser on this host has open may send requests to loopback under a name of its
 * own (DNS rebinding), and this API has no login: on loopback only loopback's names are answered.
 */
function refuseForeignHosts(app: FastifyInstance): void {
  app.addHook('onRequest', async (request, reply) => {
    const { host = '' } = request.headers;
    if (loopbackHost.test(host)) return;
    const message = `This API is bound to loopback: use localhost or 127.0.0.1, not '${host}'`;
    send(reply, { status: 403, errorCode: 403, message });
    await reply;
  });
}

/** The server without a port: tests inject requests. */
export async function createAdminApp(
  services: AdminServices,
  options: { bind?: string } = {},
): Promise<FastifyInstance> {
  const closing = new AbortController();
  const app = Fastify({
    bodyLimit: adminBodyBytesMax,
    requestTimeout: requestTimeoutMs,
    forceCloseConnections: true,
    exposeHeadRoutes: false,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 1000 },
    frameworkErrors: (error, _request, reply) => {
      // Before routing, so outside of the error handler.
      const status = error.statusCode ?? 400;
      send(reply, { status, errorCode: status, message: error.message });
    },
    clientErrorHandler: refuseBytes,
  });
  app.server.maxConnections = adminConnectionsMax;
  app.setValidatorCompiler(validatorCompiler);
  app.setSerializerCompiler(() => (value) => toJson(value));
  app.setReplySerializer((value) => toJson(value));
  parseJsonOnly(app);
  handleErrors(app, services);
  refuseForeignPages(app);
  if (isLoopback(options.bind ?? '')) refuseForeignHosts(app);
  app.addHook('preClose', async () => closing.abort());
  await app.register(swagger, {
    openapi: {
      openapi: '3.0.3',
      info: { title: 'Causeway admin API', version: '1' },
    },
  });
  const typed = app.withTypeProvider<TypeBoxTypeProvider>();
  for (const restPrefix of restPrefixes) {
    const rest = { services, restPrefix, hide: restPrefix !== restPrefixes[0] };
    await typed.register(linkRoutes, { ...rest, prefix: restPrefix });
    await typed.register(mirrorRoutes, { ...rest, prefix: restPrefix });
  }
  const own = { services, closing: closing.signal, prefix: ownPrefix };
  await typed.register(ownRoutes, own);
  await typed.register(groupRoutes, own);
  await typed.register(healthRoutes, { services });
  app.get('/openapi.json', { schema: { hide: true } }, async () => app.swagger());
  await app.ready();
  return app;
}

export async function startAdminServer(
  services: AdminServices,
  options: { bind: string; port: number },
): Promise<AdminServer> {
  const app = await createAdminApp(services, options);
  try {
    const url = await app.listen({ host: options.bind, port: options.port });
    return { url, close: () => app.close() };
  } catch (error) {
    await app.close();
    const reason = error instanceof Error ? error.message : String(error);
    throw new Error(`the admin API cannot be served: ${reason}`, { cause: error });
  }
}

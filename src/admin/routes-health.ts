// Health and metrics, outside of any API prefix, for GET and, as load balancers ask, HEAD. Ready
// never depends on a source or a link (design §11).
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import * as schemas from './schemas.ts';
import type { AdminServices } from './services.ts';

export interface HealthRouteOptions {
  readonly services: AdminServices;
}

const answersHead = { exposeHeadRoute: true } as const;

export const healthRoutes: FastifyPluginAsyncTypebox<HealthRouteOptions> = async (app, options) => {
  const { health, metrics } = options.services;

  app.get(
    '/health/live',
    { ...answersHead, schema: { summary: 'The event loop turns', operationId: 'getLive' } },
    async () => ({ healthy: true, checks: [] }),
  );

  app.get(
    '/health/ready',
    {
      ...answersHead,
      schema: {
        summary: 'This proxy can serve clients',
        operationId: 'getReady',
        response: schemas.answer(schemas.healthData),
      },
    },
    async (_request, reply) => {
      const report = await health.ready();
      return reply.code(report.healthy ? 200 : 503).send(report);
    },
  );

  app.get(
    '/health/links',
    {
      ...answersHead,
      schema: {
        summary: 'Everything that should be mirrored is',
        operationId: 'getLinksHealth',
        response: schemas.answer(schemas.healthData),
      },
    },
    async (_request, reply) => {
      const report = health.links();
      return reply.code(report.healthy ? 200 : 503).send(report);
    },
  );

  app.get(
    '/metrics',
    { ...answersHead, schema: { summary: 'Prometheus metrics', operationId: 'getMetrics' } },
    async (_request, reply) => {
      const text = await metrics.text();
      return reply.type(metrics.contentType).serializer(String).send(text);
    },
  );
};

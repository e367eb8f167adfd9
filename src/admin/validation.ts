// Checks parts of requests against their schemas. Text parts (query, path) are converted to the
// types that the schema wants; bodies are not, so that a number is never taken for a name. Every
// fault is named with its path.
import type { FastifySchemaCompiler } from 'fastify';
import type { TSchema } from 'typebox';
import { Check, Convert, Default } from 'typebox/value';
import { formatProblem, schemaProblems } from '../config/schema-problems.ts';
import { RequestError } from './errors.ts';

const partNames: Readonly<Record<string, string>> = {
  body: 'the body',
  querystring: 'the query',
  params: 'the path',
};

const wordsMax = 10;

export const validatorCompiler: FastifySchemaCompiler<TSchema> = ({ schema, httpPart }) => {
  const part = partNames[httpPart ?? ''] ?? 'the request';
  return (value: unknown) => {
    if (httpPart === 'body' && (value === undefined || value === null)) {
      return { error: new RequestError(400, 400, 'The request needs a JSON body.') };
    }
    const prepared =
      httpPart === 'body'
        ? Default(schema, value)
        : Convert(schema, Default(schema, { ...(value as object) }));
    if (Check(schema, prepared)) return { value: prepared };
    const problems = schemaProblems(schema, prepared).map(formatProblem);
    const shown = problems.slice(0, wordsMax).join('; ');
    return { error: new RequestError(400, 400, `Something in ${part} is wrong: ${shown}`) };
  };
};

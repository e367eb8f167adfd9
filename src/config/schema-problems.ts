// Turns what typebox finds wrong with a value into lines a person can act on: the path of each
// fault, and the nearest known name for an unknown one. Used for the configuration file and for
// admin HTTP bodies. Invariant: no line repeats a value, only names, so that secrets never come out
// this way.
import type { TSchema } from 'typebox';
import { Errors } from 'typebox/value';
import { didYouMean } from './nearest.ts';

export interface Problem {
  /** Dotted, e.g. `gateway.brokerPorts` or `data[0].name`; empty for the whole value. */
  readonly path: string;
  readonly message: string;
}

export function formatProblem(problem: Problem): string {
  return problem.path === '' ? problem.message : `${problem.path}: ${problem.message}`;
}

function joinPath(path: string, key: string): string {
  if (/^\d+$/.test(key)) return `${path}[${key}]`;
  return path === '' ? key : `${path}.${key}`;
}

/** `/data/0/name` -> `data[0].name`. */
function dottedPath(pointer: string): string {
  return pointer
    .split('/')
    .slice(1)
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce(joinPath, '');
}

type SchemaNode = { properties?: Record<string, SchemaNode>; items?: SchemaNode };

/** The names that are allowed where `pointer` leads to. */
function knownNames(schema: TSchema, pointer: string): string[] {
  let node = schema as SchemaNode | undefined;
  for (const part of pointer.split('/').slice(1)) {
    node = /^\d+$/.test(part) ? node?.items : node?.properties?.[part];
  }
  return Object.keys(node?.properties ?? {});
}

interface Finding {
  readonly keyword: string;
  readonly instancePath: string;
  readonly params: object;
  readonly message: string;
}

function strings(params: object, key: string): string[] {
  const value: unknown = Reflect.get(params, key);
  return Array.isArray(value) ? value.map(String) : [];
}

function describe(schema: TSchema, finding: Finding): Problem[] {
  const path = dottedPath(finding.instancePath);
  switch (finding.keyword) {
    case 'additionalProperties': {
      const known = knownNames(schema, finding.instancePath);
      return strings(finding.params, 'additionalProperties').map((name) => ({
        path: joinPath(path, name),
        message: `unknown name${didYouMean(name, known)}`,
      }));
    }
    case 'required':
      return strings(finding.params, 'requiredProperties').map((name) => ({
        path: joinPath(path, name),
        message: 'is missing',
      }));
    case 'enum':
      return [
        {
          path,
          message: `must be one of ${strings(finding.params, 'allowedValues').join(', ')}`,
        },
      ];
    case 'minLength':
      return [{ path, message: 'must not be empty' }];
    // Says only that a name is not allowed; `additionalProperties` says it better.
    case 'boolean':
      return [];
    default:
      return [{ path, message: finding.message }];
  }
}

/** "Or null" and "none of these" add nothing to what is said of the other possibilities. */
function isNoise({ keyword, params }: Finding): boolean {
  return keyword === 'anyOf' || (keyword === 'type' && Reflect.get(params, 'type') === 'null');
}

/** Everything that is wrong with a value; empty when it fits. */
export function schemaProblems(schema: TSchema, value: unknown): Problem[] {
  const findings: Finding[] = Errors(schema, value);
  const telling = findings.filter((finding) => !isNoise(finding));
  return (telling.length > 0 ? telling : findings).flatMap((finding) => describe(schema, finding));
}

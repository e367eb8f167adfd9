// Replaces `${NAME}` in the string values of a parsed YAML tree by environment variables. Works on
// values, never on the text of the file, so a variable cannot add keys or change the structure.
import type { Problem } from './schema-problems.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

const reference = /\$\{([^}]*)\}/g;
const legalName = /^[A-Za-z_][A-Za-z0-9_]*$/;

function substituteText(
  text: string,
  path: string,
  environment: Environment,
  problems: Problem[],
): string {
  return text.replaceAll(reference, (whole, name: string) => {
    if (!legalName.test(name)) {
      // Not repeated: it may be a piece of a password.
      problems.push({ path, message: `what follows "\${" is not of the form \${NAME}` });
      return whole;
    }
    const value = environment[name];
    if (value === undefined) {
      problems.push({ path, message: `the environment variable ${name} is not set` });
      return whole;
    }
    return value;
  });
}

/**
 * A copy of `tree` with all references replaced; what cannot be replaced is added to `problems`.
 */
export function substituteEnvironment(
  tree: unknown,
  environment: Environment,
  problems: Problem[],
  path = '',
): unknown {
  if (typeof tree === 'string') return substituteText(tree, path, environment, problems);
  if (Array.isArray(tree)) {
    return tree.map((item, index) =>
      substituteEnvironment(item, environment, problems, `${path}[${index}]`),
    );
  }
  if (tree === null || typeof tree !== 'object') return tree;
  return Object.fromEntries(
    Object.entries(tree).map(([key, value]) => {
      const inner = path === '' ? key : `${path}.${key}`;
      return [key, substituteEnvironment(value, environment, problems, inner)];
    }),
  );
}

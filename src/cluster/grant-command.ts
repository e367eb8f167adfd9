// The command that grants our principal a right it lacks, to be pasted into a shell. Knows nothing
// of who asks for which right; whoever runs it adds principal and bootstrap server.

export type GrantedResource =
  | { readonly topic: string }
  | { readonly group: string }
  | { readonly cluster: true };

/** `operations` in the spelling of kafka-acls: Read, DescribeConfigs ... */
export function grantCommand(resource: GrantedResource, ...operations: readonly string[]): string {
  const wanted = operations.map((operation) => `--operation ${operation}`).join(' ');
  return `kafka-acls --add ${resourceOption(resource)} ${wanted}`;
}

function resourceOption(resource: GrantedResource): string {
  if ('topic' in resource) return `--topic ${quoted(resource.topic)}`;
  if ('group' in resource) return `--group ${quoted(resource.group)}`;
  return '--cluster';
}

/** A group id may hold any character, a quote too. */
function quoted(name: string): string {
  return `'${name.replaceAll("'", "'\\''")}'`;
}

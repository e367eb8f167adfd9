// How far a mirror has come, asked of the proxy's HTTP API: a process of the command line for each
// look would take more of the machine than what is measured. Owns no figure.
import type { CausewayProcess } from '../test/helpers/causeway-process.ts';

interface Described {
  readonly partitions: readonly { readonly mirrorEnd: number | string }[];
}

/** Records that are there, over all partitions. */
export async function mirroredRecords(causeway: CausewayProcess, topic: string): Promise<number> {
  const resource = `/causeway/v1/mirrors/${topic}`;
  const { partitions } = await causeway.get<Described>(resource);
  return partitions.reduce((sum, { mirrorEnd }) => sum + Number(mirrorEnd), 0);
}

// A relay that remembers every byte which passed, in both directions: what a test compares a copy
// with.
//
// Owns: what each connection carried. Parses nothing (recorded-fetches.ts does, afterwards).
// Invariant: a chunk is recorded before it is passed on, and recorded chunks are never reused.

import { asTheyCome, Relay, type RelayTarget } from './relay.ts';

/** What one connection carried, in order, each direction by itself. */
export interface RecordedConnection {
  readonly toServer: Buffer[];
  readonly toClient: Buffer[];
}

export interface RecordingRelay {
  readonly relay: Relay;
  readonly connections: readonly RecordedConnection[];
}

export async function startRecordingRelay(target: RelayTarget): Promise<RecordingRelay> {
  const connections: RecordedConnection[] = [];
  const relay = await Relay.start({
    target,
    pass: (from, to, { connection, direction }) => {
      const recorded = connections[connection] ?? { toServer: [], toClient: [] };
      connections[connection] = recorded;
      from.on('data', (chunk: Buffer) => recorded[direction].push(chunk));
      asTheyCome(from, to, { connection, direction });
    },
  });
  return { relay, connections };
}

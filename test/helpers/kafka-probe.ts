// The smallest possible Kafka client: one Metadata request, written and read by hand.
//
// Owns: asking a real broker who is in its cluster, to know when the cluster is ready. Written
// without protocol/ on purpose, so that a fault there cannot hide itself from the tests.
// Invariant: one connection for each question, closed in every case.

import { connect } from 'node:net';

export interface ClusterView {
  clusterId: string | null;
  controllerId: number;
  brokers: { id: number; host: string; port: number }[];
}

const correlationId = 7;

// Metadata v2, request header v1; an empty list of topics asks for brokers only.
function metadataRequest(): Buffer {
  const clientId = Buffer.from('probe');
  const body = Buffer.alloc(4 + 2 + 2 + 4 + 2 + clientId.length + 4);
  body.writeInt32BE(body.length - 4, 0);
  body.writeInt16BE(3, 4);
  body.writeInt16BE(2, 6);
  body.writeInt32BE(correlationId, 8);
  body.writeInt16BE(clientId.length, 12);
  clientId.copy(body, 14);
  body.writeInt32BE(0, 14 + clientId.length);
  return body;
}

function parseMetadata(frame: Buffer): ClusterView {
  let at = 0;
  const int32 = (): number => {
    at += 4;
    return frame.readInt32BE(at - 4);
  };
  const text = (): string | null => {
    const length = frame.readInt16BE(at);
    at += 2;
    if (length < 0) return null;
    at += length;
    return frame.toString('utf8', at - length, at);
  };
  if (int32() !== correlationId) throw new Error('answer with a wrong correlation id');
  const brokers: ClusterView['brokers'] = [];
  for (let left = int32(); left > 0; left--) {
    const id = int32();
    const host = text();
    const port = int32();
    text(); // rack
    brokers.push({ id, host: host ?? '', port });
  }
  return { brokers, clusterId: text(), controllerId: int32() };
}

/** Asks the broker at a real address who is in the cluster. */
export function describeBrokers(
  host: string,
  port: number,
  timeoutMs = 5_000,
): Promise<ClusterView> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port });
    let received: Buffer = Buffer.alloc(0);
    socket.setTimeout(timeoutMs, () => socket.destroy(new Error('no answer to Metadata')));
    socket.once('connect', () => socket.write(metadataRequest()));
    socket.once('error', reject);
    socket.once('close', () => reject(new Error('connection closed without an answer')));
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk]);
      if (received.length < 4 || received.length < 4 + received.readInt32BE(0)) return;
      socket.destroy();
      try {
        resolve(parseMetadata(received.subarray(4)));
      } catch (error) {
        reject(error);
      }
    });
  });
}

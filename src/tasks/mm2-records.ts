// Heartbeats and checkpoints as MirrorMaker 2 writes them, byte for byte, so that its formatters
// and its client library read ours. Pure. Refuses to know topics and brokers. Invariant: no value
// is ever null, since a tombstone among checkpoints breaks MirrorMaker's client.

export interface Mm2Record {
  readonly key: Buffer;
  readonly value: Buffer;
}

const version = 0;

function string(text: string): Buffer {
  const bytes = Buffer.from(text);
  const length = Buffer.alloc(2);
  length.writeInt16BE(bytes.length);
  return Buffer.concat([length, bytes]);
}

function int16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeInt16BE(value);
  return bytes;
}

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}

function int64(value: bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64BE(value);
  return bytes;
}

export function heartbeatRecord(heartbeat: {
  readonly source: string;
  readonly target: string;
  readonly timeMs: number;
}): Mm2Record {
  return {
    key: Buffer.concat([string(heartbeat.source), string(heartbeat.target)]),
    value: Buffer.concat([int16(version), int64(BigInt(Math.floor(heartbeat.timeMs)))]),
  };
}

/** Offsets are the same on both sides, so that one is enough. */
export function checkpointRecord(checkpoint: {
  readonly group: string;
  /** At the destination. */
  readonly topic: string;
  readonly partition: number;
  readonly offset: bigint;
}): Mm2Record {
  const { group, topic, partition, offset } = checkpoint;
  const metadata = string('');
  return {
    key: Buffer.concat([string(group), string(topic), int32(partition)]),
    value: Buffer.concat([int16(version), int64(offset), int64(offset), metadata]),
  };
}

// One request and its answer after the other on a socket that nobody else reads yet: for what has
// to be said before a client's requests may follow. Owns the frames; refuses to know what is said.
// Invariant: when an exchange is over, nothing was read that belongs to the next reader, and the
// socket is paused.
import type { Socket } from 'node:net';
import {
  decodeResponseHeader,
  encodeRequestFrame,
  ProtocolError,
  Reader,
} from '../../protocol/index.ts';
import type { Exchange } from '../cluster/authentication.ts';
import { connectTimeoutMs } from './limits.ts';

/** Answers of the exchanges that are made here are short. */
const answerBytesMax = 64 * 1024;

/** Requests go out in their highest version: only for those that all brokers have. */
export function exchangeOn(socket: Socket, clientId: string): Exchange {
  let correlationId = 0;
  return async (api, request) => {
    const header = {
      apiKey: api.key,
      apiVersion: api.versionMax,
      correlationId: correlationId++,
      clientId,
    };
    for (const chunk of encodeRequestFrame(header, (writer) =>
      api.encode(writer, request, api.versionMax),
    )) {
      socket.write(chunk);
    }
    const reader = new Reader(await readFrame(socket));
    const answered = decodeResponseHeader(reader, api.key, api.versionMax);
    if (answered.correlationId !== header.correlationId) {
      throw new ProtocolError('INVALID_FRAME', `the answer to ${api.name} is for another request`);
    }
    return api.decode(reader, api.versionMax);
  };
}

/** The answer without its size. */
function readFrame(socket: Socket): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    let held = Buffer.alloc(0);
    const settle = (finish: () => void): void => {
      clearTimeout(timer);
      socket.pause();
      socket.off('data', onData).off('error', onError).off('end', onEnd).off('close', onEnd);
      finish();
    };
    const fail = (reason: string): void => settle(() => reject(new Error(reason)));
    const onError = (error: Error): void => fail(error.message);
    const onEnd = (): void => fail('the broker ended the connection');
    const onData = (chunk: Buffer): void => {
      held = Buffer.concat([held, chunk]);
      const size = held.length < 4 ? 0 : held.readInt32BE(0);
      if (size < 0 || size > answerBytesMax) fail(`an answer of ${size} bytes`);
      else if (held.length >= 4 && held.length > 4 + size) fail('more than one answer');
      else if (held.length >= 4 && held.length === 4 + size) {
        settle(() => resolve(held.subarray(4)));
      }
    };
    const timer = setTimeout(
      () => fail(`no answer within ${connectTimeoutMs} ms`),
      connectTimeoutMs,
    );
    socket.on('data', onData).on('error', onError).on('end', onEnd).on('close', onEnd);
    if (socket.destroyed) onEnd();
    else socket.resume();
  });
}

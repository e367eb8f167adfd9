// Feeds a baseline: serves BYTES bytes of one reused buffer to each connection, then ends it.
// `node byte-source.js BYTES` prints its port.
import { type AddressInfo, createServer } from 'node:net';

const total = Number(process.argv[2]);
const chunk = Buffer.alloc(1 << 20, 0x61);

const server = createServer((socket) => {
  let left = total;
  const send = (): void => {
    while (left > 0) {
      const part = left >= chunk.length ? chunk : chunk.subarray(0, left);
      left -= part.length;
      if (!socket.write(part)) return;
    }
    socket.end();
  };
  socket.on('drain', send);
  socket.on('error', () => socket.destroy());
  send();
});
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`${(server.address() as AddressInfo).port}\n`);
});

// The baseline of the mirror path: a plain Node socket that reads a byte stream and throws it away,
// or writes what it reads to a file. `node socket-sink.js PORT discard|FILE [REQUESTS BYTES]`:
// connects, sends what is in the file REQUESTS, reads BYTES or to the end, prints
// `{"bytes", "seconds", "cpuSeconds"}` of the reading alone. It parses nothing.
import { openSync, readFileSync, writeSync } from 'node:fs';
import { connect } from 'node:net';

const [port, target, requests, bytesMax = Number.POSITIVE_INFINITY] = process.argv.slice(2);
const file = target === 'discard' || target === undefined ? null : openSync(target, 'w');
let bytes = 0;
let begun = 0;
let cpuBegun = process.cpuUsage();

const socket = connect({
  port: Number(port),
  host: '127.0.0.1',
  onread: {
    buffer: Buffer.allocUnsafeSlow(1 << 20),
    callback: (count, buffer) => {
      if (bytes === 0) {
        begun = performance.now();
        cpuBegun = process.cpuUsage();
      }
      bytes += count;
      if (file !== null) writeSync(file, buffer, 0, count);
      if (bytes >= Number(bytesMax)) report();
      return true;
    },
  },
});
if (requests !== undefined) socket.write(readFileSync(requests));
socket.on('end', report);

function report(): void {
  const seconds = (performance.now() - begun) / 1000;
  const cpu = process.cpuUsage(cpuBegun);
  const cpuSeconds = (cpu.user + cpu.system) / 1e6;
  process.stdout.write(`${JSON.stringify({ bytes, seconds, cpuSeconds })}\n`);
  socket.destroy();
}

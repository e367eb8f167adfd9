// The baseline of the gateway: a relay that parses nothing (`a.pipe(b)`).
// `node plain-relay.js LISTEN_PORT TARGET_PORT` prints `ready`.
import { connect, createServer } from 'node:net';

const [listenPort, targetPort] = process.argv.slice(2).map(Number);

createServer({ noDelay: true }, (client) => {
  const upstream = connect({ port: targetPort ?? 0, host: '127.0.0.1', noDelay: true });
  client.pipe(upstream);
  upstream.pipe(client);
  client.on('error', () => upstream.destroy());
  upstream.on('error', () => client.destroy());
}).listen(listenPort, '127.0.0.1', () => process.stdout.write('ready\n'));

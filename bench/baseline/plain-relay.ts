// The baseline of the gateway: a relay that parses nothing (`a.pipe(b)`), plain or with TLS to the
// client. `node plain-relay.js LISTEN_PORT TARGET_PORT [CERTIFICATE_FILE KEY_FILE]` prints `ready`.
import { readFileSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';

const [listen, target, certificateFile, keyFile] = process.argv.slice(2);

function relay(client: Socket): void {
  const upstream = connect({ port: Number(target), host: '127.0.0.1', noDelay: true });
  client.pipe(upstream);
  upstream.pipe(client);
  client.on('error', () => upstream.destroy());
  upstream.on('error', () => client.destroy());
}

const server =
  certificateFile === undefined || keyFile === undefined
    ? createServer({ noDelay: true }, relay)
    : createTlsServer(
        { noDelay: true, cert: readFileSync(certificateFile), key: readFileSync(keyFile) },
        relay,
      );
server.listen(Number(listen), '127.0.0.1', () => process.stdout.write('ready\n'));

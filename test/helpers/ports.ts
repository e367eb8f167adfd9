// Fixed ports for test servers that must come back at the same address after a restart.
//
// Owns: a registry of reserved ports shared by all test processes of the machine (one lock file
// each, freed when its owner dies). Takes ports below 32768 only, since the system hands out the
// ones above to outgoing connections, which could steal the port of a stopped broker.
// Invariant: a reserved port was free when reserved, and no other test process gets it meanwhile.

import { mkdirSync } from 'node:fs';
import { createServer } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { tryLock, unlock } from './file-lock.ts';

const portMin = 20_000;
const portMax = 32_000;
const registryDirectory = path.join(os.tmpdir(), 'causeway-test-ports');

function lockFile(port: number): string {
  return path.join(registryDirectory, String(port));
}

function canBind(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host: '0.0.0.0', exclusive: true }, () => {
      server.close(() => resolve(true));
    });
  });
}

/** Reserves `count` ports; when `isConsecutive`, one range such as a gateway's `brokerPorts`. */
export async function reservePorts(
  count: number,
  options: { isConsecutive?: boolean } = {},
): Promise<number[]> {
  mkdirSync(registryDirectory, { recursive: true });
  const ports: number[] = [];
  const span = portMax - portMin;
  const start = Math.floor(Math.random() * span);
  for (let step = 0; step < span && ports.length < count; step++) {
    const port = portMin + ((start + step) % span);
    const breaksRange = ports.length > 0 && port !== (ports.at(-1) ?? 0) + 1;
    if (options.isConsecutive && breaksRange) releasePorts(ports.splice(0));
    if (!tryLock(lockFile(port))) continue;
    if (await canBind(port)) ports.push(port);
    else unlock(lockFile(port));
  }
  if (ports.length < count) throw new Error(`no ${count} free ports in ${portMin}-${portMax}`);
  return ports;
}

export function releasePorts(ports: Iterable<number>): void {
  for (const port of ports) unlock(lockFile(port));
}

// Who we are, as the lease says it: host, process number, and among which processes that number
// means anything. Two containers may have one host name and the same numbers; what they do not have
// in common is the pair of the machine's boot and the namespace of processes.
// Refuses to judge anybody. Invariant: a place that cannot be told is none, and equal to no other.
import { readFileSync, readlinkSync } from 'node:fs';
import os from 'node:os';

export interface OwnProcess {
  readonly host: string;
  readonly pid: number;
  readonly place?: string;
}

/** Linux tells both; elsewhere there is no place. */
function ownPlace(): string | undefined {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return `${boot} ${readlinkSync('/proc/self/ns/pid')}`;
  } catch (error) {
    if (error instanceof Error && 'code' in error) return undefined;
    throw error;
  }
}

const place = ownPlace();

export const ownProcess: OwnProcess = {
  host: os.hostname(),
  pid: process.pid,
  ...(place === undefined ? {} : { place }),
};

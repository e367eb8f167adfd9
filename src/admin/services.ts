// What the admin API needs from the rest of the service, as main.ts gives it.
import type { BypassGroup } from '../gateway/bypass-watch.ts';
import type { LinkService } from '../link/service.ts';
import type { Events } from '../observe/events.ts';
import type { Health } from '../observe/health.ts';

/** The whole service in one look, for `causeway status`. */
export interface ServiceStatus {
  readonly version: string;
  readonly name: string;
  readonly instanceId: string;
  /** A standby serves reads and shows everything, but may change nothing. */
  readonly role: 'owner' | 'standby';
  readonly clusterId: string;
  readonly gateway: {
    readonly advertise: string;
    readonly bootstrapPort: number;
    readonly connections: number;
    /** Groups on mirrored or promoted topics whose members come to the destination past us. */
    readonly bypassGroups: readonly BypassGroup[];
  };
  readonly storage: {
    readonly directory: string;
    readonly usable: boolean;
    readonly usedBytes: number | null;
    readonly freeBytes: number | null;
    readonly isFull: boolean;
  };
}

export interface Metrics {
  readonly contentType: string;
  text(): Promise<string>;
}

export interface AdminServices {
  /** The destination's cluster id. */
  readonly clusterId: string;
  /** Random per start: event ids count from 1 in each. */
  readonly instanceId: string;
  readonly links: LinkService;
  readonly events: Events;
  readonly health: Health;
  readonly metrics: Metrics;
  status(): Promise<ServiceStatus>;
  /** The state as `causeway state import` reads it. */
  exportState(): Promise<string>;
}

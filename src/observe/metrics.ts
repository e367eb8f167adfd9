// Prometheus metrics, pull style: the hot path only counts in plain fields, and everything is read
// when it is asked for. Names and labels are the design's (§11). What is UNKNOWN is NaN, never 0.
// Lost records come from what is durable of them (mirrors and receipts), so that the total survives
// restarts. docs/metrics.md is made of the names and sentences here.
import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks';
import { Counter, Gauge, Registry } from 'prom-client';
import type { StorageUsage } from '../../storage/mirror-log.ts';
import type { BypassGroup } from '../gateway/bypass-watch.ts';
import type { LinkService, LinkStatus, MirrorStatus, PartitionStatus } from '../link/service.ts';
import type { ReceiptRecord } from '../state/records.ts';
import type { Events } from './events.ts';
import { LostRecords } from './lost-records.ts';
import { StorageForecast } from './storage-forecast.ts';

export interface MetricsSources {
  readonly version: string;
  readonly links: Pick<LinkService, 'listLinks' | 'listMirrors' | 'listGroups'>;
  readonly events: Events;
  receipts(): Iterable<ReceiptRecord>;
  isOwner(): boolean;
  /** Null while the storage cannot be asked. */
  storage(): Promise<StorageUsage | null>;
  gateway(): {
    readonly connections: number;
    readonly bytesFromClients: number;
    readonly bytesToClients: number;
    readonly heldBytes: number;
    /** Connections that were ended because a peer was gone without a word. */
    readonly vanished: number;
    /** Null without TLS at the listeners. */
    readonly certificateExpiresTimeMs: number | null;
    readonly bypassGroups: readonly BypassGroup[];
  };
}

export interface MetricsOptions {
  /** False: only sums and maxima per topic, for installations with very many partitions. */
  readonly partitions: boolean;
}

/** Each look wakes the process: at 10 ms that alone took 1 % of a core from one at rest. */
const delayResolutionMs = 100;

const linkUpStates = new Set<LinkStatus['linkState']>(['ACTIVE', 'PAUSED']);

/** Everything that one scrape reads, read once. */
interface Snapshot {
  readonly links: readonly LinkStatus[];
  readonly mirrors: readonly MirrorStatus[];
}

type Value = number | bigint | null;

const number = (value: Value): number => (value === null ? Number.NaN : Number(value));

function sum(values: readonly Value[]): number {
  return values.reduce((total: number, value) => total + number(value), 0);
}

function largest(values: readonly Value[]): number {
  return values.reduce((most: number, value) => {
    const next = number(value);
    return Number.isNaN(most) || Number.isNaN(next) ? Number.NaN : Math.max(most, next);
  }, 0);
}

const isMirroring = (mirror: MirrorStatus): boolean => mirror.state !== 'STOPPED';

class MetricsCollector {
  readonly registry = new Registry();
  readonly #sources: MetricsSources;
  readonly #options: MetricsOptions;
  readonly #delay: IntervalHistogram;
  readonly #unsubscribe: () => void;
  readonly #taskErrors: Counter<'link' | 'task' | 'code'>;

  constructor(sources: MetricsSources, options: MetricsOptions) {
    this.#sources = sources;
    this.#options = options;
    this.#delay = monitorEventLoopDelay({ resolution: delayResolutionMs });
    this.#delay.enable();
    this.#taskErrors = new Counter({
      name: 'causeway_task_errors_total',
      help: 'Errors of sync tasks since the start of this process.',
      labelNames: ['link', 'task', 'code'],
      registers: [this.registry],
    });
    this.#unsubscribe = sources.events.subscribe((event) => {
      const { link, task, code } = event.fields;
      if (event.level === 'info' || typeof task !== 'string') return;
      this.#taskErrors.inc({ link: String(link), task, code: String(code ?? event.event) });
    });
    this.#fillers.push(({ links }) => this.#forgetDeleted(links));
    this.#addLinkMetrics();
    this.#addMirrorMetrics();
    this.#addProcessMetrics();
  }

  #gauge(name: string, help: string, labelNames: string[]): Gauge {
    return new Gauge({ name: `causeway_${name}`, help, labelNames, registers: [this.registry] });
  }

  readonly #fillers: ((snapshot: Snapshot) => void | Promise<void>)[] = [];

  /** A gauge that is emptied and filled again at each scrape, so that what is gone disappears. */
  #filled(
    name: string,
    help: string,
    labelNames: string[],
    fill: (gauge: Gauge, snapshot: Snapshot) => void | Promise<void>,
  ): void {
    const gauge = this.#gauge(name, help, labelNames);
    this.#fillers.push((snapshot) => {
      gauge.reset();
      return fill(gauge, snapshot);
    });
  }

  /** A counter is not filled anew, and would keep what deleted links have had. */
  async #forgetDeleted(links: readonly LinkStatus[]): Promise<void> {
    const names = new Set(links.map(({ record }) => record.name));
    for (const { labels } of (await this.#taskErrors.get()).values) {
      if (!names.has(String(labels.link))) this.#taskErrors.remove(labels);
    }
  }

  #addLinkMetrics(): void {
    const eachLink = (name: string, help: string, value: (link: LinkStatus) => number): void =>
      this.#filled(name, help, ['link'], (gauge, { links }) => {
        for (const link of links) gauge.set({ link: link.record.name }, value(link));
      });
    eachLink('link_up', 'Is the source reachable and the link not failed: 1 or 0.', (link) =>
      linkUpStates.has(link.linkState) ? 1 : 0,
    );
    eachLink(
      'link_last_contact_timestamp_seconds',
      'When the source answered last, before a restart too; NaN when it never has.',
      (link) => (link.lastContactTimeMs < 0 ? Number.NaN : link.lastContactTimeMs / 1000),
    );
    eachLink(
      'link_contact_recorded',
      'Is the last contact from a record of before a restart, so that it may have been later.',
      (link) => Number(link.isContactRecorded),
    );
    eachLink(
      'link_rpo_seconds',
      'Age of the last moment at which everything that the source reported was here.',
      (link) => number(link.rpoSeconds),
    );
    eachLink(
      'link_rpo_at_most',
      'Is the RPO from a record of before a restart, so that it is at most what is shown.',
      (link) => Number(link.isRpoAtMost),
    );
    eachLink(
      'link_rpo_unknown_mirrors',
      'Mirrors that never had all that the source reported, of which no RPO is known.',
      (link) => link.rpoUnknownTopics.length,
    );
    this.#filled(
      'task_last_success_timestamp_seconds',
      'When a sync task of a link succeeded last; NaN before the first success.',
      ['link', 'task'],
      (gauge, { links }) => {
        for (const { record, tasks } of links) {
          for (const task of tasks) {
            const seconds = task.lastSuccessTimeMs > 0 ? task.lastSuccessTimeMs / 1000 : Number.NaN;
            gauge.set({ link: record.name, task: task.name }, seconds);
          }
        }
      },
    );
    this.#filled(
      'link_heartbeat_age_seconds',
      'Age of the last heartbeat that came through: end-to-end lag plus at most its interval.',
      ['link'],
      (gauge, { links }) => {
        for (const { record, tasks } of links) {
          const ageMs = tasks.find(({ name }) => name === 'HeartbeatEmit')?.counts?.ageMs ?? -1;
          if (ageMs >= 0) gauge.set({ link: record.name }, ageMs / 1000);
        }
      },
    );
    this.#filled(
      'link_drift',
      'Differences between source and mirrors that a sync task has found, edits here included.',
      ['link', 'task'],
      (gauge, { links }) => {
        for (const { record, tasks } of links) {
          for (const { name, counts } of tasks) {
            if (counts?.drift !== undefined)
              gauge.set({ link: record.name, task: name }, counts.drift);
          }
        }
      },
    );
    this.#filled(
      'groups_held',
      'Groups whose offsets at the destination are left as they are, by reason.',
      ['link', 'reason'],
      (gauge, { links }) => this.#fillGroupsHeld(gauge, links),
    );
  }

  #fillGroupsHeld(gauge: Gauge, links: readonly LinkStatus[]): void {
    for (const { record } of links) {
      const groups = new Map<string, Set<string>>();
      for (const row of this.#sources.links.listGroups(record.name)) {
        if (row.held === null) continue;
        const held = groups.get(row.held) ?? new Set();
        groups.set(row.held, held.add(row.group));
      }
      for (const [reason, names] of groups) gauge.set({ link: record.name, reason }, names.size);
    }
  }

  #addMirrorMetrics(): void {
    this.#filled(
      'mirror_state',
      'State of each mirror: 1 for the state that it is in.',
      ['link', 'topic', 'state'],
      (gauge, { mirrors }) => {
        for (const mirror of mirrors) {
          gauge.set({ link: mirror.link, topic: mirror.name, state: mirror.state }, 1);
        }
      },
    );
    this.#addLag('mirror_lag_records', 'Records that the source has and the mirror has not.', {
      of: (partition) => partition.lagRecords,
      whole: sum,
    });
    this.#addLag(
      'mirror_lag_records_min',
      'Records that it has not at least, by what was heard of the source last, however long ago.',
      { of: (partition) => partition.lagRecordsMin, whole: sum },
    );
    this.#addLag(
      'mirror_lag_bytes',
      'Bytes that the source has and the mirror has not: an estimate by the mean size lately.',
      { of: (partition) => partition.lagBytes, whole: sum },
    );
    this.#addLag('mirror_lag_seconds', 'Age of the oldest record that the mirror has not.', {
      of: (partition) => partition.lagSeconds,
      whole: largest,
    });
    this.#filled(
      'mirror_stalled_partitions',
      'Partitions that do not move although they should.',
      ['link', 'topic'],
      (gauge, { mirrors }) => {
        for (const mirror of mirrors.filter(isMirroring)) {
          const stalled = mirror.partitions.filter((partition) => partition.isStalled).length;
          gauge.set({ link: mirror.link, topic: mirror.name }, stalled);
        }
      },
    );
    this.#filled(
      'mirror_damaged_ranges',
      'Ranges of offsets that the storage has damaged and readers cannot have; also when switched.',
      ['link', 'topic'],
      (gauge, { mirrors }) => {
        for (const { link, name, partitions } of mirrors) {
          gauge.set({ link, topic: name }, sum(partitions.map((each) => each.damagedRanges)));
        }
      },
    );
    this.#filled(
      'mirror_missing_partitions',
      'Partitions that the source has and the mirror has not.',
      ['link', 'topic'],
      (gauge, { mirrors }) => {
        for (const { link, name, growth, partitions } of mirrors.filter(isMirroring)) {
          const missing = growth === null ? 0 : growth.sourcePartitions - partitions.length;
          gauge.set({ link, topic: name }, missing);
        }
      },
    );
    this.#filled(
      'mirror_stray_records',
      'Records that the source got after the topic was switched; NaN while it is not read.',
      ['link', 'topic'],
      (gauge, { mirrors }) => {
        for (const { link, name, state, strayRecords } of mirrors) {
          if (state === 'STOPPED') gauge.set({ link, topic: name }, number(strayRecords));
        }
      },
    );
    this.#addLost();
  }

  #addLost(): void {
    const counter = new Counter({
      name: 'causeway_mirror_lost_records_total',
      help: 'Records that failovers left behind, and history that was lost before it was read.',
      labelNames: ['link', 'topic'],
      registers: [this.registry],
    });
    const lost = new LostRecords();
    this.#fillers.push(({ mirrors }) => {
      counter.reset();
      for (const { link, topic, records } of lost.count(mirrors, this.#sources.receipts())) {
        counter.inc({ link, topic }, Number(records));
      }
    });
  }

  #addLag(
    name: string,
    help: string,
    read: {
      of: (partition: PartitionStatus) => Value;
      whole: (values: readonly Value[]) => number;
    },
  ): void {
    const byPartition = this.#options.partitions;
    const labels = byPartition ? ['link', 'topic', 'partition'] : ['link', 'topic'];
    this.#filled(name, `${help} NaN when unknown.`, labels, (gauge, { mirrors }) => {
      for (const { link, name: topic, partitions } of mirrors.filter(isMirroring)) {
        if (!byPartition) {
          gauge.set({ link, topic }, read.whole(partitions.map(read.of)));
          continue;
        }
        for (const partition of partitions) {
          const labelled = { link, topic, partition: String(partition.partition) };
          gauge.set(labelled, number(read.of(partition)));
        }
      }
    });
  }

  #addProcessMetrics(): void {
    const sources = this.#sources;
    this.#filled('build_info', 'Version of this proxy.', ['version', 'node'], (gauge) =>
      gauge.set({ version: sources.version, node: process.version }, 1),
    );
    this.#filled('state_owner', 'May this instance act (1), or is it a standby (0).', [], (gauge) =>
      gauge.set(sources.isOwner() ? 1 : 0),
    );
    const used = this.#gauge('storage_used_bytes', 'Bytes that mirror logs take.', []);
    const free = this.#gauge('storage_free_bytes', 'Bytes free where mirror logs are.', []);
    const full = this.#gauge('storage_full', 'Has fetching stopped for lack of space: 1 or 0.', []);
    const hours = this.#gauge(
      'storage_hours_to_full',
      'Hours until fetching stops, at the growth of the last hour; NaN when unknown.',
      [],
    );
    const forecast = new StorageForecast(() => performance.now());
    this.#fillers.push(async () => {
      const usage = await sources.storage();
      used.set(number(usage?.usedBytes ?? null));
      free.set(number(usage?.freeBytes ?? null));
      full.set(usage === null ? Number.NaN : usage.freeBytes < usage.minFreeBytes ? 1 : 0);
      hours.set(number(usage === null ? null : forecast.hoursToFull(usage)));
    });
    this.#filled('gateway_connections', 'Client connections open now.', [], (gauge) =>
      gauge.set(sources.gateway().connections),
    );
    this.#filled(
      'gateway_held_bytes',
      'Answers and requests that are held for all clients together.',
      [],
      (gauge) => gauge.set(sources.gateway().heldBytes),
    );
    this.#filled(
      'bypass_group_members',
      'Members of groups on mirrored or promoted topics that come past this proxy.',
      ['group'],
      (gauge) => {
        for (const { group, members } of sources.gateway().bypassGroups) {
          gauge.set({ group }, members.length);
        }
      },
    );
    this.#filled(
      'tls_certificate_expiry_timestamp_seconds',
      'When the certificate of the listeners ends; absent without TLS.',
      ['listener'],
      (gauge) => {
        const { certificateExpiresTimeMs } = sources.gateway();
        if (certificateExpiresTimeMs === null) return;
        gauge.set({ listener: 'gateway' }, certificateExpiresTimeMs / 1000);
      },
    );
    const bytes = new Counter({
      name: 'causeway_gateway_bytes_total',
      help: 'Bytes received from clients (in) and sent to them (out).',
      labelNames: ['direction'],
      registers: [this.registry],
    });
    const vanished = new Counter({
      name: 'causeway_gateway_vanished_peers_total',
      help: 'Connections ended because a client or broker was gone without closing them.',
      registers: [this.registry],
    });
    this.#fillers.push(() => {
      const { bytesFromClients, bytesToClients } = sources.gateway();
      vanished.reset();
      vanished.inc(sources.gateway().vanished);
      bytes.reset();
      bytes.inc({ direction: 'in' }, bytesFromClients);
      bytes.inc({ direction: 'out' }, bytesToClients);
    });
    this.#filled(
      'event_loop_delay_seconds',
      'How late the event loop was since the last scrape.',
      ['quantile'],
      (gauge) => this.#fillLoopDelay(gauge),
    );
  }

  #fillLoopDelay(gauge: Gauge): void {
    // What is measured is the time between two ticks of a timer, which is its period at least.
    const late = (nanoseconds: number): number =>
      Math.max(0, nanoseconds / 1e9 - delayResolutionMs / 1000);
    for (const quantile of [0.5, 0.99]) {
      gauge.set({ quantile: String(quantile) }, late(this.#delay.percentile(quantile * 100)));
    }
    gauge.set({ quantile: '1' }, late(this.#delay.max));
    this.#delay.reset();
  }

  async text(): Promise<string> {
    const { links } = this.#sources;
    const snapshot = { links: links.listLinks(), mirrors: links.listMirrors() };
    for (const fill of this.#fillers) await fill(snapshot);
    return this.registry.metrics();
  }

  close(): void {
    this.#unsubscribe();
    this.#delay.disable();
  }
}

export interface MetricsEndpoint {
  readonly contentType: string;
  text(): Promise<string>;
  close(): void;
}

export function createMetrics(sources: MetricsSources, options: MetricsOptions): MetricsEndpoint {
  const collector = new MetricsCollector(sources, options);
  return {
    contentType: collector.registry.contentType,
    text: () => collector.text(),
    close: () => collector.close(),
  };
}

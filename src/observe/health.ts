// The three verdicts on health. Live: the event loop turns (the answer itself shows it). Ready:
// this proxy can serve clients; it never depends on a source or link, or a disaster would take the
// proxies out of rotation. Links: everything that should move does. Invariant (R15): nothing that
// has lag and stands still is healthy.
import type { LinkService, LinkStatus, MirrorStatus } from '../link/service.ts';

export interface HealthRow {
  readonly name: string;
  readonly healthy: boolean;
  /** The cause when it is not healthy. */
  readonly message: string | null;
}

export interface HealthReport {
  readonly healthy: boolean;
  readonly checks: readonly HealthRow[];
}

/** Resolves when all is well; rejects with the cause when not. */
export interface ReadinessCheck {
  readonly name: string;
  check(): Promise<void> | void;
}

export interface HealthOptions {
  readonly readiness: readonly ReadinessCheck[];
  readonly links: Pick<LinkService, 'listLinks' | 'listMirrors'>;
  /** What stands behind all links, such as storage: the causes why nothing can move, by name. */
  readonly shared?: () => readonly { readonly name: string; readonly cause: string }[];
  /** Monotonic milliseconds. */
  readonly now: () => number;
  /** Unix milliseconds; default: the system's. */
  readonly unixMs?: () => number;
  /** A report younger than this is given again, so that probes cost the destination nothing. */
  readonly cacheMs?: number;
  /** A check that takes longer has failed. */
  readonly checkTimeoutMs?: number;
}

const pausedStates = new Set(['PAUSED', 'LINK_PAUSED']);
const brokenStates = new Set(['FAILED', 'LINK_FAILED', 'SOURCE_UNAVAILABLE']);

/** What is asked first when a source is gone. */
function lossText(link: LinkStatus): string {
  const { lastContactTimeMs: contactMs, rpoSeconds } = link;
  const contact = contactMs < 0 ? 'never' : new Date(contactMs).toISOString();
  const orLater = link.isContactRecorded ? ' or later' : '';
  const atMost = link.isRpoAtMost ? 'at most ' : '';
  const rpo = rpoSeconds === null ? 'unknown' : `${atMost}${rpoSeconds.toFixed(1)} s`;
  return `last contact ${contact}${orLater}, RPO ${rpo}`;
}

function linkCauses(link: LinkStatus): string[] {
  const causes: string[] = [];
  if (link.linkState === 'UNAVAILABLE' || link.linkState === 'FAILED') {
    const detail = link.linkErrorMessage ?? link.linkError;
    causes.push(`link is ${link.linkState}: ${detail} (${lossText(link)})`);
  } else if (link.linkError === 'AUTHORIZATION_ERROR') {
    causes.push(`link: ${link.linkErrorMessage ?? link.linkError}`);
  }
  for (const task of link.tasks) {
    const failures = task.errors.filter(({ isHarmless }) => isHarmless !== true);
    if (task.state !== 'IN_ERROR' || failures.length === 0) continue;
    const detail = failures.map((error) => `${error.code} ${error.message}`).join(', ');
    causes.push(`task ${task.name} is in error: ${detail}`);
  }
  return causes;
}

/** A mirror that is not there after so long does not come by itself. */
const pendingMsMax = 60_000;

function mirrorCauses(mirror: MirrorStatus, unixMs: number): string[] {
  if (mirror.state === 'STOPPED' || pausedStates.has(mirror.state)) return [];
  if (mirror.state === 'PENDING_MIRROR') {
    const pendingMs = unixMs - mirror.stateTimeMs;
    if (pendingMs < pendingMsMax) return [];
    return [`mirror ${mirror.name} is PENDING_MIRROR for ${Math.round(pendingMs / 1000)} s`];
  }
  if (brokenStates.has(mirror.state)) {
    const detail = mirror.error === null ? '' : `: ${mirror.error.code} ${mirror.error.message}`;
    return [`mirror ${mirror.name} is ${mirror.state}${detail}`];
  }
  const stalled = mirror.partitions.filter((partition) => partition.isStalled);
  const causes = lackCauses(mirror, unixMs);
  const [first] = stalled;
  if (first === undefined) return causes;
  const partitions = stalled.map((partition) => partition.partition).join(', ');
  const cause = first.stallCause ?? 'no progress';
  return [...causes, `mirror ${mirror.name} is STALLED in partition ${partitions}: ${cause}`];
}

/** So long it may take to grow, or to see that the source is not what it was. */
const growthMsMax = 15_000;

function lackCauses({ name, growth, partitions }: MirrorStatus, unixMs: number): string[] {
  if (growth === null || unixMs - growth.sinceTimeMs < growthMsMax) return [];
  const cause = growth.cause === null ? '' : `: ${growth.cause}`;
  const lacks = `${partitions.length} of the ${growth.sourcePartitions} partitions of its source`;
  return [`mirror ${name} has ${lacks}${cause}`];
}

/** After a switch nothing of it should move any more: a metric and a notice show it. */
function damageCauses(mirror: MirrorStatus): string[] {
  if (mirror.state === 'STOPPED') return [];
  const damaged = mirror.partitions.filter(({ damagedRanges }) => (damagedRanges ?? 0) > 0);
  if (damaged.length === 0) return [];
  const partitions = damaged.map(({ partition }) => partition).join(', ');
  return [`mirror ${mirror.name} has damaged records in partition ${partitions}: RECORDS_DAMAGED`];
}

const causesMax = 20;

function row(name: string, causes: readonly string[]): HealthRow {
  const more = causes.length > causesMax ? `; and ${causes.length - causesMax} more` : '';
  return {
    name,
    healthy: causes.length === 0,
    message: causes.length === 0 ? null : causes.slice(0, causesMax).join('; ') + more,
  };
}

function report(checks: readonly HealthRow[]): HealthReport {
  return { healthy: checks.every((check) => check.healthy), checks };
}

export class Health {
  readonly #options: HealthOptions;
  #readyReport: { report: Promise<HealthReport>; atMs: number } | undefined;

  constructor(options: HealthOptions) {
    this.#options = options;
  }

  async #check(readiness: ReadinessCheck): Promise<HealthRow> {
    const timeoutMs = this.#options.checkTimeoutMs ?? 3000;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
    });
    try {
      await Promise.race([Promise.resolve(readiness.check()), late]);
      return { name: readiness.name, healthy: true, message: null };
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      return { name: readiness.name, healthy: false, message };
    } finally {
      clearTimeout(timer);
    }
  }

  ready(): Promise<HealthReport> {
    const { now, readiness, cacheMs = 1000 } = this.#options;
    if (this.#readyReport === undefined || now() - this.#readyReport.atMs >= cacheMs) {
      const checks = Promise.all(readiness.map((check) => this.#check(check)));
      this.#readyReport = { report: checks.then(report), atMs: now() };
    }
    return this.#readyReport.report;
  }

  links(): HealthReport {
    const mirrors = new Map<string, MirrorStatus[]>();
    for (const mirror of this.#options.links.listMirrors()) {
      const list = mirrors.get(mirror.link);
      if (list === undefined) mirrors.set(mirror.link, [mirror]);
      else list.push(mirror);
    }
    const shared = (this.#options.shared?.() ?? []).map(({ name, cause }) => ({
      name,
      healthy: false,
      message: cause,
    }));
    const unixMs = (this.#options.unixMs ?? Date.now)();
    const causesOf = (link: string): string[] =>
      (mirrors.get(link) ?? []).flatMap((mirror) => [
        ...mirrorCauses(mirror, unixMs),
        ...damageCauses(mirror),
      ]);
    const links = this.#options.links.listLinks();
    const rows = links.map((link) => {
      const { name } = link.record;
      return row(name, [...linkCauses(link), ...causesOf(name)]);
    });
    // Mirrors that a deleted link has left behind stand still.
    const known = new Set(links.map(({ record }) => record.name));
    for (const name of mirrors.keys()) {
      const causes = known.has(name) ? [] : causesOf(name);
      if (causes.length > 0) rows.push(row(name, ['link was deleted', ...causes]));
    }
    return report([...shared, ...rows]);
  }
}

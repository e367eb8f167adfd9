// Whether a link's source answers, and if not, why, in Cluster Linking's names. Owns contact times;
// refuses to know what was asked. Invariant: a lost source is told once when it is lost and once
// when it is back.

import { ClusterError } from '../cluster/cluster.ts';
import { grantCommand } from '../cluster/grant-command.ts';
import type { Events } from '../observe/events.ts';
import type { LinkClock } from './context.ts';
import { messageOf } from './signal.ts';

const unresolvable = new Set(['ENOTFOUND', 'EAI_AGAIN', 'EAI_NONAME']);

/** Cluster Linking's `link_error` for a failure. */
export function linkErrorName(error: unknown): string {
  if (!(error instanceof ClusterError)) return 'UNKNOWN';
  for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
    const code = 'code' in cause ? String(cause.code) : '';
    if (unresolvable.has(code)) return 'UNRESOLVABLE_BOOTSTRAP_ERROR';
  }
  switch (error.code) {
    case 'AUTHENTICATION':
      return 'AUTHENTICATION_ERROR';
    case 'TIMEOUT':
      return 'TIMEOUT_ERROR';
    case 'UNREACHABLE':
    case 'UNKNOWN_NODE':
    case 'CLOSED':
      return 'BOOTSTRAP_TCP_CONNECTION_FAILED_ERROR';
    default:
      return 'UNKNOWN';
  }
}

export class LinkHealth {
  readonly #link: string;
  readonly #events: Events;
  readonly #clock: LinkClock;
  readonly #lostAfterMs: number;
  #contactMs: number;
  #contactUnixMs = -1;
  readonly #recordedContactUnixMs: number;
  #lastError: unknown = null;
  #isTold = false;
  /** The cluster id that answers in the source's place; null while it is the right one. */
  #wrongClusterId: string | null = null;
  #denied: readonly string[] = [];
  #watchedCount = 0;

  constructor(parts: {
    link: string;
    events: Events;
    clock: LinkClock;
    lostAfterMs: number;
    /** What is on record of the time before a restart; -1: nothing. */
    recordedContactUnixMs?: number;
  }) {
    this.#recordedContactUnixMs = parts.recordedContactUnixMs ?? -1;
    this.#link = parts.link;
    this.#events = parts.events;
    this.#clock = parts.clock;
    this.#lostAfterMs = parts.lostAfterMs;
    this.#contactMs = parts.clock.monotonicMs();
  }

  contacted(): void {
    this.#contactMs = this.#clock.monotonicMs();
    this.#contactUnixMs = this.#clock.unixMs();
    this.#lastError = null;
    if (!this.#isTold) return;
    this.#isTold = false;
    this.#events.info('link_available', `The source of link '${this.#link}' answers again`, {
      link: this.#link,
    });
  }

  lost(error: unknown): void {
    this.#lastError = error;
    if (this.#isTold || !this.isLost) return;
    this.#isTold = true;
    this.#events.warn(
      'link_unavailable',
      `The source of link '${this.#link}' has not answered for ${this.#lostAfterMs} ms: ` +
        messageOf(error),
      { link: this.#link, error: linkErrorName(error) },
    );
  }

  /** What the source says that it is. */
  sawClusterId(expected: string, found: string | null): void {
    const wrong = found === expected ? null : (found ?? 'none');
    if (wrong === this.#wrongClusterId) return;
    this.#wrongClusterId = wrong;
    if (wrong === null) {
      this.#events.info('link_repaired', `The source of link '${this.#link}' is the right one`, {
        link: this.#link,
      });
    } else {
      this.#events.error(
        'link_failed',
        `The source of link '${this.#link}' is cluster ${wrong}, it should be ${expected}`,
        { link: this.#link },
      );
    }
  }

  /** Source topics of mirrors that our principal may not describe, of so many. */
  sawDenied(denied: readonly string[], watchedCount: number): void {
    const before = this.#denied.length;
    this.#denied = denied;
    this.#watchedCount = watchedCount;
    const link = { link: this.#link };
    if (before === 0 && denied.length > 0) {
      const message = `Link '${this.#link}': ${this.#denialMessage()}`;
      this.#events.warn('link_unauthorized', message, { ...link, error: 'AUTHORIZATION_ERROR' });
    } else if (before > 0 && denied.length === 0) {
      const message = `Link '${this.#link}' may read all of its topics again`;
      this.#events.info('link_authorized', message, link);
    }
  }

  /** Every topic of the link is denied: nothing can move. */
  get isDenied(): boolean {
    return this.#denied.length > 0 && this.#denied.length === this.#watchedCount;
  }

  #denialMessage(): string {
    const first = this.#denied[0] ?? '';
    const command = grantCommand({ topic: first }, 'Read', 'Describe', 'DescribeConfigs');
    return (
      `our principal may not describe ${this.#denied.length} of ${this.#watchedCount} source ` +
      `topics, '${first}' first: grant it with ${command}`
    );
  }

  get isLost(): boolean {
    return this.#clock.monotonicMs() - this.#contactMs > this.#lostAfterMs;
  }

  /** The last request was answered; false as soon as one has failed. */
  get isAnswering(): boolean {
    return this.hasContact && this.#lastError === null && !this.isLost;
  }

  get isFailed(): boolean {
    return this.#wrongClusterId !== null;
  }

  /** The last answer, before a restart too as far as it is on record; -1 when there is none. */
  get contactUnixMs(): number {
    return this.hasContact ? this.#contactUnixMs : this.#recordedContactUnixMs;
  }

  /** The source has answered this process. */
  get hasContact(): boolean {
    return this.#contactUnixMs >= 0;
  }

  /** Milliseconds since the last answer (or since the start). */
  get silentMs(): number {
    return this.#clock.monotonicMs() - this.#contactMs;
  }

  get error(): { readonly name: string; readonly message: string } | null {
    if (this.#wrongClusterId !== null) {
      return { name: 'UNKNOWN', message: `The source is another cluster: ${this.#wrongClusterId}` };
    }
    if (this.#lastError === null) {
      if (this.#denied.length === 0) return null;
      return { name: 'AUTHORIZATION_ERROR', message: this.#denialMessage() };
    }
    return { name: linkErrorName(this.#lastError), message: messageOf(this.#lastError) };
  }
}

// The ACL task of a link: ACLs of the source that its filters match are kept at the destination.
// Owns the rounds and the record of what the link made; refuses to decide (acl-diff.ts) and to
// speak Kafka (acl-requests.ts). Invariants (R12, R16): what is about to be made is recorded
// before it is made, so that nothing else is ever taken for ours; the lease is checked before each
// request that changes something; without a difference nothing is written; an authorizer that is
// missing is this task's trouble alone.
import type { LinkContext } from '../link/context.ts';
import type { LinkRuntime } from '../link/link.ts';
import type { TopicChanges } from '../link/mirror/topic-changes.ts';
import type { TaskPlan } from '../link/service.ts';
import type { Acl } from '../state/records.ts';
import {
  type AclDiff,
  type AclMap,
  aclKey,
  aclMap,
  diffAcls,
  heldBack,
  mappedAcl,
} from './acl-diff.ts';
import { anyAcl, operations, patternTypes, permissionTypes, resourceTypes } from './acl-filters.ts';
import { createAcls, deleteAcls, readAcls } from './acl-requests.ts';
import { BackOffs } from './back-offs.ts';
import { chunks } from './chunks.ts';
import { TaskError, type TaskRound, type TaskWork } from './sync-task.ts';

/** Of one link: bounds its record in the state. */
export const ownedAclsMax = 2_000;
const aclsPerRequest = 200;
const retryFirstMs = 5_000;
const retryMaxMs = 60_000;

interface Findings {
  readonly diff: AclDiff;
  readonly desiredCount: number;
  /** Grants that wait for promotions. */
  readonly held: AclMap;
}

export interface AclSyncParts {
  readonly context: LinkContext;
  readonly link: LinkRuntime;
  readonly changes: TopicChanges;
}

export class AclSync implements TaskWork {
  readonly name = 'AclSync';
  readonly #context: LinkContext;
  readonly #link: LinkRuntime;
  readonly #changes: TopicChanges;
  /** By key of the ACL. */
  readonly #refused: BackOffs;

  constructor(parts: AclSyncParts) {
    this.#context = parts.context;
    this.#link = parts.link;
    this.#changes = parts.changes;
    const delays = { firstMs: retryFirstMs, maxMs: retryMaxMs };
    this.#refused = new BackOffs(parts.context.clock, delays);
  }

  get isEnabled(): boolean {
    return this.#link.settings.aclSync.enabled;
  }

  get periodMs(): number {
    return this.#link.settings.aclSync.periodMs;
  }

  settingsChanged(): void {
    this.#refused.clear();
  }

  async round(): Promise<TaskRound> {
    const { diff, desiredCount, held } = await this.#compare();
    const wanted = new Set([...diff.create, ...diff.remove].map(aclKey));
    this.#refused.keep((key) => wanted.has(key));
    const isDue = (acl: Acl): boolean => this.#refused.isDue(aclKey(acl));
    const create = diff.create.filter(isDue);
    const remove = diff.remove.filter(isDue);
    const claimed = aclMap([...diff.kept, ...create]);
    if (claimed.size > ownedAclsMax || held.size > ownedAclsMax) {
      const message = `the filters match more than ${ownedAclsMax} ACLs: narrow acl.filters`;
      throw new TaskError('ACL_LIMIT_EXCEEDED', message);
    }
    await this.#record(claimed, held);
    for (const acl of await this.#create(create)) claimed.delete(aclKey(acl));
    for (const acl of await this.#remove(remove)) claimed.delete(aclKey(acl));
    await this.#record(claimed, held);
    const problems = this.#refused.problems;
    if (desiredCount === 0) {
      const message = "acl.filters matches none of the source's ACLs";
      const nothing = { code: 'MISCONFIGURATION_ERROR', message, isHarmless: true };
      return { problems: [...problems, nothing], counts: {} };
    }
    const drift = diff.create.length + diff.remove.length + diff.left.length;
    const left = diff.left.length;
    const counts = { matched: desiredCount, own: claimed.size, left, held: held.size, drift };
    return { problems, counts };
  }

  async plan(): Promise<Omit<TaskPlan, 'task'>> {
    const { diff, held } = await this.#compare();
    const row = (action: 'create' | 'delete' | 'keep' | 'wait', acl: Acl, why: string) => ({
      action,
      subject: 'acl',
      detail: `${describeAcl(acl)}${why}`,
    });
    return {
      changes: [
        ...diff.create.map((acl) => row('create', acl, '')),
        ...diff.remove.map((acl) => row('delete', acl, ': the source has it no more')),
        ...diff.left.map((acl) => row('keep', acl, ': the source has it no more')),
        ...[...held.values()].map((acl) => row('wait', acl, ': acl.sync.write.hold.enable')),
      ],
      problems: this.#refused.problems,
    };
  }

  async #compare(): Promise<Findings> {
    const { aclSync, prefix } = this.#link.settings;
    if (aclSync.filters === null) {
      throw new TaskError(
        'MISCONFIGURATION_ERROR',
        'acl.sync.enable is true, but acl.filters is not set',
      );
    }
    const names = {
      prefix,
      groupPrefix: this.#link.settings.offsetSync.isPrefixed ? prefix : '',
      ownTopicPrefix: this.#context.ownTopicPrefix,
      principal: aclSync.principal,
    };
    const desired = new Map<string, Acl>();
    const fences = this.#fences();
    for (const filter of aclSync.filters) {
      for (const acl of await readAcls(this.#link.cluster, filter, 'source')) {
        if (fences.has(aclKey(acl))) continue;
        const mapped = mappedAcl(acl, names);
        if (mapped !== null) desired.set(aclKey(mapped), mapped);
      }
    }
    const actual = aclMap(await readAcls(this.#context.destination, anyAcl, 'destination'));
    const nothing = { desired, held: new Map() };
    const wanted = aclSync.isWriteHeld ? heldBack(desired, actual) : nothing;
    const diff = diffAcls({
      desired: wanted.desired,
      actual,
      owned: aclMap(this.#owned()),
      mode: aclSync.mode,
      isReleased: (acl) => this.#isReleased(acl),
    });
    return { diff, desiredCount: desired.size, held: wanted.held };
  }

  /** What we deny at the source while a topic is promoted is not meant for its mirror. */
  #fences(): ReadonlySet<string> {
    const records = [...this.#context.state.view.topics.values()];
    const own = records.filter(({ link }) => link === this.#link.name);
    return new Set(own.flatMap(({ fence }) => (fence?.acls ?? []).map(aclKey)));
  }

  #owned(): readonly Acl[] {
    return this.#context.state.view.linkAcls.get(this.#link.name)?.acls ?? [];
  }

  /** ACLs of a promoted topic are the destination's own. */
  #isReleased({ resourceType, patternType, resourceName }: Acl): boolean {
    if (resourceType !== resourceTypes.topic || patternType !== patternTypes.literal) return false;
    return this.#context.state.view.topics.get(resourceName)?.state === 'STOPPED';
  }

  async #record(owned: AclMap, held: AclMap): Promise<void> {
    const before = this.#context.state.view.linkAcls.get(this.#link.name);
    if (isSame(before?.acls, owned) && isSame(before?.held, held)) return;
    if (!this.#context.state.view.links.has(this.#link.name)) {
      throw new TaskError('LINK_NOT_FOUND_ERROR', 'the link has been deleted');
    }
    const put = {
      kind: 'link-acls',
      link: this.#link.name,
      acls: sorted(owned),
      ...(held.size > 0 ? { held: sorted(held) } : {}),
    } as const;
    await this.#changes.commit([{ put }]);
  }

  /** Returns those that were refused. */
  async #create(acls: readonly Acl[]): Promise<readonly Acl[]> {
    const { destination } = this.#context;
    const refused = await this.#inChunks(acls, (part) => createAcls(destination, part));
    const count = acls.length - refused.length;
    if (count > 0) this.#tell('acls_created', `${count} ACLs of the source were added`, count);
    return refused;
  }

  /** Returns those that are gone. */
  async #remove(acls: readonly Acl[]): Promise<readonly Acl[]> {
    const { destination } = this.#context;
    const refused = new Set(await this.#inChunks(acls, (part) => deleteAcls(destination, part)));
    const gone = acls.filter((acl) => !refused.has(acl));
    const text = `${gone.length} ACLs that the source has no more were deleted`;
    if (gone.length > 0) this.#tell('acls_deleted', text, gone.length);
    return gone;
  }

  async #inChunks(
    acls: readonly Acl[],
    write: (part: readonly Acl[]) => ReturnType<typeof createAcls>,
  ): Promise<readonly Acl[]> {
    const refused: Acl[] = [];
    for (const part of chunks(acls, aclsPerRequest)) {
      this.#context.state.lease.check();
      const outcomes = await write(part);
      for (const [index, acl] of part.entries()) {
        const problem = outcomes[index] ?? null;
        if (problem === null) {
          this.#refused.succeeded(aclKey(acl));
          continue;
        }
        refused.push(acl);
        const message = `${describeAcl(acl)}: ${problem.message}`;
        this.#refused.failed(aclKey(acl), { code: problem.code, message });
      }
    }
    return refused;
  }

  #tell(event: string, text: string, count: number): void {
    const link = this.#link.name;
    this.#context.events.info(event, `Link '${link}': ${text}`, { link, count });
  }
}

function isSame(before: readonly Acl[] = [], now: AclMap): boolean {
  const keys = aclMap(before);
  return keys.size === now.size && [...now.keys()].every((key) => keys.has(key));
}

function sorted(acls: AclMap): readonly Acl[] {
  return [...acls].sort(([left], [right]) => (left < right ? -1 : 1)).map(([, acl]) => acl);
}

function nameOf(table: Readonly<Record<string, number>>, code: number): string {
  return Object.keys(table).find((name) => table[name] === code) ?? String(code);
}

export function describeAcl(acl: Acl): string {
  const permission = nameOf(permissionTypes, acl.permissionType);
  const operation = nameOf(operations, acl.operation);
  const resource = nameOf(resourceTypes, acl.resourceType);
  const pattern = nameOf(patternTypes, acl.patternType);
  const from = acl.host === '*' ? '' : ` from ${acl.host}`;
  return (
    `${permission} ${acl.principal} ${operation} on ${resource} ` +
    `'${acl.resourceName}' (${pattern})${from}`
  );
}

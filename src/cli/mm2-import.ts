// A MirrorMaker 2 file as settings of a link: topics and groups with their exclusions, prefix,
// period of offsets, the source's address. Pure. Refuses to know how links are made. Invariant: a
// pattern that names and prefixes cannot express is refused by name, never widened; what is left
// out or is narrower than the regular expression is a note for the operator.

export interface Mm2Import {
  readonly flow: string;
  readonly settings: ReadonlyMap<string, string>;
  /** What differs from MirrorMaker 2, one sentence each. */
  readonly notes: readonly string[];
}

/** What is wrong with the file, in one line. */
export class Mm2Error extends Error {}

interface Pattern {
  readonly name: string;
  readonly patternType: 'LITERAL' | 'PREFIXED';
}

type Properties = ReadonlyMap<string, string>;

const flowKey = /^([A-Za-z0-9_-]+->[A-Za-z0-9_-]+)\.(.+)$/;

/** MirrorMaker 2's own defaults, as far as prefixes can say them. */
const defaults: Readonly<Record<string, string>> = {
  topics: '.*',
  'topics.exclude': '__.*',
  groups: '.*',
  'groups.exclude': 'console-consumer-.*, connect-.*, __.*',
};

const oldNames: Readonly<Record<string, string>> = {
  'topics.exclude': 'topics.blacklist',
  'groups.exclude': 'groups.blacklist',
};

/** The one flow of the file, or the one that was asked for. @throws Mm2Error */
function chooseFlow(properties: Properties, asked: string | undefined): string {
  const flows = new Set<string>();
  for (const key of properties.keys()) {
    const flow = flowKey.exec(key)?.[1];
    if (flow !== undefined) flows.add(flow);
  }
  const enabled = [...flows].filter((flow) => properties.get(`${flow}.enabled`) === 'true');
  if (asked !== undefined) {
    if (flows.has(asked)) return asked;
    throw new Mm2Error(`there is no flow ${asked}; there are: ${[...flows].join(', ') || 'none'}`);
  }
  const [only, ...others] = enabled;
  if (only !== undefined && others.length === 0) return only;
  const found = enabled.length === 0 ? 'no flow is enabled' : `enabled are ${enabled.join(', ')}`;
  throw new Mm2Error(`${found}: say which one with --mm2-flow 'A->B'`);
}

function metaAt(text: string): number {
  return text.search(/[\\^$*+?()[\]{}|]/);
}

/** Alternatives outside of brackets: `a|b`. */
function alternatives(regex: string): readonly string[] {
  return /[()[\]{}]/.test(regex) ? [regex] : regex.split('|');
}

/** One regular expression as a name or a prefix; null when it is neither. */
export function patternOf(regex: string): Pattern | null {
  let text = regex.replace(/^\^/, '').replace(/(?<!\\)\$$/, '');
  const isPrefix = /(?<!\\)\.\*$/.test(text);
  if (isPrefix) text = text.slice(0, -2);
  if (text === '') return isPrefix ? { name: '*', patternType: 'LITERAL' } : null;
  const name = text.replaceAll(/\\([.\-_])/g, '$1').replaceAll(/\[([.\-_])\]/g, '$1');
  if (metaAt(name) >= 0) return null;
  return { name, patternType: isPrefix ? 'PREFIXED' : 'LITERAL' };
}

/** A dot that stands for any character becomes a dot. */
function isNarrower(regex: string): boolean {
  const text = regex.replace(/(?<!\\)\.\*\$?$/, '');
  return /(?<!\\)(?<!\[)\./.test(text);
}

interface Reader {
  readonly properties: Properties;
  readonly flow: string;
  readonly notes: string[];
}

function settingOf({ properties, flow }: Reader, key: string): string | undefined {
  const names = [key, oldNames[key]].filter((name) => name !== undefined);
  for (const name of names) {
    const value = properties.get(`${flow}.${name}`) ?? properties.get(name);
    if (value !== undefined) return value;
  }
  return undefined;
}

function patterns(reader: Reader, key: string): readonly Pattern[] {
  const given = settingOf(reader, key);
  const regexes = (given ?? defaults[key] ?? '')
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')
    .flatMap(alternatives);
  return regexes.map((regex) => {
    const pattern = patternOf(regex);
    if (pattern === null) {
      const what = 'is neither a name nor a prefix (prefix.*): write filters by hand instead';
      throw new Mm2Error(`${key}: the pattern '${regex}' ${what}`);
    }
    if (isNarrower(regex)) {
      reader.notes.push(`${key}: the dot in '${regex}' is taken for a dot, not for any character`);
    }
    return pattern;
  });
}

function filters(reader: Reader, kind: 'topics' | 'groups'): string {
  const entries = [
    ...patterns(reader, kind).map((pattern) => ({ ...pattern, filterType: 'INCLUDE' })),
    ...patterns(reader, `${kind}.exclude`).map((pattern) => ({
      ...pattern,
      filterType: 'EXCLUDE',
    })),
  ];
  return JSON.stringify({ [kind === 'topics' ? 'topicFilters' : 'groupFilters']: entries });
}

function prefixOf(reader: Reader, source: string): string {
  const policy = settingOf(reader, 'replication.policy.class') ?? 'DefaultReplicationPolicy';
  if (policy.endsWith('IdentityReplicationPolicy')) return '';
  if (policy.endsWith('DefaultReplicationPolicy')) {
    return `${source}${settingOf(reader, 'replication.policy.separator') ?? '.'}`;
  }
  throw new Mm2Error(`replication.policy.class: ${policy} is not known here`);
}

/** @throws Mm2Error */
export function importMm2(properties: Properties, askedFlow: string | undefined): Mm2Import {
  const flow = chooseFlow(properties, askedFlow);
  const [source = ''] = flow.split('->');
  const reader: Reader = { properties, flow, notes: [] };
  const settings = new Map<string, string>();
  const servers = properties.get(`${source}.bootstrap.servers`);
  if (servers !== undefined) settings.set('bootstrap.servers', servers);
  const prefix = prefixOf(reader, source);
  if (prefix !== '') settings.set('cluster.link.prefix', prefix);
  settings.set('auto.create.mirror.topics.enable', 'true');
  settings.set('auto.create.mirror.topics.filters', filters(reader, 'topics'));
  if (settingOf(reader, 'topics.exclude') === undefined) {
    const left = "topics whose names end in '.replica', '.internal' or '-internal'";
    reader.notes.push(`topics.exclude: MirrorMaker 2 also leaves out ${left}`);
  }
  if (settingOf(reader, 'sync.group.offsets.enabled') === 'true') {
    settings.set('consumer.offset.sync.enable', 'true');
    settings.set('consumer.offset.group.filters', filters(reader, 'groups'));
  } else reader.notes.push('sync.group.offsets.enabled is not true: offsets of groups stay off');
  const factor = settingOf(reader, 'replication.factor');
  if (factor !== undefined) settings.set('mirror.topic.replication.factor', factor);
  if (settingOf(reader, 'sync.topic.acls.enabled') !== 'false') {
    reader.notes.push('ACLs are not taken over: set acl.sync.enable and acl.filters');
  }
  const excluded = settingOf(reader, 'config.properties.exclude');
  if (excluded !== undefined) {
    reader.notes.push('config.properties.exclude is not taken over: see topic.config.sync.include');
  }
  return { flow, settings, notes: reader.notes };
}

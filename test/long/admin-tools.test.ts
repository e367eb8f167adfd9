// Kafka's own tools through the proxy against the same tools straight at the brokers, on an
// ordinary, a mirrored and a promoted topic. Each has a twin: an ordinary topic of the destination
// with the same records at the same offsets, on which the tool is run directly. What is printed has
// to be the same once names, addresses and the link node's id are put aside.
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type JavaToolName, JavaTools } from '../helpers/java-tools.ts';
import { type LinkedStage, startStage } from '../helpers/linked-stage.ts';
import { stopMirroring } from '../helpers/mirror-commands.ts';
import { values, write } from '../helpers/raw-writes.ts';
import { createTopic } from '../helpers/topic-admin.ts';
import { until } from '../helpers/wait.ts';

type Kind = 'ordinary' | 'mirrored' | 'promoted';
const kinds: readonly Kind[] = ['ordinary', 'mirrored', 'promoted'];
const copied = 10;
const written = 5;

/** One side of a comparison: where the tool goes, and its own topic and group there. */
interface Side {
  readonly bootstrap: string;
  readonly topic: string;
  readonly group: string;
}

let stage: LinkedStage;
let tools: JavaTools;
let directory: string;
/** The same on both sides, for all forms that ask by time. */
const copiedMs = BigInt(Date.now() - 60_000);
const writtenMs = copiedMs + 30_000n;
const between = new Date(Number(copiedMs) + 10_000).toISOString();

const direct = (kind: Kind): Side => ({
  bootstrap: stage.destination.bootstrap.split(',')[0] ?? '',
  topic: `twin-${kind}`,
  group: `direct-${kind}`,
});
const proxied = (kind: Kind): Side => ({
  bootstrap: stage.causeway.bootstrap,
  topic: kind,
  group: `proxied-${kind}`,
});

before(async () => {
  directory = await mkdtemp(path.join(os.tmpdir(), 'causeway-tools-'));
  const settings = {
    'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
    'super.users': 'User:ANONYMOUS',
    'share.coordinator.state.topic.replication.factor': '1',
    'share.coordinator.state.topic.min.isr': '1',
  };
  stage = await startStage({ destination: { advertise: 'reachable', brokers: 2, settings } });
  tools = await JavaTools.start();
  const { atSource, atDestination, atProxy, causeway } = stage;
  const replicated = { replication: 2 };
  for (const kind of ['mirrored', 'promoted']) {
    await createTopic(atSource, kind);
    await write(atSource, kind, 0, values('copied', copied), { timestamp: copiedMs });
    await stage.mirror(kind);
    await stage.mirrored(kind);
  }
  await createTopic(atProxy, 'ordinary');
  await write(atProxy, 'ordinary', 0, values('copied', copied), { timestamp: copiedMs });
  for (const kind of kinds) {
    await createTopic(atDestination, direct(kind).topic);
    await write(atDestination, direct(kind).topic, 0, values('copied', copied), {
      timestamp: copiedMs,
    });
  }
  await stopMirroring(causeway, 'promote', 'promoted');
  for (const kind of ['ordinary', 'promoted'] as const) {
    await write(atProxy, kind, 0, values('written', written), { timestamp: writtenMs });
    await write(atDestination, direct(kind).topic, 0, values('written', written), {
      timestamp: writtenMs,
    });
  }
  await createTopic(atDestination, 'elsewhere', replicated);
});

after(async () => {
  await tools?.stop();
  await stage?.stop();
  await rm(directory, { recursive: true, force: true });
});

/** What a tool says, its failure too, without what has to differ. */
async function said(side: Side, name: JavaToolName, args: readonly string[], stdin = '') {
  let text: string;
  try {
    text = (await tools.run(side, name, args, stdin)).stdout;
  } catch (error) {
    text = `FAILED ${error instanceof Error ? error.message : String(error)}`;
  }
  return normal(text, side);
}

function normal(text: string, { topic, group }: Side): string {
  return (
    text
      .split('\n')
      .filter((line) => !/^\[\d{4}-|^\s+at |^OpenJDK/.test(line))
      .join('\n')
      .replaceAll(new RegExp(`\\b${group}\\b`, 'g'), 'GROUP')
      .replaceAll(new RegExp(`(?<![\\w-])${topic}(?![\\w-])`, 'g'), 'TOPIC')
      .replaceAll(new RegExp(`\\b${topic}-0\\b`, 'g'), 'TOPIC-0')
      .replaceAll(/TopicId: \S+/g, 'TopicId: ID')
      .replaceAll(/Leader: \d+/g, 'Leader: N')
      // A mirror's configs are explicit.
      .replaceAll(/Configs: \S+/g, 'Configs: C')
      .replaceAll(/(Replicas|Isr): [\d,]+/g, '$1: N')
      .replaceAll(/127\.0\.0\.1:\d+/g, 'ADDRESS')
      .replaceAll(/(brokers [\d,]+),1000000/g, '$1')
      .replaceAll(/[ \t]+/g, ' ')
      .trim()
  );
}

type ArgsOf = (side: Side) => readonly string[] | Promise<readonly string[]>;

/** Runs a tool on both sides and compares. */
async function same(kind: Kind, name: JavaToolName, argsOf: ArgsOf): Promise<string> {
  const [here, there] = [proxied(kind), direct(kind)];
  const actual = await said(here, name, await argsOf(here));
  const expected = await said(there, name, await argsOf(there));
  assert.equal(actual, expected, `${name} ${(await argsOf(here)).join(' ')}`);
  return actual;
}

async function file(name: string, text: string): Promise<string> {
  const where = path.join(directory, name);
  await writeFile(where, text);
  return where;
}

const resets: readonly (readonly string[])[] = [
  ['--to-offset', '7'],
  ['--shift-by', '-3'],
  ['--shift-by', '100'],
  ['--to-latest'],
  ['--shift-by', '-1'],
  ['--to-current'],
  ['--to-datetime', '2000-01-01T00:00:00.000'],
  ['--to-datetime', '2100-01-01T00:00:00.000'],
  ['--by-duration', 'P3650D'],
  ['--by-duration', 'PT0S'],
  ['--to-earliest'],
];

for (const kind of kinds) {
  describe(`${kind} topic`, () => {
    test('topics, configs, offsets', async () => {
      await same(kind, 'kafka-topics', ({ topic }) => ['--describe', '--topic', topic]);
      await same(kind, 'kafka-topics', () => ['--describe', '--under-replicated-partitions']);
      await same(kind, 'kafka-topics', () => ['--describe', '--unavailable-partitions']);
      const entity = (topic: string) => ['--entity-type', 'topics', '--entity-name', topic];
      for (const change of [
        ['--add-config', 'retention.ms=86400000,flush.ms=1000'],
        ['--delete-config', 'flush.ms'],
      ]) {
        await same(kind, 'kafka-configs', ({ topic }) => ['--alter', ...entity(topic), ...change]);
      }
      const retention = async (side: Side): Promise<string | undefined> => {
        const all = await said(side, 'kafka-configs', ['--describe', ...entity(side.topic)]);
        return all.split('\n').find((line) => line.trimStart().startsWith('retention.ms'));
      };
      assert.equal(await retention(proxied(kind)), await retention(direct(kind)));
      assert.match((await retention(proxied(kind))) ?? '', /86400000/);
      for (const time of ['-1', '-2', '-3', '0', String(Date.parse('2100-01-01'))]) {
        await same(kind, 'kafka-get-offsets', ({ topic }) => ['--topic', topic, '--time', time]);
      }
    });

    test('consumer groups: every form of --reset-offsets, describe, delete', async () => {
      const base = ({ group, topic }: Side) => ['--group', group, '--topic', topic];
      const forms = kind === 'mirrored' ? resets : [...resets, ['--to-datetime', between]];
      for (const form of forms) {
        for (const how of ['--dry-run', '--execute']) {
          const reset = ['--reset-offsets', ...form, how];
          await same(kind, 'kafka-consumer-groups', (side) => [...base(side), ...reset]);
        }
        const described = await same(kind, 'kafka-consumer-groups', ({ group }) => [
          ...['--describe', '--group', group],
        ]);
        assert.match(described, /TOPIC 0 \d+/);
      }
      await same(kind, 'kafka-consumer-groups', async (side) => [
        ...['--group', side.group, '--reset-offsets', '--execute', '--from-file'],
        await file(`${side.group}.csv`, `"${side.topic}",0,4\n`),
      ]);
      const exported = await same(kind, 'kafka-consumer-groups', (side) => [
        ...base(side),
        ...['--reset-offsets', '--to-current', '--dry-run', '--export'],
      ]);
      assert.match(exported, /TOPIC,?"?,?0,4|"TOPIC",0,4/);
      for (const what of ['--members', '--state', '--offsets']) {
        await same(kind, 'kafka-consumer-groups', ({ group }) => [
          ...['--describe', '--group', group, what],
        ]);
      }
      await same(kind, 'kafka-consumer-groups', (side) => [...base(side), '--delete-offsets']);
      await same(kind, 'kafka-consumer-groups', ({ group }) => ['--group', group, '--delete']);
    });

    test('transactions, log directories, reassignment, election', async () => {
      const partition = ({ topic }: Side) => ['--topic', topic, '--partition', '0'];
      await same(kind, 'kafka-transactions', (side) => ['describe-producers', ...partition(side)]);
      await same(kind, 'kafka-transactions', (side) => [
        ...['find-hanging', '--broker-id', '1', '--topic', side.topic],
      ]);
      const dirs = await said(proxied(kind), 'kafka-log-dirs', [
        ...['--describe', '--topic-list', kind],
      ]);
      assert.equal(dirs.match(/TOPIC-0/g)?.length, 1, dirs);
      const plan = ({ topic }: Side, replicas: string) =>
        `{"version":1,"partitions":[{"topic":"${topic}","partition":0,"replicas":[${replicas}]}]}`;
      for (const replicas of ['2', '1', '1,2']) {
        const json = async (side: Side) => file(`${side.topic}.json`, plan(side, replicas));
        const asked = async (side: Side) => ['--reassignment-json-file', await json(side)];
        for (const side of [proxied(kind), direct(kind)]) {
          await said(side, 'kafka-reassign-partitions', [...(await asked(side)), '--execute']);
          await until(`${side.topic} at ${replicas}`, async () => {
            const verified = [...(await asked(side)), '--verify'];
            return /is completed/.test(await said(side, 'kafka-reassign-partitions', verified));
          });
        }
        await same(kind, 'kafka-reassign-partitions', async (side) => [
          ...(await asked(side)),
          '--verify',
        ]);
      }
      await same(kind, 'kafka-leader-election', (side) => [
        ...['--election-type', 'preferred', ...partition(side)],
      ]);
    });

    test('performance tools', async () => {
      const produced = await said(proxied(kind), 'kafka-producer-perf-test', [
        ...['--topic', kind, '--num-records', '50', '--record-size', '10', '--throughput', '-1'],
      ]);
      if (kind === 'mirrored') assert.match(produced, /^0 records sent/);
      else assert.match(produced, /50 records sent/);
      const count = kind === 'mirrored' ? copied : copied + written + 50;
      const consumed = await said(proxied(kind), 'kafka-consumer-perf-test', [
        ...['--topic', kind, '--num-records', String(count), '--timeout', '20000'],
        ...['--from-latest', '--group', `perf-${kind}`].slice(1),
      ]);
      assert.match(consumed, new RegExp(`, ${count}, `), consumed);
    });

    test('deleted records and share groups', async () => {
      const offsets = async ({ topic }: Side): Promise<readonly string[]> => {
        const text = `{"version":1,"partitions":[{"topic":"${topic}","partition":0,"offset":12}]}`;
        return ['--offset-json-file', await file(`cut-${topic}.json`, text)];
      };
      if (kind === 'mirrored') {
        const refused = await said(
          proxied(kind),
          'kafka-delete-records',
          await offsets(proxied(kind)),
        );
        assert.match(refused, /PolicyViolation|policy/i);
        return;
      }
      await same(kind, 'kafka-delete-records', offsets);
      await same(kind, 'kafka-get-offsets', ({ topic }) => ['--topic', topic, '--time', '-2']);
      const reset = ({ topic, group }: Side) => [
        ...['--group', `share-${group}`, '--topic', topic, '--reset-offsets', '--execute'],
      ];
      for (const to of ['--to-latest', '--to-earliest']) {
        await said(proxied(kind), 'kafka-share-groups', [...reset(proxied(kind)), to]);
        const described = await said(proxied(kind), 'kafka-share-groups', [
          ...['--describe', '--group', `share-${proxied(kind).group}`, '--offsets'],
        ]);
        assert.match(described, to === '--to-latest' ? /TOPIC 0 65 0/ : /TOPIC 0 12 53/);
      }
    });
  });
}

describe('the cluster', () => {
  test('features, quorum, ACLs, tokens, groups and transactions are told as they are', async () => {
    const cases: readonly (readonly [JavaToolName, readonly string[]])[] = [
      ['kafka-features', ['describe']],
      ['kafka-metadata-quorum', ['describe', '--replication', '--human-readable']],
      ['kafka-delegation-tokens', ['--describe']],
      [
        'kafka-acls',
        ['--add', '--allow-principal', 'User:u', '--operation', 'Read', '--topic', 'a'],
      ],
      ['kafka-acls', ['--list']],
      ['kafka-acls', ['--remove', '--force', '--topic', 'a']],
      ['kafka-acls', ['--list']],
      ['kafka-topics', ['--list']],
      ['kafka-consumer-groups', ['--list', '--state']],
      ['kafka-transactions', ['list']],
      ['kafka-reassign-partitions', ['--list']],
      ['kafka-configs', ['--describe', '--entity-type', 'brokers', '--entity-name', '1', '--all']],
    ];
    // One side after the other: each finds what the other left.
    const run = async (side: Side): Promise<string[]> => {
      const found: string[] = [];
      for (const [name, args] of cases) {
        const printed = await said({ ...side, topic: 'no-topic', group: 'no-group' }, name, args);
        found.push(`${name} ${args.join(' ')}:\n${settled(printed)}`);
      }
      return found;
    };
    assert.deepEqual(await run(proxied('ordinary')), await run(direct('ordinary')));
  });

  test('API versions: every broker by its own id, the link node beside them', async () => {
    const printed = await said(proxied('ordinary'), 'kafka-broker-api-versions', []);
    const ids = [...printed.matchAll(/\(id: (\d+) rack/g)].map(([, id]) => id);
    assert.deepEqual(ids.sort(), ['1', '1000000', '2']);
  });
});

/** Lines in order, without ids of directories and how long ago something was. */
function settled(text: string): string {
  return text
    .split('\n')
    .map((line) =>
      line
        .replaceAll(/\b[\w-]{22}\b/g, 'ID')
        .replaceAll(/\d+ ms ago|\b\d+\s*$/g, 'N')
        .replaceAll(/\b\d{3,}\b/g, 'N'),
    )
    .sort()
    .join('\n');
}

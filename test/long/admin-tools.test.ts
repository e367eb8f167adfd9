// Kafka's own tools through the proxy against the same tools straight at the brokers, on an
// ordinary, a mirrored and a promoted topic. What is printed has to be the same once names,
// addresses and the link node's id are put aside (tool-twins.ts).
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { JavaToolName } from '../helpers/java-tools.ts';
import { newProducer, startTransaction, values, write } from '../helpers/raw-writes.ts';
import { until } from '../helpers/wait.ts';
import {
  type ArgsOf,
  copied,
  kinds,
  type Mask,
  type Side,
  ToolTwins,
  written,
} from './tool-twins.ts';

let twins: ToolTwins;

before(async () => {
  twins = await ToolTwins.start();
});

after(() => twins?.stop());

/** Written by the performance tool. */
const performed = 50;

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

/** Of the share groups' tool. */
const shareResets: readonly (readonly string[])[] = [
  ['--to-latest'],
  ['--to-datetime', '2000-01-01T00:00:00.000'],
  ['--to-datetime', '2100-01-01T00:00:00.000'],
  ['--to-earliest'],
];

/** Offsets, epochs and sequences of a table of producers; who they are and when differs. */
function producersWithoutIds(text: string): string {
  return text
    .split('\n')
    .map((line) => (/^\d/.test(line) ? line.split(' ').toSpliced(4, 1).slice(1).join(' ') : line))
    .map((line) => line.trimEnd())
    .sort()
    .join('\n');
}

const withoutNumbers = (text: string): string =>
  text.replaceAll(/hanging-\S+/g, 'TRANSACTIONAL-ID').replaceAll(/[\d.,]+/g, 'N');
const sorted = (text: string): string => text.split('\n').sort().join('\n');

interface LogDirs {
  readonly brokers: readonly {
    readonly broker: number;
    readonly logDirs: readonly {
      readonly error: string | null;
      readonly partitions: readonly {
        readonly partition: string;
        readonly size: number;
        readonly offsetLag: number;
        readonly isFuture: boolean;
      }[];
    }[];
  }[];
}

/** The replicas of the topic, by broker; the link node has none. */
function replicasIn(text: string): unknown {
  const json = text.split('\n').find((line) => line.startsWith('{'));
  assert.ok(json !== undefined, text);
  const { brokers } = JSON.parse(json) as LogDirs;
  return brokers
    .filter(({ broker }) => broker !== 1_000_000)
    .map(({ broker, logDirs }) => ({
      broker,
      replicas: logDirs.flatMap(({ partitions }) => partitions.filter(isAsked)),
    }))
    .sort((left, right) => left.broker - right.broker);
}

const isAsked = ({ partition }: { partition: string }): boolean => partition === 'TOPIC-0';

for (const kind of kinds) {
  describe(`${kind} topic`, () => {
    const same = (name: JavaToolName, argsOf: ArgsOf, mask?: Mask) =>
      twins.same(kind, name, argsOf, mask);
    const said = (side: Side, name: JavaToolName, args: readonly string[]) =>
      twins.said(side, name, args);

    test('topics, configs, offsets', async () => {
      await same('kafka-topics', ({ topic }) => ['--describe', '--topic', topic]);
      await same('kafka-topics', () => ['--describe', '--under-replicated-partitions']);
      await same('kafka-topics', () => ['--describe', '--unavailable-partitions']);
      const entity = (topic: string) => ['--entity-type', 'topics', '--entity-name', topic];
      for (const change of [
        ['--add-config', 'retention.ms=86400000,flush.ms=1000'],
        ['--delete-config', 'flush.ms'],
      ]) {
        await same('kafka-configs', ({ topic }) => ['--alter', ...entity(topic), ...change]);
      }
      const retention = async (side: Side): Promise<string | undefined> => {
        const all = await said(side, 'kafka-configs', ['--describe', ...entity(side.topic)]);
        return all.split('\n').find((line) => line.trimStart().startsWith('retention.ms'));
      };
      assert.equal(await retention(twins.proxied(kind)), await retention(twins.direct(kind)));
      assert.match((await retention(twins.proxied(kind))) ?? '', /86400000/);
      const dates = ['0', String(Date.parse('2100-01-01'))];
      for (const time of ['-1', '-2', '-3', '-4', '-5', '-6', 'earliest', 'latest', ...dates]) {
        await same('kafka-get-offsets', ({ topic }) => ['--topic', topic, '--time', time]);
      }
      await same('kafka-get-offsets', ({ topic }) => ['--topic-partitions', `${topic}:0-1`]);
    });

    test('consumer groups: every form of --reset-offsets, describe, delete', async () => {
      const tool = 'kafka-consumer-groups';
      const base = ({ group, topic }: Side) => ['--group', group, '--topic', topic];
      const between = new Date(Number(twins.copiedMs) + 10_000).toISOString();
      const forms = kind === 'mirrored' ? resets : [...resets, ['--to-datetime', between]];
      for (const form of forms) {
        for (const how of ['--dry-run', '--execute']) {
          const reset = ['--reset-offsets', ...form, how];
          await same(tool, (side) => [...base(side), ...reset]);
        }
        const described = await same(tool, ({ group }) => ['--describe', '--group', group]);
        assert.match(described, /TOPIC 0 \d+/);
      }
      await same(tool, async (side) => [
        ...['--group', side.group, '--reset-offsets', '--execute', '--from-file'],
        await twins.file(`${side.group}.csv`, `"${side.topic}",0,4\n`),
      ]);
      const exported = await same(tool, (side) => [
        ...base(side),
        ...['--reset-offsets', '--to-current', '--dry-run', '--export'],
      ]);
      assert.match(exported, /TOPIC,?"?,?0,4|"TOPIC",0,4/);
      for (const what of ['--members', '--state', '--offsets']) {
        await same(tool, ({ group }) => ['--describe', '--group', group, what]);
      }
      await same(tool, (side) => [...base(side), '--delete-offsets']);
      await same(tool, ({ group }) => ['--group', group, '--delete']);
    });

    test('consumer groups: --reset-offsets of partitions, all topics and all groups', async () => {
      const tool = 'kafka-consumer-groups';
      const reset = ['--reset-offsets', '--to-offset', '6'];
      await same(tool, ({ group, topic }) => [
        ...['--group', group, '--topic', `${topic}:0`, ...reset, '--execute'],
      ]);
      const earliest = ['--reset-offsets', '--to-earliest', '--dry-run'];
      for (const scope of [['--all-topics'], ['--all-topics', '--export']]) {
        await same(tool, ({ group }) => ['--group', group, ...scope, ...earliest]);
      }
      const bySide = (text: string): string =>
        sorted(text.replaceAll(/\b(?:direct|proxied)-\w+\b/g, 'GROUP'));
      const everywhere = await same(
        tool,
        ({ topic }) => ['--all-groups', '--topic', topic, ...earliest],
        bySide,
      );
      assert.match(everywhere, /GROUP TOPIC 0 0/);
      // Straight at a broker groups of a mirror are shown with the end of its shell.
      await same(
        tool,
        () => ['--describe', '--all-groups'],
        (text) =>
          text
            .split('\n')
            .filter((line) => line.startsWith('GROUP TOPIC 0'))
            .join('\n'),
      );
      await same(tool, ({ group }) => ['--group', group, '--delete']);
    });

    test('log directories, reassignment, election', async () => {
      const partition = ({ topic }: Side) => ['--topic', topic, '--partition', '0'];
      const dirs = async (side: Side): Promise<unknown> =>
        replicasIn(await said(side, 'kafka-log-dirs', ['--describe', '--topic-list', side.topic]));
      const [here, there] = [await dirs(twins.proxied(kind)), await dirs(twins.direct(kind))];
      // A mirror's records are in our log, of a promoted topic the first of them.
      const placed = (replicas: unknown): unknown =>
        JSON.parse(JSON.stringify(replicas, (key, value) => (key === 'size' ? 0 : value)));
      if (kind === 'ordinary') assert.deepEqual(atAnyBroker(here), atAnyBroker(there));
      else assert.deepEqual(atAnyBroker(placed(here)), atAnyBroker(placed(there)));
      await reassign(kind);
      await same('kafka-leader-election', (side) => [
        ...['--election-type', 'preferred', ...partition(side)],
      ]);
      await same('kafka-leader-election', async (side) => [
        ...['--election-type', 'unclean', '--path-to-json-file'],
        await twins.file(
          `elect-${side.topic}.json`,
          JSON.stringify({ partitions: [{ topic: side.topic, partition: 0 }] }),
        ),
      ]);
      // Whoever asks first is the one that moves leaders; after that there is nothing to be done.
      const everywhere = ['--election-type', 'preferred', '--all-topic-partitions'];
      const elected = await said(twins.proxied(kind), 'kafka-leader-election', everywhere);
      assert.match(elected, /^$|^Successfully completed/);
      await same('kafka-leader-election', () => everywhere);
    });

    test('performance tools', async () => {
      const produced = await said(twins.proxied(kind), 'kafka-producer-perf-test', perf(kind));
      if (kind === 'mirrored') assert.match(produced, /^0 records sent/);
      else {
        const { topic } = twins.direct(kind);
        const directly = await said(twins.direct(kind), 'kafka-producer-perf-test', perf(topic));
        assert.equal(withoutNumbers(produced), withoutNumbers(directly));
        assert.match(produced, /50 records sent/);
      }
      const count = kind === 'mirrored' ? copied : copied + written + performed;
      const consumed = await same(
        'kafka-consumer-perf-test',
        ({ topic, group }) => [
          ...['--topic', topic, '--num-records', String(count), '--timeout', '20000'],
          ...['--group', `perf-${group}`, '--hide-header'],
        ],
        // Time, time, megabytes, megabytes in a second, records, and so on.
        (text) =>
          text
            .split('\n')
            .map((line) => line.split(', ')[4] ?? '')
            .join('\n'),
      );
      assert.match(consumed, new RegExp(`\\b${count}\\b`));
      if (kind === 'mirrored') return;
      const shared = await same(
        'kafka-share-consumer-perf-test',
        ({ topic, group }) => [
          ...['--topic', topic, '--num-records', '1', '--timeout', '5000'],
          ...['--group', `share-perf-${group}`, '--hide-header'],
        ],
        withoutNumbers,
      );
      assert.match(shared, /N/);
    });

    test('share groups start behind what was mirrored; a mirror refuses them', async () => {
      const tool = 'kafka-share-groups';
      const proxied = twins.proxied(kind);
      const scope = ['--group', `early-${proxied.group}`, '--topic', proxied.topic];
      const reset = ['--reset-offsets', '--to-earliest', '--execute'];
      const made = await said(proxied, tool, [...scope, ...reset]);
      if (kind === 'mirrored') {
        assert.match(made, /FAILED[\s\S]*mirror/i);
        return;
      }
      const described = await said(proxied, tool, ['--describe', ...scope.slice(0, 2)]);
      const [start, all] = [kind === 'promoted' ? copied : 0, copied + written + performed];
      assert.match(described, new RegExp(`TOPIC 0 ${start} ${all - start}`), described);
      assert.doesNotMatch(await said(proxied, tool, ['--delete', ...scope.slice(0, 2)]), /FAILED/);
    });

    test('deleted records and share groups', async () => {
      const tool = 'kafka-share-groups';
      const below =
        (offset: number) =>
        async ({ topic }: Side) => {
          const partitions = [{ topic, partition: 0, offset }];
          const text = JSON.stringify({ version: 1, partitions });
          return ['--offset-json-file', await twins.file(`cut-${topic}.json`, text)];
        };
      if (kind === 'mirrored') {
        const side = twins.proxied(kind);
        const refused = await said(side, 'kafka-delete-records', await below(4)(side));
        assert.match(refused, /PolicyViolation|policy/i);
        return;
      }
      // In what was copied, at a start that is there already, in what was written; too far.
      for (const offset of [4, 3, 12, 1000]) {
        await same('kafka-delete-records', below(offset));
        await same('kafka-get-offsets', ({ topic }) => ['--topic', topic, '--time', '-2']);
      }
      const group = (side: Side) => ['--group', `share-${side.group}`];
      for (const form of shareResets) {
        for (const how of ['--dry-run', '--execute']) {
          await same(tool, (side) => [
            ...[...group(side), '--topic', side.topic, '--reset-offsets', ...form, how],
          ]);
        }
        const described = await same(tool, (side) => ['--describe', ...group(side), '--offsets']);
        if (form[0] === '--to-latest') assert.match(described, /TOPIC 0 65 0/);
        if (form[0] === '--to-earliest') assert.match(described, /TOPIC 0 12 53/);
      }
      for (const what of ['--members', '--state']) {
        await same(tool, (side) => ['--describe', ...group(side), what], withoutNumbers);
      }
      await same(tool, (side) => [...group(side), '--topic', side.topic, '--delete-offsets']);
      await same(tool, (side) => [...group(side), '--delete']);
    });

    test('transactions: described, aborted while they hang, ended by force', async () => {
      const tool = 'kafka-transactions';
      const partition = ({ topic }: Side) => ['--topic', topic, '--partition', '0'];
      const described = () =>
        same(tool, (side) => ['describe-producers', ...partition(side)], producersWithoutIds);
      await described();
      await same(tool, ({ topic }) => ['find-hanging', '--broker-id', '1', '--topic', topic]);
      if (kind === 'mirrored') {
        await same(tool, (side) => ['abort', ...partition(side), '--start-offset', '3']);
        return;
      }
      const began = new Map<string, bigint>();
      for (const side of [twins.proxied(kind), twins.direct(kind)]) {
        const cluster = twins.clusterOf(side);
        const producer = await newProducer(cluster, `hanging-${side.topic}`);
        await startTransaction(cluster, producer, side.topic, [0]);
        const offset = await write(cluster, side.topic, 0, values('hanging', 1), { producer });
        began.set(side.topic, offset);
      }
      assert.match(await described(), new RegExp(`\\b${began.get(kind)}\\b`));
      const id = ({ topic }: Side) => `hanging-${topic}`;
      await same(tool, (side) => ['describe', '--transactional-id', id(side)], withoutNumbers);
      const aborted = await same(tool, (side) => [
        ...['abort', ...partition(side), '--start-offset', String(began.get(side.topic))],
      ]);
      assert.doesNotMatch(aborted, /FAILED/);
      const after = await described();
      assert.doesNotMatch(after, new RegExp(`\\b${began.get(kind)}\\b`));
      const force = ['forceTerminateTransaction', '--transactionalId'];
      await same(tool, (side) => [...force, id(side)]);
      const state = (side: Side) => ['describe', '--transactional-id', id(side)];
      for (const side of [twins.proxied(kind), twins.direct(kind)]) {
        await until(`the end of ${id(side)}`, async () =>
          /CompleteAbort|Empty/.test(await said(side, tool, state(side))),
        );
      }
      await same(tool, state, withoutNumbers);
      await same('kafka-get-offsets', ({ topic }) => ['--topic', topic, '--time', '-1']);
    });
  });
}

const perf = (topic: string): readonly string[] => [
  ...['--topic', topic, '--num-records', String(performed), '--record-size', '10'],
  ...['--throughput', '-1'],
];

/** The twins need not lie on the same broker. */
function atAnyBroker(replicas: unknown): unknown {
  const all = replicas as readonly { readonly replicas: readonly unknown[] }[];
  return all.map((one) => JSON.stringify(one.replicas)).sort();
}

/** Moves the topic and its twin about, as plans and progress are told. */
async function reassign(kind: (typeof kinds)[number]): Promise<void> {
  const tool = 'kafka-reassign-partitions';
  const plan = ({ topic }: Side, replicas: string) =>
    `{"version":1,"partitions":[{"topic":"${topic}","partition":0,"replicas":[${replicas}]}]}`;
  for (const replicas of ['2', '1', '1,2']) {
    const asked = async (side: Side) => [
      '--reassignment-json-file',
      await twins.file(`${side.topic}.json`, plan(side, replicas)),
    ];
    for (const side of [twins.proxied(kind), twins.direct(kind)]) {
      const execute = [...(await asked(side)), '--execute', '--throttle', '100000000'];
      assert.match(await twins.said(side, tool, execute), /Successfully started/);
      const verify = [...(await asked(side)), '--verify', '--preserve-throttles'];
      await until(`${side.topic} at ${replicas}`, async () =>
        /is completed/.test(await twins.said(side, tool, verify)),
      );
    }
    // Takes the throttles away from all nodes, the link node among them.
    const verified = await twins.same(kind, tool, async (side) => [
      ...[...(await asked(side)), '--verify'],
    ]);
    assert.match(verified, /Clearing broker-level throttles/);
    await twins.same(kind, tool, async (side) => [...(await asked(side)), '--cancel']);
  }
  const generated = await twins.same(
    kind,
    tool,
    async (side) => [
      ...['--generate', '--broker-list', '1,2', '--topics-to-move-json-file'],
      await twins.file(
        `move-${side.topic}.json`,
        `{"version":1,"topics":[{"topic":"${side.topic}"}]}`,
      ),
    ],
    (text) => text.replace(/("replicas":\[)[12],[12]/g, '$1N'),
  );
  assert.match(generated, /Proposed partition reassignment/);
}

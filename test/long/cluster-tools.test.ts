// Kafka's own tools that ask about the cluster as a whole, through the proxy and straight at the
// brokers: what they print is the same but for addresses, the link node and what is hidden.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { ApiKey } from '../../protocol/index.ts';
import { apiTable } from '../../src/gateway/api-table.ts';
import type { JavaToolName } from '../helpers/java-tools.ts';
import { type Side, settled, ToolTwins } from './tool-twins.ts';

let twins: ToolTwins;

before(async () => {
  twins = await ToolTwins.start();
});

after(() => twins?.stop());

/**
 * Brokers' configs with addresses are shown without them (R2), as are controllers; what our own
 * transaction is at, is at another moment something else.
 */
const quorum = String.raw`controller\.quorum\.(?:voters|bootstrap\.servers)`;
const addresses = String.raw`(?:advertised\.listeners|listeners|${quorum})`;
const expectedToDiffer = new RegExp(`^ ${addresses}=|^__causeway_state `);

describe('the cluster', () => {
  const here = (): Side => ({ ...twins.proxied('ordinary'), topic: 'no-topic', group: 'no-group' });
  const there = (): Side => ({ ...here(), bootstrap: twins.direct('ordinary').bootstrap });

  /** One side after the other: each finds what the other left. */
  async function both(
    cases: readonly (readonly [JavaToolName, readonly string[]])[],
  ): Promise<readonly string[]> {
    const run = async (side: Side): Promise<string[]> => {
      const found: string[] = [];
      for (const [name, args] of cases) {
        const printed = settled(await twins.said(side, name, args));
        const lines = printed.split('\n').filter((line) => !expectedToDiffer.test(line));
        const told = lines.map((line) => line.replace(/, "endpoints": \["CONTROLLER:[^\]]*\]/, ''));
        found.push(`${name} ${args.join(' ')}:\n${told.join('\n')}`);
      }
      return found;
    };
    const found = await run(here());
    assert.deepEqual(found, await run(there()));
    return found;
  }

  test('features, ACLs, tokens, groups and transactions are told as they are', async () => {
    const rights = ['--allow-principal', 'User:u', '--operation', 'Read', '--topic', 'a'];
    await both([
      ['kafka-features', ['describe']],
      ['kafka-features', ['version-mapping']],
      ['kafka-features', ['upgrade', '--release-version', '4.3', '--dry-run']],
      ['kafka-features', ['downgrade', '--feature', 'transaction.version=0', '--dry-run']],
      ['kafka-delegation-tokens', ['--describe']],
      ['kafka-acls', ['--add', ...rights]],
      ['kafka-acls', ['--list']],
      ['kafka-acls', ['--remove', '--force', '--topic', 'a']],
      ['kafka-acls', ['--list']],
      ['kafka-topics', ['--list']],
      ['kafka-topics', ['--list', '--exclude-internal']],
      ['kafka-consumer-groups', ['--list', '--state']],
      ['kafka-consumer-groups', ['--list', '--type']],
      ['kafka-share-groups', ['--list', '--state']],
      ['kafka-streams-groups', ['--list']],
      ['kafka-groups', ['--list']],
      ['kafka-transactions', ['list']],
      ['kafka-reassign-partitions', ['--list']],
      ['kafka-configs', ['--describe', '--entity-type', 'brokers', '--entity-name', '1', '--all']],
      ['kafka-client-metrics', ['--alter', '--name', 'm', '--metrics', 'a', '--interval', '60000']],
      ['kafka-client-metrics', ['--describe']],
      ['kafka-client-metrics', ['--delete', '--name', 'm']],
      ['kafka-client-metrics', ['--list']],
      ['kafka-cluster', ['cluster-id']],
    ]);
  });

  test('the quorum: its state, and a controller that is not there', async () => {
    const controller = ['--controller-id', '77', '--controller-directory-id'];
    const [replication = '', status = '', removed = ''] = await both([
      ['kafka-metadata-quorum', ['describe', '--replication', '--human-readable']],
      ['kafka-metadata-quorum', ['describe', '--status']],
      ['kafka-metadata-quorum', ['remove-controller', ...controller, 'AAAAAAAAAAAAAAAAAAAAAQ']],
    ]);
    assert.match(replication, /Leader/);
    assert.match(status, /CurrentVoters/);
    assert.doesNotMatch(removed, /does not support/);
  });

  test('nodes: every broker by its own id, the link node beside them', async () => {
    const printed = await twins.said(here(), 'kafka-broker-api-versions', []);
    const ids = [...printed.matchAll(/\(id: (\d+) rack/g)].map(([, id]) => id);
    assert.deepEqual(ids.sort(), ['1', '1000000', '2']);
    const endpoints = async (side: Side): Promise<readonly string[]> => {
      const table = await twins.said(side, 'kafka-cluster', ['list-endpoints']);
      const rows = table.split('\n').filter((line) => !line.startsWith('1000000'));
      return rows.map((row) => row.replace(/ 127\.0\.0\.1 \d+ /, ' ADDRESS ').trim());
    };
    assert.deepEqual(await endpoints(here()), await endpoints(there()));
  });

  test('API versions of a broker are those that it has, but for the hidden ones', async () => {
    const apis = async (side: Side): Promise<ReadonlyMap<number, string>> => {
      const printed = await twins.said(side, 'kafka-broker-api-versions', []);
      const brokers = printed.split(/(?=ADDRESS \(id: )/);
      const first = brokers.find((one) => one.includes('(id: 1 ')) ?? '';
      const lines = [...first.matchAll(/\w+\((\d+)\): ([^,\n]*)/g)];
      const found = lines.map(([, key, range = '']) => [Number(key), range.trim()] as const);
      return new Map(found.filter(([, range]) => range !== 'UNSUPPORTED'));
    };
    const [ours, theirs] = [await apis(here()), await apis(there())];
    assert.ok(ours.size > 50, [...ours].join());
    for (const [key, range] of theirs) {
      // Of SASL handshakes version 0 is refused: what follows it has no headers.
      if (key === ApiKey.SaslHandshake) continue;
      const isHidden = apiTable.get(key)?.handling === 'hidden';
      assert.equal(ours.get(key), isHidden ? undefined : range, `API key ${key}`);
    }
    for (const key of ours.keys()) assert.ok(theirs.has(key), `API key ${key}`);
  });
});

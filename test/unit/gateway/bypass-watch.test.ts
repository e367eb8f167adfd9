// Who comes to the destination past us: addresses as brokers write them, members of groups of every
// protocol, and topics of ours against all others.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createConsumerGroupDescribeResponse } from '../../../protocol/generated/consumer-group-describe-response.ts';
import {
  createConsumerProtocolAssignment,
  encodeConsumerProtocolAssignment,
} from '../../../protocol/generated/consumer-protocol-assignment.ts';
import { createDescribeGroupsResponse } from '../../../protocol/generated/describe-groups-response.ts';
import { createListGroupsResponse } from '../../../protocol/generated/list-groups-response.ts';
import { Writer } from '../../../protocol/index.ts';
import type { Api } from '../../../src/cluster/cluster.ts';
import { ClusterError } from '../../../src/cluster/cluster.ts';
import { BypassWatch } from '../../../src/gateway/bypass-watch.ts';
import { parseAddressRange, UpstreamAddresses } from '../../../src/gateway/upstream-addresses.ts';
import { Events } from '../../../src/observe/events.ts';
import { FakeCluster } from '../link/fakes.ts';
import { FakeDirectory, ordersId, otherId } from './read-fixtures.ts';

test('addresses are compared as numbers, in the way that brokers write them', () => {
  const addresses = new UpstreamAddresses(['10.1.0.0/16', 'fd00::7']);
  addresses.note('192.0.2.9');
  addresses.note(undefined);
  for (const host of ['/10.1.2.3', '/192.0.2.9', 'proxy/10.1.9.9', '/fd00:0:0:0:0:0:0:7']) {
    assert.ok(addresses.has(host), host);
  }
  assert.ok(addresses.has('/127.0.0.1'), 'this machine is always ours');
  for (const host of ['/10.2.0.1', '/fd00:0:0:0:0:0:0:8', '/192.0.2.10', '/', 'name']) {
    assert.equal(addresses.has(host), false, host);
  }
});

test('R18: what is neither an address nor a network is refused by name', () => {
  assert.deepEqual(parseAddressRange('10.0.0.0/8'), {
    address: '10.0.0.0',
    prefix: 8,
    family: 'ipv4',
  });
  for (const text of ['', 'proxy', '10.0.0.0/33', '10.0.0.0/', '10.0.0.1/8/8', '::1/-1']) {
    assert.throws(() => parseAddressRange(text), /is neither an address nor a network/, text);
  }
});

function assignment(...topics: string[]): Buffer {
  const writer = new Writer();
  writer.writeInt16(1);
  const assignedPartitions = topics.map((topic) => ({
    topic,
    partitions: [0],
    unknownTags: undefined,
  }));
  encodeConsumerProtocolAssignment(
    writer,
    createConsumerProtocolAssignment({ assignedPartitions }),
    1,
  );
  return writer.toBuffer();
}

const member = { memberId: 'm', clientId: 'c', groupInstanceId: null, unknownTags: undefined };

/** One classic group with members here and elsewhere, one KIP-848 group on other topics. */
class Grouped extends FakeCluster {
  override async send<Request, Response>(_: unknown, api: Api<Request, Response>) {
    if (this.isDead) throw new ClusterError('UNREACHABLE', 'gone', { maybeSent: false });
    return this.#answer(api.name.replace(/Request$/, '')) as Response;
  }

  #answer(name: string) {
    const listed = { unknownTags: undefined, protocolType: 'consumer', groupState: 'Stable' };
    if (name === 'ListGroups') {
      return createListGroupsResponse({
        groups: [
          { ...listed, groupId: 'readers', groupType: 'classic' },
          { ...listed, groupId: 'others', groupType: 'consumer' },
          { ...listed, groupId: 'gone', groupType: 'classic', groupState: 'Empty' },
        ],
      });
    }
    if (name === 'DescribeGroups') {
      const at = (clientHost: string, memberAssignment: Buffer) => ({
        ...member,
        clientHost,
        memberMetadata: Buffer.alloc(0),
        memberAssignment,
      });
      return createDescribeGroupsResponse({
        groups: [
          {
            errorCode: 0,
            errorMessage: null,
            groupId: 'readers',
            groupState: 'Stable',
            protocolType: 'consumer',
            protocolData: 'range',
            authorizedOperations: 0,
            unknownTags: undefined,
            members: [
              at('/198.51.100.7', assignment('orders', 'plain')),
              at('/198.51.100.8', assignment('plain')),
              at('/127.0.0.1', assignment('orders')),
              at('/198.51.100.9', Buffer.from('no such protocol')),
            ],
          },
        ],
      });
    }
    assert.equal(name, 'ConsumerGroupDescribe');
    return createConsumerGroupDescribeResponse({
      groups: [
        {
          errorCode: 0,
          errorMessage: null,
          groupId: 'others',
          groupState: 'Stable',
          groupEpoch: 1,
          assignmentEpoch: 1,
          assignorName: 'uniform',
          authorizedOperations: 0,
          unknownTags: undefined,
          members: [
            {
              ...member,
              instanceId: null,
              rackId: null,
              memberEpoch: 1,
              clientHost: '/198.51.100.7',
              subscribedTopicNames: ['orders'],
              subscribedTopicRegex: null,
              memberType: 1,
              targetAssignment: { topicPartitions: [], unknownTags: undefined },
              assignment: {
                // Of the same name, but another topic.
                topicPartitions: [
                  {
                    topicId: otherId,
                    topicName: 'orders',
                    partitions: [0],
                    unknownTags: undefined,
                  },
                ],
                unknownTags: undefined,
              },
            },
          ],
        },
      ],
    });
  }
}

test('members that read topics of ours from elsewhere are shown, and told once', async () => {
  const directory = new FakeDirectory();
  const events = new Events();
  const cluster = new Grouped();
  const watch = new BypassWatch({ cluster, directory, events, addresses: new UpstreamAddresses() });
  await watch.look();
  assert.deepEqual(watch.groups, [], 'nothing is ours');
  directory.put({ name: 'orders', topicId: ordersId, mode: 'promoted', log: null });
  await watch.look();
  await watch.look();
  const members = [{ clientId: 'c', host: '198.51.100.7' }];
  assert.deepEqual(watch.groups, [{ group: 'readers', topics: ['orders'], members }]);
  const told = events.since(0).filter(({ event }) => event === 'group_bypasses');
  assert.equal(told.length, 1);
  assert.match(told[0]?.message ?? '', /'readers' reads orders past this proxy/);

  cluster.isDead = true;
  await watch.look();
  assert.equal(watch.groups.length, 1, 'a look that fails leaves what was known');
  assert.ok(events.since(0).some(({ event }) => event === 'bypass_watch_failed'));
});

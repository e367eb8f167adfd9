// Where a mirror came from, as another Causeway reads it from the mirror's configs.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createDescribeConfigsRequest,
  createDescribeConfigsResource,
  describeConfigsRequestCodec,
} from '../../../protocol/generated/describe-configs-request.ts';
import {
  createDescribeConfigsResourceResult,
  createDescribeConfigsResponse,
  createDescribeConfigsResult,
  describeConfigsResponseCodec,
} from '../../../protocol/generated/describe-configs-response.ts';
import { describeConfigsHandler } from '../../../src/gateway/handlers/describe-configs.ts';
import { originsConfig, originsOf } from '../../../src/gateway/mirror-origins.ts';
import { batch, MemoryMirrorLog } from './memory-mirror-log.ts';
import { exchange, FakeSession } from './read-fixtures.ts';

const codecs = { request: describeConfigsRequestCodec, response: describeConfigsResponseCodec };

async function described(topic: string, keys: string[] | null) {
  const session = new FakeSession({ kind: 'bootstrap' });
  const log = new MemoryMirrorLog(0n, batch(0n, 3));
  const sourceClusters = ['first', 'second'];
  const topicId = 'AAAAAAAAAAAAAAAAAAAAAg';
  session.directory.put({ name: 'mirror', topicId, mode: 'mirror', log, sourceClusters });
  const promotedId = 'AAAAAAAAAAAAAAAAAAAAAw';
  const promoted = { name: 'promoted', topicId: promotedId, log, sourceClusters };
  session.directory.put({ ...promoted, mode: 'promoted' });
  session.broker.serve(codecs.request, codecs.response, ({ resources }) =>
    createDescribeConfigsResponse({
      results: resources.map(({ resourceType, resourceName }) =>
        createDescribeConfigsResult({
          resourceType,
          resourceName,
          configs: [createDescribeConfigsResourceResult({ name: 'retention.ms', value: '1' })],
        }),
      ),
    }),
  );
  const resource = { resourceType: 2, resourceName: topic, configurationKeys: keys };
  const request = createDescribeConfigsRequest({
    resources: [createDescribeConfigsResource(resource)],
  });
  const { response } = await exchange(session, describeConfigsHandler, codecs, 4, request);
  return response.results[0]?.configs ?? [];
}

test('a mirror tells the clusters that it came through, to who asks for all or for that', async () => {
  for (const keys of [null, [originsConfig]]) {
    const configs = await described('mirror', keys);
    assert.deepEqual(originsOf(configs), ['first', 'second']);
    const entry = configs.find(({ name }) => name === originsConfig);
    // Java's admin client dies of a source that it does not know, such as -1.
    assert.deepEqual([entry?.readOnly, entry?.configSource], [true, 5]);
  }
});

test('nothing else does', async () => {
  assert.deepEqual(originsOf(await described('mirror', ['retention.ms'])), []);
  assert.deepEqual(originsOf(await described('promoted', null)), []);
  assert.deepEqual(originsOf(await described('ordinary', null)), []);
});

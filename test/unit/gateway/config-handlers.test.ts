// IncrementalAlterConfigs on mirrors: keys that follow the source, and all others.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createAlterableConfig,
  createAlterConfigsResource,
  createIncrementalAlterConfigsRequest,
  incrementalAlterConfigsRequestCodec,
} from '../../../protocol/generated/incremental-alter-configs-request.ts';
import {
  createAlterConfigsResourceResponse,
  createIncrementalAlterConfigsResponse,
  incrementalAlterConfigsResponseCodec,
} from '../../../protocol/generated/incremental-alter-configs-response.ts';
import { createIncrementalAlterConfigsHandler } from '../../../src/gateway/handlers/incremental-alter-configs.ts';
import { OwnTopics } from '../../../src/gateway/own-topics.ts';
import { exchange, FakeSession, promotedAt100, type TopicFixture } from './read-fixtures.ts';

const ownTopics = new OwnTopics('__causeway');
const mirror: TopicFixture = { name: 'orders', mode: 'mirror', log: null };
const promoted: TopicFixture = {
  name: 'orders',
  mode: 'promoted',
  log: null,
  timeline: promotedAt100(),
};

test('configs: what always follows the source is refused on a mirror, and free after promotion', async () => {
  const codecs = {
    request: incrementalAlterConfigsRequestCodec,
    response: incrementalAlterConfigsResponseCodec,
  };
  const cases: readonly [TopicFixture, string, number][] = [
    [mirror, 'cleanup.policy', 44],
    [mirror, 'retention.ms', 0],
    [promoted, 'cleanup.policy', 0],
  ];
  for (const [topic, name, wanted] of cases) {
    const session = new FakeSession({ kind: 'bootstrap' });
    session.directory.put(topic);
    session.broker.serve(codecs.request, codecs.response, ({ resources }) =>
      createIncrementalAlterConfigsResponse({
        responses: resources.map(({ resourceType, resourceName }) =>
          createAlterConfigsResourceResponse({ resourceType, resourceName }),
        ),
      }),
    );
    const configs = [createAlterableConfig({ name, value: 'x' })];
    const resource = createAlterConfigsResource({
      resourceType: 2,
      resourceName: 'orders',
      configs,
    });
    const { response } = await exchange(
      session,
      createIncrementalAlterConfigsHandler(ownTopics),
      codecs,
      1,
      createIncrementalAlterConfigsRequest({ resources: [resource] }),
    );
    const [answer] = response.responses;
    assert.equal(answer?.errorCode, wanted, name);
    if (wanted !== 0) assert.match(answer?.errorMessage ?? '', /its cleanup\.policy follows/);
  }
});

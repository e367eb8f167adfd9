// A shell that the destination does not show wholly is not empty.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createFetchableTopicResponse,
  createFetchResponse,
  createPartitionData,
} from '../../../protocol/generated/fetch-response.ts';
import type { Api } from '../../../src/cluster/cluster.ts';
import { measureShells } from '../../../src/link/mirror/shell-measure.ts';
import { batch, FakeCluster, shellId, topicInfo } from './fakes.ts';

/** A shell of three offsets whose leader gives readers the first one, up to its high watermark. */
class Behind extends FakeCluster {
  readonly #highWatermark: bigint;

  constructor(highWatermark: bigint) {
    super();
    this.#highWatermark = highWatermark;
    this.topics.set('t', topicInfo('t', shellId, [0]));
    this.ends.set('t/0', 3n);
    // The part below was looked at before and held markers only.
    this.starts.set('t/0', 1n);
  }

  override async send<Request, Response>(
    target: unknown,
    api: Api<Request, Response>,
    request: unknown,
  ): Promise<Response> {
    if (api.name !== 'Fetch') return super.send(target, api, request);
    const records = this.#highWatermark > 3n ? batch({ base: 1n, count: 2 }) : null;
    const partitions = [createPartitionData({ records, highWatermark: this.#highWatermark })];
    const responses = [createFetchableTopicResponse({ topic: 't', partitions })];
    return createFetchResponse({ responses }) as Response;
  }
}

test('R3: a shell that cannot be read to its end is not taken for one without records', async () => {
  const shell = { name: 't', topicId: shellId, partitionsCount: 1 };
  const measure = async (highWatermark: bigint) =>
    (await measureShells(new Behind(highWatermark), [shell])).get('t');
  const behind = await measure(1n);
  assert.equal(
    behind?.kind === 'refused' ? behind.error.code : behind?.kind,
    'DESTINATION_REFUSED',
  );
  // All of it is there to be read, and there is nothing: it was cleaned.
  assert.equal((await measure(3n))?.kind, 'measured');
  const written = await measure(4n);
  assert.equal(written?.kind === 'refused' ? written.error.code : written?.kind, 'ILLEGAL_STATE');
});

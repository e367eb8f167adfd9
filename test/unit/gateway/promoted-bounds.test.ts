// Fetch on a promoted topic where its log begins, and where a client's history is another one.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ErrorCode } from '../../../protocol/index.ts';
import { answered } from './fetch-fixtures.ts';
import { fetch, shell, virtualBroker } from './promoted-fixtures.ts';

test('a copy was read on when records after it were deleted, up to a hole', async () => {
  const session = virtualBroker();
  const startTold = async (logStartOffset: bigint) => {
    shell(session, { logStartOffset });
    return answered((await fetch(session, [{ fetchOffset: 115n }])).response).logStartOffset;
  };
  assert.equal(await startTold(11n), 103n);
  const below = answered((await fetch(session, [{ fetchOffset: 60n }])).response);
  assert.deepEqual([below.errorCode, below.logStartOffset], [ErrorCode.OFFSET_OUT_OF_RANGE, 103n]);
  assert.equal(await startTold(8n), 0n, 'as a leader says that has not heard of it');
  const again = answered((await fetch(session, [{ fetchOffset: 60n }])).response);
  assert.equal(again.errorCode, ErrorCode.NONE);
});

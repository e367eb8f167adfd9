// A few tests of franz-go's own suite, as `npm run compat` runs them: through a proxy that presents
// every topic as a promoted mirror, so that groups, share groups and produce go through the splice.
// Each has to pass here, so that no run without the proxy is needed to judge it: one that fails by
// itself fails the test too. Whole suites are held beside such a run by `npm run compat`.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { openProxied, type Side } from '../compat/sides.ts';
import { franzGo } from '../compat/suites/franz-go.ts';
import { SeededRandom } from '../helpers/seeded-random.ts';
import { missingToolchain } from '../helpers/toolchains.ts';

const chosen = ['TestPing', 'TestGroupSimple', 'TestShareGroup'];
const missing = await missingToolchain('go');

describe('tests of franz-go through promoted topics', { skip: missing ?? false }, () => {
  const suite = franzGo();
  let side: Side;

  before(async () => {
    await suite.prepare();
    side = await openProxied('offset-shift', suite.shape, new SeededRandom());
  });

  after(() => side?.close());

  for (const name of chosen) {
    test(name, async () => {
      const before = (await side.seenBytes()) ?? 0;
      const { verdict, output } = await suite.run(name, side.target);
      assert.equal(verdict, 'pass', output.slice(-4000));
      const seenBytes = (await side.seenBytes()) ?? 0;
      assert.ok(seenBytes > before, 'the test never reached the proxy');
    });
  }
});

// Delegation tokens with Kafka's own tool, straight at a broker and through the proxy: made,
// described, logged in with, renewed, expired. What is printed has to be the same once ids, keys
// and dates are put aside.
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { openDirect, openProxied, type Side } from '../compat/sides.ts';
import type { Target } from '../compat/suites/suite.ts';
import { withoutOpenssl } from '../helpers/certificates.ts';
import { type JavaToolName, JavaTools } from '../helpers/java-tools.ts';
import { jaasLine } from '../helpers/secured-clusters.ts';
import { SeededRandom } from '../helpers/seeded-random.ts';
import { until } from '../helpers/wait.ts';

const shape = { settings: { 'delegation.token.secret.key': 'of-all-brokers-Zq9' } };
const skip = await withoutOpenssl();
const tool = 'kafka-delegation-tokens';

interface Step {
  readonly what: string;
  readonly said: string;
}

describe('delegation tokens', { skip }, () => {
  let tools: JavaTools;
  let directory: string;
  const sides = new Map<'direct' | 'proxied', Side>();

  before(async () => {
    directory = await mkdtemp(path.join(os.tmpdir(), 'causeway-tokens-'));
    tools = await JavaTools.start();
    sides.set('direct', await openDirect(shape, { isSecured: true }));
    sides.set('proxied', await openProxied('sasl-tls', shape, new SeededRandom()));
  });

  after(async () => {
    for (const side of sides.values()) await side.close();
    await tools?.stop();
    await rm(directory, { recursive: true, force: true });
  });

  /** How to log in: as the user of the target, or with a token. */
  async function login({ security }: Target, name: string, jaas: string): Promise<string> {
    assert.ok(security !== undefined);
    const file = path.join(directory, name);
    const lines = [
      'security.protocol=SASL_SSL',
      `sasl.mechanism=${security.mechanism}`,
      `sasl.jaas.config=${jaas}`,
      'ssl.truststore.type=PEM',
      `ssl.truststore.location=${security.caFile}`,
      // A login that is refused is refused at once, the tools would try for a minute.
      'request.timeout.ms=10000',
      'default.api.timeout.ms=10000',
    ];
    await writeFile(file, `${lines.join('\n')}\n`);
    return file;
  }

  /** The life of a token on one side. */
  async function life(name: 'direct' | 'proxied'): Promise<readonly Step[]> {
    const side = sides.get(name);
    assert.ok(side?.target.security !== undefined);
    const { target } = side;
    const { mechanism, username, password } = side.target.security;
    const steps: Step[] = [];
    const run = async (
      what: string,
      of: JavaToolName,
      args: readonly string[],
    ): Promise<string> => {
      let text: string;
      try {
        text = (await tools.run(target, of, args)).stdout;
      } catch (error) {
        text = `FAILED ${error instanceof Error ? error.message : String(error)}`;
      }
      steps.push({ what, said: masked(text) });
      return text;
    };
    const user = [
      '--command-config',
      await login(target, `${name}-user`, jaasLine(mechanism, username, password)),
    ];
    const principal = `User:${username}`;
    const made = await run('create', tool, [
      ...user,
      ...['--create', '--max-life-time-period', '-1', '--renewer-principal', 'User:renewer'],
    ]);
    const [, id = '', hmac = ''] = /^([\w-]{22})\s+(\S+=*)\s/m.exec(made) ?? [];
    assert.ok(hmac !== '', made);
    const describing = [...user, '--describe', '--owner-principal', principal];
    /** Brokers learn of tokens a moment after they are made, and when they are gone. */
    const shown = (count: number) =>
      until(`${count} tokens`, async () =>
        (await tools.run(target, tool, describing)).stdout.includes(`tokens : ${count}`),
      );
    await shown(1);
    await run('describe', tool, describing);
    const jaas = jaasLine(mechanism, id, hmac).replace(/;$/, ' tokenauth="true";');
    const token = ['--command-config', await login(target, `${name}-token`, jaas)];
    await run('log in', 'kafka-cluster', ['cluster-id', ...token]);
    // Who has logged in with a token can make none.
    await run('create by token', tool, [...token, '--create', '--max-life-time-period', '-1']);
    await run('renew', tool, [...user, '--renew', '--renew-time-period', '60000', '--hmac', hmac]);
    await run('renew what is not there', tool, [
      ...[...user, '--renew', '--renew-time-period', '60000', '--hmac', 'bm90IHRoZXJl'],
    ]);
    await run('expire', tool, [...user, '--expire', '--expiry-time-period', '-1', '--hmac', hmac]);
    await shown(0);
    await run('describe none', tool, describing);
    await run('log in when expired', 'kafka-cluster', ['cluster-id', ...token]);
    return steps;
  }

  test('live through the proxy as they do at a broker', async () => {
    const proxied = await life('proxied');
    assert.deepEqual(proxied, await life('direct'));
    const said = (what: string): string => proxied.find((step) => step.what === what)?.said ?? '';
    for (const what of ['create', 'describe', 'log in', 'renew', 'expire', 'describe none']) {
      assert.doesNotMatch(said(what), /FAILED/, what);
    }
    assert.match(said('log in when expired'), /FAILED/);
  });
});

function masked(text: string): string {
  return text
    .split('\n')
    .filter((line) => !/^\[\d{4}-|^\s+at /.test(line))
    .map((line) =>
      line
        .replaceAll(/\b\d{4}-\d\d-\d\dT\d\d:\d\d\b/g, 'DATE')
        .replaceAll(/\b[A-Za-z0-9+/]{60,}=*/g, 'HMAC')
        .replaceAll(/(?<![\w-])[\w-]{22}(?![\w-])/g, 'ID')
        .replaceAll(/127\.0\.0\.1:\d+/g, 'ADDRESS')
        .replaceAll(/\s+/g, ' '),
    )
    .join('\n')
    .trim();
}

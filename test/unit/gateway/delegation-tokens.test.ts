// Delegation tokens for clients with a certificate: one request for many clients, replaced before
// they end and only by a token that all brokers know, and what a refusal means.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { CreateDelegationTokenRequest } from '../../../protocol/generated/create-delegation-token-request.ts';
import { createCreateDelegationTokenResponse } from '../../../protocol/generated/create-delegation-token-response.ts';
import { type Cluster, ClusterError } from '../../../src/cluster/cluster.ts';
import { DelegationTokens } from '../../../src/gateway/delegation-tokens.ts';

const lifeMs = 100_000;

class World {
  now = 0;
  errorCode = 0;
  failure: Error | null = null;
  /** Whose token a broker gives that is asked for one; brokers take an empty name for us. */
  ownerOf = (name: string | null): string => name || 'causeway';
  readonly asked: (string | null)[] = [];
  readonly tokens: DelegationTokens;

  constructor() {
    const send = (_: unknown, __: unknown, request: CreateDelegationTokenRequest) => {
      if (this.failure !== null) return Promise.reject(this.failure);
      const { ownerPrincipalType, ownerPrincipalName } = request;
      assert.equal(ownerPrincipalType, 'User');
      this.asked.push(ownerPrincipalName);
      const response = createCreateDelegationTokenResponse({
        errorCode: this.errorCode,
        principalType: 'User',
        principalName: this.ownerOf(ownerPrincipalName),
        tokenId: `token-${this.asked.length}`,
        hmac: Buffer.from([this.asked.length]),
        issueTimestampMs: 5_000n,
        expiryTimestampMs: 5_000n + BigInt(lifeMs),
      });
      return Promise.resolve(response);
    };
    const cluster = { send } as unknown as Cluster;
    this.tokens = new DelegationTokens({ cluster, now: () => this.now });
  }

  async idAt(now: number, owner = 'app'): Promise<string> {
    this.now = now;
    return (await this.tokens.tokenFor(owner)).id;
  }
}

describe('delegation tokens', () => {
  test('clients that come at once share one, each owner has its own', async () => {
    const world = new World();
    const ids = await Promise.all(['a', 'a', 'b', 'a'].map((owner) => world.idAt(0, owner)));
    assert.deepEqual(ids, ['token-1', 'token-1', 'token-2', 'token-1']);
    assert.deepEqual(world.asked, ['a', 'b']);
  });

  test('a certificate without a name got a token for our own login', async () => {
    const world = new World();
    await assert.rejects(world.idAt(0, ''), /no name/);
    assert.deepEqual(world.asked, []);
  });

  test("another's token was taken for the client's", async () => {
    const world = new World();
    world.ownerOf = () => 'causeway';
    await assert.rejects(world.idAt(0), /gives no token for User:app: .* for User:causeway/);
  });

  test('the next one is made in time, and used when brokers know it', async () => {
    const world = new World();
    assert.equal(await world.idAt(0), 'token-1');
    assert.equal(await world.idAt(49_999), 'token-1');
    assert.equal(world.asked.length, 1);
    assert.equal(await world.idAt(50_000), 'token-1');
    assert.equal(world.asked.length, 2);
    assert.equal(await world.idAt(51_999), 'token-1');
    assert.equal(await world.idAt(52_000), 'token-2');
    assert.equal(world.asked.length, 2);
    // Nobody came for so long that this one is of no use any more.
    assert.equal(await world.idAt(52_000 + lifeMs), 'token-3');
  });

  test('while no other can be made the old one is used to its end', async () => {
    const world = new World();
    await world.idAt(0);
    world.errorCode = 61;
    assert.equal(await world.idAt(60_000), 'token-1');
    assert.equal(await world.idAt(89_999), 'token-1');
    await assert.rejects(world.idAt(90_000), /no delegation\.token\.secret\.key/);
  });

  test('one that a broker does not know is replaced', async () => {
    const world = new World();
    const token = await world.tokens.tokenFor('app');
    world.tokens.drop('app', token);
    assert.equal(await world.idAt(1), 'token-2');
    world.tokens.drop('app', token);
    assert.equal(await world.idAt(2), 'token-2');
  });

  const refusals: readonly [number, RegExp][] = [
    [61, /User:app: its brokers have no delegation\.token\.secret\.key/],
    [64, /our own login there is none that may ask/],
    [65, /needs the right CREATE_TOKENS on USER:User:app/],
    [41, /NOT_CONTROLLER/],
  ];
  for (const [errorCode, reason] of refusals) {
    test(`error ${errorCode} is told in words, and asked about again later`, async () => {
      const world = new World();
      world.errorCode = errorCode;
      await assert.rejects(world.idAt(0), reason);
      await assert.rejects(world.idAt(1_999), reason);
      assert.equal(world.asked.length, 1);
      world.errorCode = 0;
      assert.equal(await world.idAt(2_000), 'token-2');
    });
  }

  test('brokers that are too old, or do not answer, are told apart', async () => {
    const world = new World();
    world.failure = new ClusterError('UNSUPPORTED', 'no common version', { maybeSent: false });
    await assert.rejects(world.idAt(0), /older than 3\.3/);
    world.failure = new ClusterError('UNREACHABLE', 'b1:9092: refused', { maybeSent: false });
    await assert.rejects(world.idAt(3_000), /b1:9092: refused/);
  });
});

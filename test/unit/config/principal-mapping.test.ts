// Kafka's rules from the name in a certificate to a principal: grammar, Java's way of replacing,
// and what is refused because Java would read it otherwise.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { MappingRuleError, parsePrincipalMapping } from '../../../src/config/principal-mapping.ts';

const name = 'CN=Duke,OU=ServiceUsers,O=Org,C=DE';

describe('ssl.principal.mapping.rules', () => {
  const mapped: readonly [string, string, string][] = [
    ['DEFAULT', name, name],
    ['RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/', name, 'Duke'],
    ['RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L', name, 'duke'],
    ['RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/U , DEFAULT', name, 'DUKE'],
    ['RULE:^OU=.*$/x/, RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1@$2/L,DEFAULT', name, 'duke@$2'],
    ['RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/', name, 'Duke@ServiceUsers'],
    ['RULE:^CN=(.*?),.*$/$10/', name, 'Duke0'],
    ['RULE:^CN=(.*?),.*$/$0/', name, name],
    ['RULE:^CN=(.*?),.*$/\\$1\\/$1/', name, '$1/Duke'],
    ['RULE:^CN=([^\\/]*)\\/x$/$1/', 'CN=a/x', 'a'],
    ['RULE:^CN=(a\\-b),O\\=\\ x$/$1/', 'CN=a-b,O= x', 'a-b'],
    ['RULE:^CN=(?<who>\\w+)$/$1/', 'CN=a', 'a'],
    // Full matches only; then each occurrence is replaced.
    ['RULE:CN/x/,DEFAULT', name, name],
    ['RULE:(CN|O)=[A-Za-z]+,?/$1/,DEFAULT', 'CN=Duke', 'CN'],
    ['  RULE:CN=(.*?),.*/$1/  ', name, 'Duke'],
  ];
  for (const [rules, from, to] of mapped) {
    test(`${rules.trim()} makes ${to}`, () => {
      assert.equal(parsePrincipalMapping(rules)(from), to);
    });
  }

  test('a name that no rule fits is no principal', () => {
    const mapping = parsePrincipalMapping('RULE:^OU=(.*)$/$1/');
    assert.throws(() => mapping(name), /no rule of ssl\.principal\.mapping\.rules fits "CN=Duke/);
  });

  const refused: readonly [string, RegExp][] = [
    ['', /no rule/],
    ['default', /does not begin with DEFAULT/],
    ['RULE:a/b', /does not begin with/],
    ['RULE:a/b/X', /does not begin with/],
    ['RULE:a/b/,,DEFAULT', /does not begin with/],
    ['DEFAULT RULE:a/b/', /does not begin with/],
    ['RULE:(a/b/', /cannot be used/],
    ['RULE:a++/b/', /possessive/],
    ['RULE:(?i)a/b/', /cannot be used|flags/],
    ['RULE:(?i:a)/b/', /flags inside/],
    ['RULE:[a-z&&[^b]]/b/', /a class made of classes/],
    ['RULE:\\Qa\\E/b/', /an escape that Java reads/],
    ['RULE:\\p{Alpha}/b/', /an escape that Java reads/],
    [`RULE:(?<who>a)/$${'{who}'}/`, /followed by no digit/],
  ];
  for (const [rules, reason] of refused) {
    test(`R18: refused: ${rules || 'nothing'}`, () => {
      assert.throws(
        () => parsePrincipalMapping(rules),
        (error: unknown) => {
          assert.ok(error instanceof MappingRuleError, String(error));
          assert.match(error.message, reason);
          return true;
        },
      );
    });
  }
});

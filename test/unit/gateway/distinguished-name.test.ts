// Names in certificates as brokers write them. What is expected here is what Java 17's
// X500Principal said of the same certificates.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';
import { subjectOf } from '../../../src/gateway/distinguished-name.ts';
import { withoutOpenssl } from '../../helpers/certificates.ts';

const run = promisify(execFile);
const skip = await withoutOpenssl();

async function certificate(subject: string): Promise<Buffer> {
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  const args = ['req', '-x509', ...key, '-keyout', '/dev/null', '-utf8', '-subj', subject];
  const { stdout } = await run('openssl', args);
  return new X509Certificate(stdout).raw;
}

const names: readonly [string, string][] = [
  ['/CN=plain', 'CN=plain'],
  [
    '/C=DE/ST=Hamburg/L=Alt, stadt/O=Acme/OU=x;y/CN=#app "one" <two>\\\\',
    'CN=\\#app \\"one\\" \\<two\\>\\\\,OU=x\\;y,O=Acme,L=Alt\\, stadt,ST=Hamburg,C=DE',
  ],
  ['/DC=com/DC=example/UID=app7/CN=äöü 日本', 'CN=äöü 日本,UID=app7,DC=example,DC=com'],
  [
    '/emailAddress=a@b.c/serialNumber=12/street=Road 1/CN=x',
    'CN=x,STREET=Road 1,2.5.4.5=#13023132,1.2.840.113549.1.9.1=#16056140622e63',
  ],
  ['/O=x+OU=y/CN= lead and trail ', 'CN=\\ lead and trail\\ ,O=x+OU=y'],
  ['/O=Acme\\+Co/CN=x', 'CN=x,O=Acme\\+Co'],
];

describe('the name in a certificate', { skip }, () => {
  for (const [subject, expected] of names) {
    test(`is written as brokers write it: ${expected}`, async () => {
      assert.equal(subjectOf(await certificate(subject)), expected);
    });
  }

  test('R18: bytes that are no certificate are an error, however they are cut', async () => {
    const whole = await certificate('/CN=plain');
    for (let length = 0; length < whole.length; length++) {
      assert.throws(() => subjectOf(whole.subarray(0, length)), RangeError, `${length} bytes`);
    }
    assert.throws(() => subjectOf(Buffer.from('3084ffffffff', 'hex')), RangeError);
  });
});

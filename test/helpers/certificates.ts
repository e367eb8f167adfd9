// Certificates for tests of TLS, made by the openssl command: a CA, and whatever it signs.
//
// Owns: a directory of PEM files. Refuses to know who uses them.
// Invariant: keys are made for one test run and removed with their directory.

import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** For `skip`: false when the openssl command is there. */
export async function withoutOpenssl(): Promise<string | false> {
  return run('openssl', ['version']).then(
    () => false,
    () => 'there is no openssl command',
  );
}

export interface Certificate {
  readonly certificateFile: string;
  readonly keyFile: string;
  readonly certificate: string;
  readonly key: string;
  /** Key and certificate in one file, as Kafka's PEM keystores are. */
  readonly keystoreFile: string;
}

export interface CertificateAuthority extends Certificate {
  /** `subjectAltName` such as `DNS:localhost,IP:127.0.0.1`. */
  sign(name: string, subjectAltName: string): Promise<Certificate>;
  /** A PKCS#8 key that needs a password. */
  encryptKey(certificate: Certificate, password: string): Promise<string>;
  remove(): Promise<void>;
}

const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];

async function request(
  directory: string,
  name: string,
  args: readonly string[],
): Promise<Certificate> {
  const certificateFile = path.join(directory, `${name}.crt`);
  const keyFile = path.join(directory, `${name}.key`);
  const subject = ['-subj', `/CN=${name}`, '-days', '2', '-sha256'];
  const files = ['-keyout', keyFile, '-out', certificateFile];
  await run('openssl', ['req', '-x509', ...curve, ...subject, ...files, ...args]);
  const certificate = await readFile(certificateFile, 'utf8');
  const key = await readFile(keyFile, 'utf8');
  const keystoreFile = path.join(directory, `${name}.pem`);
  await writeFile(keystoreFile, `${key}${certificate}`);
  return { certificateFile, keyFile, certificate, key, keystoreFile };
}

export async function certificateAuthority(name = 'test-ca'): Promise<CertificateAuthority> {
  const directory = await mkdtemp(path.join(os.tmpdir(), 'causeway-certificates-'));
  const own = await request(directory, name, ['-addext', 'keyUsage=keyCertSign']);
  return {
    ...own,
    sign: (name, subjectAltName) => {
      const issuer = ['-CA', own.certificateFile, '-CAkey', own.keyFile];
      const names = ['-addext', `subjectAltName=${subjectAltName}`];
      const notCa = ['-addext', 'basicConstraints=critical,CA:false'];
      return request(directory, name, [...issuer, ...names, ...notCa]);
    },
    encryptKey: async ({ keyFile }, password) => {
      const to = `${keyFile}.encrypted`;
      const args = ['pkcs8', '-topk8', '-in', keyFile, '-out', to, '-passout', `pass:${password}`];
      await run('openssl', args);
      return readFile(to, 'utf8');
    },
    remove: () => rm(directory, { recursive: true, force: true }),
  };
}

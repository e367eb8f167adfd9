// `node scripts/run.js COMMAND [ARG ...]`: what every npm command goes through. Uses only Node's
// own modules, so that it works on a fresh clone: it installs the locked packages and compiles the
// sources when either is missing or older than what it is made from, then runs the command's
// compiled program.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const programs = {
  start: ['bin/causeway.js', 'serve'],
  demo: ['dist/demo/main.js'],
  test: ['scripts/test.js'],
  bench: ['dist/bench/main.js'],
  compat: ['dist/test/compat/main.js'],
  generate: ['dist/protocol/generate/main.js'],
};
const sourceFolders = ['protocol', 'storage', 'src', 'test', 'bench', 'demo'];

function fail(message, code = 1) {
  process.stderr.write(`${message}\n`);
  process.exit(code);
}

function run(command, args) {
  // stdout is for the command itself (`--json` prints one object): what set-up says goes to stderr.
  const { status, error } = spawnSync(command, args, { cwd: root, stdio: ['ignore', 2, 2] });
  if (error) fail(`cannot run ${command}: ${error.message}`);
  if (status !== 0) fail(`${command} ${args.join(' ')} failed`);
}

/** Newest modification time below a folder, of what the compiler reads. */
function newest(path) {
  const info = statSync(path, { throwIfNoEntry: false });
  if (info === undefined) return 0;
  if (!info.isDirectory()) return /\.(ts|json)$/.test(path) ? info.mtimeMs : 0;
  let latest = info.mtimeMs;
  for (const name of readdirSync(path)) {
    if (name === 'node_modules') continue;
    latest = Math.max(latest, newest(join(path, name)));
  }
  return latest;
}

function install() {
  const installed = newest(join(root, 'node_modules/.package-lock.json'));
  if (installed >= newest(join(root, 'package-lock.json'))) return;
  process.stderr.write(
    'Installing the locked npm packages (about 100 MB with development tools) ...\n',
  );
  run('npm', ['ci', '--no-audit', '--no-fund']);
  const now = new Date();
  utimesSync(join(root, 'node_modules/.package-lock.json'), now, now);
}

function build() {
  const stamp = join(root, 'dist/.built');
  const sources = ['tsconfig.json', 'package.json', ...sourceFolders].map((name) =>
    join(root, name),
  );
  if (existsSync(stamp) && statSync(stamp).mtimeMs >= Math.max(...sources.map(newest))) return;
  process.stderr.write('Compiling ...\n');
  const begun = new Date();
  run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', 'tsconfig.json']);
  mkdirSync(join(root, 'dist'), { recursive: true });
  writeFileSync(stamp, '');
  utimesSync(stamp, begun, begun);
}

const [command = '', ...args] = process.argv.slice(2);
if (!Object.hasOwn(programs, command)) {
  fail(`no command '${command}': there are ${Object.keys(programs).join(', ')}`, 2);
}
const program = programs[command];
const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 20 || (major === 20 && minor < 19)) {
  fail(`Causeway needs Node 20.19 or later; this is ${process.versions.node}`);
}
install();
build();
if (!existsSync(join(root, program[0]))) fail(`npm run ${command} is not there in this version`);
const child = spawn(process.execPath, [...program, ...args], { cwd: root, stdio: 'inherit' });
// Ctrl-C reaches the child by itself (same process group); a signal to this process alone is passed
// on.
process.on('SIGINT', () => undefined);
process.on('SIGTERM', () => child.kill('SIGTERM'));
child.on('exit', (status, signal) =>
  process.exit(status ?? 128 + (constants.signals[signal] ?? 0)),
);

// The log is JSON with stable names, and holds no secrets.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Events } from '../../../src/observe/events.ts';
import { createLogger, logConnection, logEvents } from '../../../src/observe/log.ts';
import { scrubSecrets } from '../../../src/observe/scrub.ts';

function recorded(level: 'info' | 'warn' = 'info'): {
  events: Events;
  lines: Record<string, unknown>[];
  stop: () => void;
} {
  const lines: Record<string, unknown>[] = [];
  const target = { write: (text: string) => void lines.push(JSON.parse(text)) };
  const events = new Events({ now: () => 1000 });
  const stop = logEvents(events, createLogger({ level, name: 'test', target }));
  return { events, lines, stop };
}

test('an event becomes one line with its name, level, message and fields', () => {
  const { events, lines, stop } = recorded();
  events.warn('link_unreachable', 'The source of link dr does not answer.', { link: 'dr', n: 3 });
  stop();
  events.info('later', 'Not written.');
  assert.equal(lines.length, 1);
  const { time, ...rest } = lines[0] ?? {};
  assert.match(String(time), /^\d{4}-\d\d-\d\dT/);
  assert.deepEqual(rest, {
    level: 'warn',
    service: 'causeway',
    name: 'test',
    event: 'link_unreachable',
    id: 1,
    link: 'dr',
    n: 3,
    message: 'The source of link dr does not answer.',
  });
});

test('a connection is one line when it opens and one when it closes', () => {
  const lines: Record<string, unknown>[] = [];
  const target = { write: (text: string) => void lines.push(JSON.parse(text)) };
  const logger = createLogger({ level: 'info', name: 'test', target });
  logConnection(logger, 'closed', { client: '10.0.0.1:5000', bytesFromClient: 7 });
  assert.equal(lines.length, 1);
  assert.equal(lines[0]?.event, 'connection_closed');
  assert.equal(lines[0]?.bytesFromClient, 7);
  assert.equal(lines[0]?.message, 'Connection of 10.0.0.1:5000 closed.');
});

test('the level of the configuration holds', () => {
  const { events, lines } = recorded('warn');
  events.info('quiet', 'quiet');
  events.error('loud', 'loud');
  assert.deepEqual(
    lines.map((line) => line.event),
    ['loud'],
  );
});

test('a field cannot pass for the name, level or message of the line', () => {
  const { events, lines } = recorded();
  events.info('real', 'real message', { event: 'fake', level: 'fatal', message: 'fake' });
  assert.equal(lines[0]?.event, 'real');
  assert.equal(lines[0]?.level, 'info');
  assert.equal(lines[0]?.message, 'real message');
  assert.equal(lines[0]?.field_event, 'fake');
});

const secretTexts = [
  'sasl.jaas.config=org.x.PlainLoginModule required username="u" password="hunter2";',
  '{"name":"sasl.jaas.config","sasl.jaas.config":"a required password=\\"hunter2\\";"}',
  'ssl.key.password=hunter2, next',
  '"ssl.keystore.password": "hunter2"',
  "token: 'hunter2'",
  'https://user:hunter2@host/path',
  '-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----',
  'client_secret=hunter2&x=1',
];

for (const text of secretTexts) {
  test(`R17: no secret is left in ${JSON.stringify(text.slice(0, 30))}`, () => {
    assert.ok(!scrubSecrets(text).includes('hunter2'), scrubSecrets(text));
    const { events, lines } = recorded();
    events.error('refused', `The link was refused: ${text}`, { detail: text });
    assert.equal(lines.length, 1);
    assert.ok(!JSON.stringify(lines).includes('hunter2'));
  });
}

test('ordinary text is left alone', () => {
  const text = 'Topic orders: promoted at offset 42 (link dr, 127.0.0.1:9092).';
  assert.equal(scrubSecrets(text), text);
});

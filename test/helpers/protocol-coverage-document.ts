// docs/protocol-coverage.md, written out of the reviewed table of APIs. Owns the words around it.
import { apiName } from '../../protocol/index.ts';
import { apiTable, type Handling } from '../../src/gateway/api-table.ts';

const headings: readonly (readonly [Handling, string, string])[] = [
  [
    'handled',
    'Looked at',
    'Request, response or both may be changed, or answered by the proxy in part.',
  ],
  ['pass', 'Passed', 'Forwarded to the destination and answered byte for byte.'],
  ['hidden', 'Hidden', 'Never advertised; a request ends the connection with one log line.'],
];

function rowsOf(handling: Handling): string[] {
  const apis = [...apiTable.values()].filter((api) => api.handling === handling);
  return apis
    .sort((a, b) => a.key - b.key)
    .map(({ key, versionMin, versionMax, why }) => {
      const versions = versionMax < versionMin ? 'none' : `${versionMin}–${versionMax}`;
      return `| ${key} | ${apiName(key)} | ${versions} | ${why} |`;
    });
}

export function protocolCoverageDocument(): string {
  const sections = headings.flatMap(([handling, title, meaning]) => [
    '',
    `## ${title}`,
    '',
    meaning,
    '',
    '| key | API | versions | what we do, or why |',
    '|---|---|---|---|',
    ...rowsOf(handling),
  ]);
  return [
    '# What the gateway does with each API',
    '',
    'Every API key of Kafka 4.4, as `src/gateway/api-table.ts` has it (a test keeps them equal).',
    'Clients are told the intersection of these versions with those of the destination’s broker.',
    ...sections,
    '',
  ].join('\n');
}

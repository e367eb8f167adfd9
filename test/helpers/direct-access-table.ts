// What each operation does that goes straight to a broker of the destination: the table of
// docs/direct-access.md. Owns its words; test/kafka/direct-access.test.ts sees each of them happen.
// Invariant: an operation in this table has a check of that name there, and the other way round.

export interface DirectAccessRow {
  readonly operation: string;
  readonly ordinary: string;
  readonly mirrored: string;
  readonly promoted: string;
}

const asEver = 'as ever';

export const directAccessRows: readonly DirectAccessRow[] = [
  {
    operation: 'write records',
    ordinary: asEver,
    mirrored:
      'the broker takes them; the mirror is FAILED (`SHELL_TOPIC_WRITTEN`) within seconds and ' +
      'clients of ours never see them',
    promoted: 'works; clients of ours see them at virtual offsets',
  },
  {
    operation: 'write in a transaction',
    ordinary: asEver,
    mirrored: 'as writing records; markers alone do no harm, they stay hidden',
    promoted: 'works',
  },
  {
    operation: 'read from the earliest record',
    ordinary: asEver,
    mirrored: 'nothing: the shell topic is empty',
    promoted: '**wrong**: only what was written after the promotion, at native offsets',
  },
  {
    operation: 'read at an offset',
    ordinary: asEver,
    mirrored: '`OFFSET_OUT_OF_RANGE`: the shell topic is empty',
    promoted: '**wrong**: taken for a native offset, of another record or `OFFSET_OUT_OF_RANGE`',
  },
  {
    operation: 'read committed records alone',
    ordinary: asEver,
    mirrored: 'nothing: the shell topic is empty',
    promoted: '**wrong**: as any read; what was aborted after the promotion is left out',
  },
  {
    operation: 'read in a share group',
    ordinary: asEver,
    mirrored: 'nothing: the shell topic is empty',
    promoted:
      'works, at native offsets: share groups keep these, and clients of ours are told ' +
      'virtual ones',
  },
  {
    operation: 'ask for the end offset',
    ordinary: asEver,
    mirrored: '**wrong**: 0, or the number of hidden markers',
    promoted: '**wrong**: the native end, lower by the shift; lag is negative',
  },
  {
    operation: 'commit offsets, as a consumer that reads past us',
    ordinary: asEver,
    mirrored: '**wrong**: the group keeps it and clients of ours go on there',
    promoted: '**wrong**: a native offset is taken for a virtual one',
  },
  {
    operation: 'commit offsets that were read through us',
    ordinary: asEver,
    mirrored: 'works: groups keep virtual offsets',
    promoted: 'works: groups keep virtual offsets',
  },
  {
    operation: 'reset the offsets of a group with `kafka-consumer-groups`',
    ordinary: asEver,
    mirrored: '**wrong**: to those of the shell topic, mostly 0, and clients of ours go on there',
    promoted: '**wrong**: to native offsets, which are taken for virtual ones',
  },
  {
    operation: 'delete records below an offset',
    ordinary: asEver,
    mirrored: 'refused by the broker (`OFFSET_OUT_OF_RANGE`): there are none; the copy stays',
    promoted:
      '**wrong**: taken for a native offset; where it deletes a record, **the whole copy is ' +
      'deleted too** (`mirror_prefix_aged_out`): nothing below a deleted record is kept',
  },
  {
    operation: 'add partitions',
    ordinary: asEver,
    mirrored: 'the broker does it; the mirror is FAILED (`SHELL_TOPIC_CHANGED`); its copy is kept',
    promoted: 'works; the new partition has no shift',
  },
  {
    operation: 'change a topic config',
    ordinary: asEver,
    mirrored: 'works; a key that always follows the source is put back at the next config sync',
    promoted: 'works',
  },
  {
    operation: 'ask for log directories',
    ordinary: asEver,
    mirrored: 'the size of the shell topic, 0; through us too: the copy is not in them',
    promoted: 'the size of what was written after the promotion; through us too',
  },
  {
    operation: 'move replicas to other brokers',
    ordinary: asEver,
    mirrored: 'works; clients of ours notice nothing',
    promoted: 'works; clients of ours follow the leader',
  },
  {
    operation: 'have the preferred leader elected',
    ordinary: asEver,
    mirrored: 'works; clients of ours notice nothing',
    promoted: 'works; clients of ours follow the leader',
  },
  {
    operation: 'delete the topic',
    ordinary: asEver,
    mirrored: 'the mirror is FAILED (`SHELL_TOPIC_DELETED`); its copy is kept',
    promoted: 'works; the copied history is removed soon after',
  },
];

export function directAccessTable(): string {
  const rows = directAccessRows.map(
    ({ operation, ordinary, mirrored, promoted }) =>
      `| ${operation} | ${ordinary} | ${mirrored} | ${promoted} |`,
  );
  return ['| operation | ordinary | mirrored | promoted |', '|---|---|---|---|', ...rows].join(
    '\n',
  );
}

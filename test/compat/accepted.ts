// The differences between a suite directly and through the proxy that are known, each with its
// cause. No entry that a user would call a fault has a place here.

import type { AcceptedDifference } from './comparison.ts';

/** D is the offset at which every topic begins in this variant. */
function expectsZero(suite: string, test: string, cause: string): AcceptedDifference {
  return { suite, variants: ['offset-shift'], test, cause };
}

/**
 * One proxy in front of one broker is restarted: for that second nobody listens, as when the broker
 * itself is. The client reports that and goes on.
 */
function countsReports(suite: string, test: string, cause: string): AcceptedDifference {
  return { suite, variants: ['restarts'], test, cause };
}

/** librdkafka's tests: their first failure is such a report, and nothing failed before it. */
export const refusedFirst = new RegExp(
  [
    /^(?:(?!### Test)[\s\S])*/,
    /### Test "[^"]+" failed at test\.c:\d+:test_error_cb\(\).*\n/,
    /.* rdkafka error: Local: Broker transport failure: .*Connection refused/,
  ]
    .map(({ source }) => source)
    .join(''),
);

export const acceptedDifferences: readonly AcceptedDifference[] = [
  expectsZero(
    'franz-go',
    'TestAddRemovePartitions',
    'it reads from offset 1 and expects the second record there; the log begins at D',
  ),
  expectsZero(
    'franz-go',
    'TestConsumeMaxDecompressBatchBytes',
    'it expects the offsets 0 to 3 in an error; they are D to D + 3',
  ),
  expectsZero(
    'franz-go',
    'TestGroupETL',
    'it expects the first record of a partition at offset 0; all of its groups pass',
  ),
  expectsZero(
    'franz-go',
    'TestShareGroupOffsetsAdmin',
    'it sets a share group to offset 8, below the log start; the group begins at D',
  ),
  expectsZero(
    'librdkafka',
    '0015',
    'it seeks to offset 0 as the beginning of a partition; the log begins at D',
  ),
  expectsZero('librdkafka', '0017', 'it seeks to offset 0 before it reads; the log begins at D'),
  expectsZero('librdkafka', '0029', 'it assigns offset 50 of 100 records; they lie from D on'),
  expectsZero('librdkafka', '0031', 'it expects the watermarks 0 and 10; they are D and D + 10'),
  expectsZero(
    'librdkafka',
    '0054',
    'it expects the offsets 0 and 1 for two times; they are D and D + 1',
  ),
  expectsZero('librdkafka', '0130', 'it stores offset 900 of 1,000 records; they lie from D on'),
  expectsZero('librdkafka', '0137', 'it expects the last record at offset 4; it is at D + 4'),
  expectsZero(
    'sarama',
    'TestFuncAdminListOffsets',
    'it expects 0 as the earliest of 10 records; they lie from D on',
  ),
  expectsZero(
    'sarama',
    'TestFuncAdminDeleteRecords',
    'it deletes before offset 5 of 10 records; they lie from D on, so none is deleted',
  ),
  countsReports(
    'franz-go',
    'TestGroupETL',
    'each "connection refused" that a poll reports is a failure to it',
  ),
  countsReports(
    'franz-go',
    'TestTxnEtl',
    'each "connection refused" that a poll or flush reports is a failure to it',
  ),
  {
    suite: 'librdkafka',
    variants: ['restarts'],
    says: refusedFirst,
    cause: 'each "connection refused" that the client reports is a failure to all of its tests',
  },
];

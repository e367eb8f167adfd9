// Which mirrors may be made anew in the place of their failed copy. Owns the list of causes;
// refuses to know how it is done. Invariant: a copy is given up only where its source is not what
// was mirrored any more.
import type { MirrorErrorCode, TopicRecord } from '../../state/records.ts';
import { LinkError } from '../link-error.ts';

/** A new copy may take the place of the old one only where the source is not what was mirrored. */
const recreatable: ReadonlySet<MirrorErrorCode> = new Set([
  'SOURCE_TOPIC_ID_CHANGED',
  'SOURCE_TOPIC_MAY_BE_DELETED',
  'SOURCE_PARTITIONS_DECREASED',
  'UNEXPECTED_TRUNCATION',
  'NON_MONOTONIC_LOG_APPEND_EPOCH',
  'NON_MONOTONIC_SOURCE_EPOCH',
  'SHELL_TOPIC_DELETED',
  'SHELL_TOPIC_CHANGED',
]);
/** @throws LinkError MIRROR_NOT_FOUND, ILLEGAL_STATE */
export function checkRecreatable(name: string, record: TopicRecord | undefined): TopicRecord {
  if (record === undefined) {
    throw new LinkError('MIRROR_NOT_FOUND', `Topic '${name}' is not a mirror`);
  }
  const code = record.error?.code;
  if (record.state === 'FAILED' && code !== undefined && recreatable.has(code)) return record;
  const why = record.state === 'FAILED' ? `FAILED with ${code ?? 'no code'}` : record.state;
  throw new LinkError(
    'ILLEGAL_STATE',
    `Topic '${name}' is ${why}: only a mirror whose source topic is not the one that was ` +
      `mirrored is made anew. Delete it with "causeway mirror delete ${name}" to begin again`,
  );
}

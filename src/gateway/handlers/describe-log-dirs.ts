// DescribeLogDirs: at the link node one directory without partitions. Clients ask every node;
// forwarded, the broker's replicas would show twice, and Java's admin client takes an empty list
// for a refusal.
import {
  createDescribeLogDirsResponse,
  createDescribeLogDirsResult,
  describeLogDirsResponseCodec,
} from '../../../protocol/generated/describe-log-dirs-response.ts';
import type { Handler } from '../handler.ts';
import { answer } from '../messages.ts';

export const describeLogDirsHandler: Handler = (context) => {
  if (context.session.role.kind !== 'link') return { kind: 'forward' };
  const results = [createDescribeLogDirsResult({ logDir: 'mirrors' })];
  return answer(context, describeLogDirsResponseCodec, createDescribeLogDirsResponse({ results }));
};

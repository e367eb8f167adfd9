// What an admin call's refusal says of a right that our principal lacks.
import { ErrorCode } from '../../../protocol/index.ts';
import { grantCommand } from '../../cluster/grant-command.ts';

/** '; grant it with ...', or '' when something else was refused. */
export function missingRight(errorCode: number, topic: string, operation: string): string {
  if (errorCode === ErrorCode.TOPIC_AUTHORIZATION_FAILED) {
    return `; grant it with ${grantCommand({ topic }, operation)}`;
  }
  if (errorCode !== ErrorCode.CLUSTER_AUTHORIZATION_FAILED) return '';
  return `; grant it with ${grantCommand({ cluster: true }, operation)}`;
}

// ListTransactions: empty at the link node. Clients ask every node and merge.
import {
  createListTransactionsResponse,
  listTransactionsResponseCodec,
} from '../../../protocol/generated/list-transactions-response.ts';
import type { Handler } from '../handler.ts';
import { answer } from '../messages.ts';

export const listTransactionsHandler: Handler = (context) =>
  context.session.role.kind === 'link'
    ? answer(context, listTransactionsResponseCodec, createListTransactionsResponse())
    : { kind: 'forward' };

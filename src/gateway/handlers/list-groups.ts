// ListGroups: empty at the link node. Clients ask every node and merge, so forwarding it would list
// groups twice.
import {
  createListGroupsResponse,
  listGroupsResponseCodec,
} from '../../../protocol/generated/list-groups-response.ts';
import type { Handler } from '../handler.ts';
import { answer } from '../messages.ts';

export const listGroupsHandler: Handler = (context) =>
  context.session.role.kind === 'link'
    ? answer(context, listGroupsResponseCodec, createListGroupsResponse())
    : { kind: 'forward' };

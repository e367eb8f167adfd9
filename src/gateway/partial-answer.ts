// Requests that are a list of things, of which some are answered here and the rest by the
// destination. Owns the taking apart and the putting together; refuses to know why. Invariant: each
// entry gets exactly one result, and the destination never sees an entry that was answered here.
import type { MessageCodec } from '../../protocol/index.ts';
import type { Disposition, RequestContext } from './handler.ts';
import { answer, decodeBody, requestWith, rewriting } from './messages.ts';

export interface ListedRequest<Request extends object, Response extends object, Entry, Result> {
  readonly request: MessageCodec<Request>;
  readonly response: MessageCodec<Response>;
  entries(request: Request): readonly Entry[];
  /** The same request with these entries only. */
  keeping(request: Request, entries: Entry[]): Request;
  /** The result of an entry that is answered here, or null for the destination's part. */
  answered(entry: Entry, context: RequestContext): Result | null;
  /** The response's list, to be added to. */
  results(response: Response): Result[];
}

export function answerInPart<Request extends object, Response extends object, Entry, Result>(
  context: RequestContext,
  api: ListedRequest<Request, Response, Entry, Result>,
  /** Of the destination's part; says whether anything was changed. */
  change?: (response: Response) => boolean,
): Disposition {
  const request = decodeBody(context, api.request);
  const kept: Entry[] = [];
  const answered: Result[] = [];
  for (const entry of api.entries(request)) {
    const result = api.answered(entry, context);
    if (result === null) kept.push(entry);
    else answered.push(result);
  }
  if (answered.length === 0) {
    if (change === undefined) return { kind: 'forward' };
    return { kind: 'forward', rewrite: rewriting(context.header, api.response, change) };
  }
  if (kept.length === 0) {
    const response = api.response.create();
    api.results(response).push(...answered);
    return answer(context, api.response, response);
  }
  return {
    kind: 'forward',
    request: requestWith(context, api.request, api.keeping(request, kept)),
    rewrite: rewriting(context.header, api.response, (response) => {
      change?.(response);
      // Admin answers are matched by name, not by position.
      api.results(response).push(...answered);
      return true;
    }),
  };
}

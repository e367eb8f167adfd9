// Requests that are a list of things, of which some are answered here and the rest by the
// destination. Owns the taking apart and the putting together; refuses to know why. Invariants:
// each entry gets exactly one result; the destination never sees an entry that was answered here;
// as at a broker, who lacks the right hears that and nothing else of a topic.
import type { MessageCodec } from '../../protocol/index.ts';
import { ErrorCode } from '../../protocol/index.ts';
import { type AclOperation, authorize } from './authorizer.ts';
import type { Disposition, RequestContext } from './handler.ts';
import { decodeBody, requestWith, responseTo, rewriting } from './messages.ts';
import { forbiddenTopic, type Refusal } from './refusals.ts';
import { type Throttled, ThrottledSession } from './throttled-session.ts';

export interface ListedRequest<Request extends object, Response extends Throttled, Entry, Result> {
  readonly request: MessageCodec<Request>;
  readonly response: MessageCodec<Response>;
  entries(request: Request): readonly Entry[];
  /** The same request with these entries only. */
  keeping(request: Request, entries: Entry[]): Request;
  /** The result of an entry that is answered here, or null for the destination's part. */
  answered(entry: Entry, context: RequestContext): Result | null;
  /** The response's list, to be added to. */
  results(response: Response): Result[];
  /** What brokers ask for before anything else; without it nothing is asked. */
  readonly right?: {
    readonly operation: AclOperation;
    /** Null: not of a topic. */
    topicOf(entry: Entry, context: RequestContext): string | null;
    refused(entry: Entry, refusal: Refusal, context: RequestContext): Result;
  };
}

export function answerInPart<Request extends object, Response extends Throttled, Entry, Result>(
  context: RequestContext,
  api: ListedRequest<Request, Response, Entry, Result>,
  /** Of the destination's part; says whether anything was changed. */
  change?: (response: Response) => boolean,
): Disposition {
  const request = decodeBody(context, api.request);
  const kept: Entry[] = [];
  const answered: Answered<Entry, Result>[] = [];
  for (const entry of api.entries(request)) {
    const result = api.answered(entry, context);
    if (result === null) kept.push(entry);
    else answered.push({ entry, result });
  }
  if (answered.length === 0) {
    if (change === undefined) return { kind: 'forward' };
    return { kind: 'forward', rewrite: rewriting(context.header, api.response, change) };
  }
  if (kept.length === 0) {
    const message = api.response.create();
    const response = addJudged(context, api, answered, message).then(() =>
      responseTo(context.header, api.response, message),
    );
    return { kind: 'answer', response };
  }
  return {
    kind: 'forward',
    request: requestWith(context, api.request, api.keeping(request, kept)),
    asksUpstream: true,
    rewrite: rewriting(context.header, api.response, async (response) => {
      change?.(response);
      await addJudged(context, api, answered, response);
      return true;
    }),
  };
}

interface Answered<Entry, Result> {
  readonly entry: Entry;
  readonly result: Result;
}

/** Adds the results, but for entries of topics that the client may not touch. */
async function addJudged<Request extends object, Response extends Throttled, Entry, Result>(
  context: RequestContext,
  api: ListedRequest<Request, Response, Entry, Result>,
  answered: readonly Answered<Entry, Result>[],
  response: Response,
): Promise<void> {
  // Admin answers are matched by name, not by position.
  const results = api.results(response);
  const { right } = api;
  if (right === undefined) {
    results.push(...answered.map(({ result }) => result));
    return;
  }
  const topics = answered.map(({ entry }) => right.topicOf(entry, context));
  const named = topics.filter((topic) => topic !== null);
  const session = new ThrottledSession(context.session);
  const verdicts = await authorize(session, named, right.operation);
  for (const [index, { entry, result }] of answered.entries()) {
    const verdict = verdicts.get(topics[index] ?? '');
    const isForbidden = verdict === ErrorCode.TOPIC_AUTHORIZATION_FAILED;
    results.push(isForbidden ? right.refused(entry, forbiddenTopic, context) : result);
  }
  session.tell(response);
}

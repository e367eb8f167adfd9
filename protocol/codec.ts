/** What every generated message file offers under one name, for callers that pick by API key. */
import type { Reader } from './bytes/reader.ts';
import type { Writer } from './bytes/writer.ts';

export interface MessageCodec<Message extends object = object> {
  readonly name: string;
  readonly kind: 'request' | 'response' | 'header' | 'data';
  readonly apiKey: number | undefined;
  readonly versionMin: number;
  readonly versionMax: number;
  /** The first version with compact lengths and tagged fields; Infinity when there is none. */
  readonly flexibleFrom: number;
  create(fields?: Partial<Message>): Message;
  decode(reader: Reader, version: number): Message;
  encode(writer: Writer, message: Message, version: number): void;
}

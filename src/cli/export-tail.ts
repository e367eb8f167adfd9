// `causeway mirror export-tail TOPIC --to FILE`: what the source has and the switched topic has
// not, as JSON lines. Owns the file: it is there under its name only when it is complete, and none
// is overwritten.
import { access, link, open, rm } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import type { CommandContext } from './command.ts';
import { CliError, ExitCode } from './io.ts';

async function exists(file: string): Promise<boolean> {
  return access(file).then(
    () => true,
    () => false,
  );
}

export async function exportTail(
  context: CommandContext,
  topic: string,
  options: { to: string },
): Promise<void> {
  const { to } = options;
  if (await exists(to)) throw new CliError(ExitCode.failed, `${to} is there already`);
  const lines = await context.client.stream(`/mirrors/${encodeURIComponent(topic)}/tail`);
  const part = `${to}.part`;
  let count = 0;
  async function* counted(): AsyncGenerator<Uint8Array> {
    for await (const chunk of lines) {
      for (const byte of chunk) if (byte === 10) count++;
      yield chunk;
    }
  }
  let isOurs = false;
  try {
    const file = await open(part, 'wx');
    isOurs = true;
    await pipeline(counted, file.createWriteStream());
    await link(part, to);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new CliError(ExitCode.failed, `the tail of ${topic} was not exported: ${reason}`);
  } finally {
    // Another export may be writing to one that was there already.
    if (isOurs) await rm(part, { force: true });
  }
  context.done({ topic, file: to, lines: count }, `${count} lines of ${topic} are in ${to}.`);
}

// What tests of Kafka's own tools stand on: an ordinary, a mirrored and a promoted topic through
// the proxy, and for each a twin, an ordinary topic of the destination with the same records at the
// same offsets, on which the same tool is run straight at the brokers.
// Owns: the stage, and what is put aside when two outputs are held side by side. Knows no tool.
// Invariant: names, addresses, the link node and how long something took are put aside, nothing
// else is.
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import type { Cluster } from '../../src/cluster/cluster.ts';
import { type JavaToolName, JavaTools } from '../helpers/java-tools.ts';
import { type LinkedStage, startStage } from '../helpers/linked-stage.ts';
import { stopMirroring } from '../helpers/mirror-commands.ts';
import { values, write } from '../helpers/raw-writes.ts';
import { createTopic } from '../helpers/topic-admin.ts';

export type Kind = 'ordinary' | 'mirrored' | 'promoted';
export const kinds: readonly Kind[] = ['ordinary', 'mirrored', 'promoted'];
/** Records that came over the link, or stand for them, and such as were written afterwards. */
export const copied = 10;
export const written = 5;

/** One side of a comparison: where the tool goes, and its own topic and group there. */
export interface Side {
  readonly bootstrap: string;
  readonly topic: string;
  readonly group: string;
}

export type ArgsOf = (side: Side) => readonly string[] | Promise<readonly string[]>;
/** Changes both outputs before they are compared. */
export type Mask = (text: string) => string;

const unmasked: Mask = (text) => text;

export function normal(text: string, { topic, group }: Side): string {
  return (
    text
      .split('\n')
      .filter((line) => !/^\[\d{4}-|^\s+at |^OpenJDK/.test(line))
      .join('\n')
      .replaceAll(new RegExp(`\\b${group}\\b`, 'g'), 'GROUP')
      .replaceAll(new RegExp(`(?<![\\w-])${topic}(?![\\w-])`, 'g'), 'TOPIC')
      .replaceAll(new RegExp(`\\b${topic}-0\\b`, 'g'), 'TOPIC-0')
      .replaceAll(/TopicId: \S+/g, 'TopicId: ID')
      .replaceAll(/Leader: \d+/g, 'Leader: N')
      // A mirror's configs are explicit.
      .replaceAll(/Configs: \S+/g, 'Configs: C')
      .replaceAll(/(Replicas|Isr): [\d,]+/g, '$1: N')
      .replaceAll(/127\.0\.0\.1:\d+/g, 'ADDRESS')
      .replaceAll(/(brokers [\d,]+),1000000/g, '$1')
      .replaceAll(/[ \t]+/g, ' ')
      .trim()
  );
}

/** Lines in order, without ids of directories and how long ago something was. */
export function settled(text: string): string {
  return text
    .split('\n')
    .map((line) =>
      line
        .replaceAll(/\b[\w-]{22}\b/g, 'ID')
        .replaceAll(/\d+ ms ago|\b\d+\s*$/g, 'N')
        .replaceAll(/\b\d{3,}\b/g, 'N'),
    )
    .sort()
    .join('\n');
}

export class ToolTwins {
  readonly stage: LinkedStage;
  readonly #tools: JavaTools;
  readonly #directory: string;
  /** The same on both sides, for all forms that ask by time. */
  readonly copiedMs = BigInt(Date.now() - 60_000);
  readonly writtenMs = this.copiedMs + 30_000n;

  private constructor(stage: LinkedStage, tools: JavaTools, directory: string) {
    this.stage = stage;
    this.#tools = tools;
    this.#directory = directory;
  }

  static async start(): Promise<ToolTwins> {
    const directory = await mkdtemp(path.join(os.tmpdir(), 'causeway-tools-'));
    const settings = {
      'authorizer.class.name': 'org.apache.kafka.metadata.authorizer.StandardAuthorizer',
      'super.users': 'User:ANONYMOUS',
      'share.coordinator.state.topic.replication.factor': '1',
      'share.coordinator.state.topic.min.isr': '1',
    };
    const stage = await startStage({
      destination: { advertise: 'reachable', brokers: 2, settings },
    });
    const twins = new ToolTwins(stage, await JavaTools.start(), directory);
    try {
      await twins.#fill();
    } catch (error) {
      await twins.stop();
      throw error;
    }
    return twins;
  }

  async #fill(): Promise<void> {
    const { atSource, atDestination, atProxy, causeway } = this.stage;
    const fill = (cluster: Cluster, topic: string) =>
      write(cluster, topic, 0, values('copied', copied), { timestamp: this.copiedMs });
    for (const kind of ['mirrored', 'promoted']) {
      await createTopic(atSource, kind);
      await fill(atSource, kind);
      await this.stage.mirror(kind);
      await this.stage.mirrored(kind);
    }
    await createTopic(atProxy, 'ordinary');
    await fill(atProxy, 'ordinary');
    for (const kind of kinds) {
      await createTopic(atDestination, this.direct(kind).topic);
      await fill(atDestination, this.direct(kind).topic);
    }
    await stopMirroring(causeway, 'promote', 'promoted');
    for (const kind of ['ordinary', 'promoted'] as const) {
      for (const [cluster, { topic }] of [
        [atProxy, this.proxied(kind)],
        [atDestination, this.direct(kind)],
      ] as const) {
        await write(cluster, topic, 0, values('written', written), { timestamp: this.writtenMs });
      }
    }
    await createTopic(atDestination, 'elsewhere', { replication: 2 });
  }

  async stop(): Promise<void> {
    await this.#tools.stop();
    await this.stage.stop();
    await rm(this.#directory, { recursive: true, force: true });
  }

  direct(kind: Kind): Side {
    const [bootstrap = ''] = this.stage.destination.bootstrap.split(',');
    return { bootstrap, topic: `twin-${kind}`, group: `direct-${kind}` };
  }

  proxied(kind: Kind): Side {
    return { bootstrap: this.stage.causeway.bootstrap, topic: kind, group: `proxied-${kind}` };
  }

  /** Our own client of that side. */
  clusterOf({ bootstrap }: Side): Cluster {
    const { causeway, atProxy, atDestination } = this.stage;
    return bootstrap === causeway.bootstrap ? atProxy : atDestination;
  }

  /** What a tool says, its failure too, without what has to differ. */
  async said(side: Side, name: JavaToolName, args: readonly string[]): Promise<string> {
    let text: string;
    try {
      text = (await this.#tools.run(side, name, args)).stdout;
    } catch (error) {
      text = `FAILED ${error instanceof Error ? error.message : String(error)}`;
    }
    return normal(text, side);
  }

  /** Runs a tool on both sides and compares. */
  async same(kind: Kind, name: JavaToolName, argsOf: ArgsOf, mask = unmasked): Promise<string> {
    const [here, there] = [this.proxied(kind), this.direct(kind)];
    const actual = mask(await this.said(here, name, await argsOf(here)));
    const expected = mask(await this.said(there, name, await argsOf(there)));
    assert.equal(actual, expected, `${name} ${(await argsOf(here)).join(' ')}`);
    return actual;
  }

  async file(name: string, text: string): Promise<string> {
    const where = path.join(this.#directory, name);
    await writeFile(where, text);
    return where;
  }
}

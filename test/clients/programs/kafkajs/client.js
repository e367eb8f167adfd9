// kafkajs consumer and producer with the line protocol of ../README.md.
import { createInterface } from 'node:readline';
import kafkajs from 'kafkajs';

const options = JSON.parse(process.argv[2] ?? '{}');
const retries = Number(options.properties?.retries ?? 30);
const retry = { initialRetryTime: 100, maxRetryTime: 2_000, retries };

function emit(event, fields) {
  process.stdout.write(`${JSON.stringify({ event, ...fields })}\n`);
}

function logCreator() {
  return ({ level, log }) => {
    if (level <= kafkajs.logLevel.ERROR) emit('error', { message: log.error ?? log.message });
    else process.stderr.write(`${JSON.stringify(log)}\n`);
  };
}

function makeKafka() {
  return new kafkajs.Kafka({
    clientId: options.clientId ?? 'kafkajs',
    brokers: options.bootstrap.split(','),
    logLevel: kafkajs.logLevel.WARN,
    logCreator,
    retry,
  });
}

function fail(command, error) {
  emit('reply', { id: command.id, error: error.message, code: error.type ?? error.name });
}

/** Runs `handle` for each command, in order; resolves when stdin has ended. */
async function serve(handle) {
  for await (const line of createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    await handle(command).catch((error) => fail(command, error));
  }
}

async function runConsumer(consumer, positions, onEnd) {
  let count = 0;
  await consumer.subscribe({
    topic: options.topic,
    fromBeginning: (options.reset ?? 'earliest') === 'earliest',
  });
  await consumer.run({
    autoCommit: options.autoCommitMs !== undefined,
    ...(options.autoCommitMs === undefined ? {} : { autoCommitInterval: options.autoCommitMs }),
    eachMessage: async ({ topic, partition, message }) => {
      if (count >= (options.recordsMax ?? Number.POSITIVE_INFINITY)) return;
      positions.set(`${topic}-${partition}`, {
        topic,
        partition,
        next: Number(message.offset) + 1,
      });
      emit('record', {
        topic,
        partition,
        offset: Number(message.offset),
        timestamp: Number(message.timestamp),
        key: message.key?.toString() ?? null,
        value: message.value?.toString() ?? null,
      });
      count += 1;
      if (count === options.recordsMax) onEnd();
    },
  });
}

async function consume() {
  const consumer = makeKafka().consumer({
    groupId: options.group ?? `kafkajs-${process.pid}-${Math.random()}`,
    readUncommitted: options.isolation !== 'read_committed',
    maxWaitTimeInMs: 200,
    retry,
  });
  const positions = new Map();
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    const partitions = Object.entries(payload.memberAssignment).flatMap(([topic, list]) =>
      list.map((partition) => `${topic}-${partition}`),
    );
    emit('assigned', { partitions });
  });
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    emit('error', { message: payload.error.message, isFatal: !payload.restart });
  });
  let commitsCount = 0;
  consumer.on(consumer.events.COMMIT_OFFSETS, () => {
    commitsCount += 1;
  });
  await consumer.connect();
  const hasEnough = new Promise((resolve, reject) => {
    runConsumer(consumer, positions, resolve).catch(reject);
  });
  const stdinEnded = serve(async (command) => {
    const list = [...positions.values()];
    const before = commitsCount;
    await consumer.commitOffsets(
      list.map(({ topic, partition, next }) => ({ topic, partition, offset: String(next) })),
    );
    // While it starts again after an error, it sends none and calls that done.
    if (list.length > 0 && commitsCount === before) throw new Error('no commit was sent');
    // Not the positions: records may have come while the commit was under way.
    const offsets = Object.fromEntries(
      list.map(({ topic, partition, next }) => [`${topic}-${partition}`, next]),
    );
    emit('reply', { id: command.id, offsets });
  });
  await Promise.race([hasEnough, stdinEnded]);
  await consumer.disconnect();
}

const compressionTypes = { none: 0, gzip: 1 };

async function produce() {
  const compression = compressionTypes[options.compression ?? 'none'];
  if (compression === undefined) throw new Error(`kafkajs has no ${options.compression} built in`);
  const isTransactional = options.transactionalId !== undefined;
  const producer = makeKafka().producer({
    idempotent: isTransactional || options.isIdempotent === true,
    ...(isTransactional ? { transactionalId: options.transactionalId } : {}),
    createPartitioner: kafkajs.Partitioners.DefaultPartitioner,
    ...(isTransactional ? { maxInFlightRequests: 1 } : {}),
  });
  const acks = options.acks === undefined || options.acks === 'all' ? -1 : Number(options.acks);
  const inFlight = new Set();
  let transaction;
  await producer.connect();

  async function send(command) {
    const message = { key: command.key ?? null, value: command.value ?? null };
    if (command.partition !== undefined) message.partition = command.partition;
    const topic = command.topic ?? options.topic;
    const [sent] = await (transaction ?? producer).send({
      topic,
      acks,
      compression,
      messages: [message],
    });
    const offset = Number(sent?.baseOffset ?? -1);
    emit('reply', { id: command.id, topic, partition: sent?.partition ?? -1, offset });
  }

  const actions = {
    begin: async () => {
      transaction = await producer.transaction();
    },
    commit: async () => {
      await transaction.commit();
      transaction = undefined;
    },
    abort: async () => {
      await transaction.abort();
      transaction = undefined;
    },
    flush: async () => undefined,
  };

  emit('ready');
  await serve(async (command) => {
    if (command.op === 'send') {
      const sending = send(command)
        .catch((error) => fail(command, error))
        .finally(() => inFlight.delete(sending));
      inFlight.add(sending);
      return;
    }
    await Promise.all(inFlight);
    await actions[command.op]();
    emit('reply', { id: command.id });
  });
  await Promise.all(inFlight);
  await producer.disconnect();
}

try {
  await (options.role === 'consume' ? consume() : produce());
  emit('closed');
  process.exit(0);
} catch (error) {
  emit('error', { message: error.message, isFatal: true });
  process.stderr.write(`${error.stack}\n`);
  process.exit(1);
}

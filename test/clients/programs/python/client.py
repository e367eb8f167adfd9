"""librdkafka (confluent-kafka) consumer and producer with the line protocol of ../README.md."""

import json
import queue
import sys
import threading

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaException,
    Producer,
    TopicPartition,
)

OPTIONS = json.loads(sys.argv[1])
PRINT_LOCK = threading.Lock()


def emit(event, **fields):
    with PRINT_LOCK:
        sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
        sys.stdout.flush()


def text(value):
    return None if value is None else value.decode("utf-8")


def names(partitions):
    return [f"{p.topic}-{p.partition}" for p in partitions]


def read_commands(commands):
    """Puts each command into the queue, and None when stdin has ended."""
    for line in sys.stdin:
        commands.put(json.loads(line))
    commands.put(None)


def start_reader():
    commands = queue.Queue()
    threading.Thread(target=read_commands, args=(commands,), daemon=True).start()
    return commands


def common_settings():
    return {
        "bootstrap.servers": OPTIONS["bootstrap"],
        "client.id": OPTIONS.get("clientId") or "librdkafka",
        "error_cb": lambda error: emit("error", message=str(error), isFatal=error.fatal()),
        **(OPTIONS.get("properties") or {}),
    }


def make_consumer():
    settings = {
        "auto.offset.reset": {"none": "error"}.get(OPTIONS.get("reset"), OPTIONS.get("reset") or "earliest"),
        "isolation.level": OPTIONS.get("isolation") or "read_uncommitted",
        "enable.auto.commit": OPTIONS.get("autoCommitMs") is not None,
        "group.id": OPTIONS.get("group") or "unused",
        "fetch.wait.max.ms": 200,
    }
    if OPTIONS.get("autoCommitMs") is not None:
        settings["auto.commit.interval.ms"] = OPTIONS["autoCommitMs"]
    if OPTIONS.get("groupProtocol") == "consumer":
        settings["group.protocol"] = "consumer"
    return Consumer({**settings, **common_settings()})


def start_consuming(consumer):
    topic = OPTIONS["topic"]
    if OPTIONS.get("group"):
        consumer.subscribe(
            [topic],
            on_assign=lambda _, partitions: emit("assigned", partitions=names(partitions)),
            on_revoke=lambda _, partitions: emit("revoked", partitions=names(partitions)),
        )
        return
    metadata = consumer.list_topics(topic, timeout=30).topics[topic]
    partitions = [TopicPartition(topic, p, OFFSET_BEGINNING) for p in metadata.partitions]
    consumer.assign(partitions)
    emit("assigned", partitions=names(partitions))


def commit(consumer, command):
    try:
        positions = [p for p in consumer.position(consumer.assignment()) if p.offset >= 0]
        committed = consumer.commit(offsets=positions, asynchronous=False) if positions else []
        for partition in committed:
            if partition.error is not None:
                raise KafkaException(partition.error)
        offsets = {f"{p.topic}-{p.partition}": p.offset for p in committed}
        emit("reply", id=command["id"], offsets=offsets)
    except KafkaException as error:
        emit("reply", id=command["id"], error=str(error), code=error.args[0].name())


def consume():
    consumer = make_consumer()
    commands = start_reader()
    start_consuming(consumer)
    count, records_max = 0, OPTIONS.get("recordsMax") or sys.maxsize
    is_ending = False
    while not is_ending and count < records_max:
        message = consumer.poll(0.1)
        if message is not None and message.error():
            emit("error", message=str(message.error()), isFatal=message.error().fatal())
        elif message is not None:
            count += 1
            emit(
                "record",
                topic=message.topic(),
                partition=message.partition(),
                offset=message.offset(),
                timestamp=message.timestamp()[1],
                key=text(message.key()),
                value=text(message.value()),
            )
        while not commands.empty():
            command = commands.get()
            if command is None:
                is_ending = True
            else:
                commit(consumer, command)
    consumer.close()
    emit("closed")


def make_producer():
    settings = {
        "acks": OPTIONS.get("acks") or "all",
        "compression.type": OPTIONS.get("compression") or "none",
        "linger.ms": OPTIONS.get("lingerMs") or 0,
        "enable.idempotence": bool(OPTIONS.get("isIdempotent") or OPTIONS.get("transactionalId")),
        "partitioner": "murmur2_random",
    }
    if OPTIONS.get("transactionalId"):
        settings["transactional.id"] = OPTIONS["transactionalId"]
    return Producer({**settings, **common_settings()})


def send(producer, command):
    def delivered(error, message):
        if error is not None:
            emit("reply", id=command["id"], error=str(error), code=error.name())
            return
        offset = message.offset()
        emit(
            "reply",
            id=command["id"],
            topic=message.topic(),
            partition=message.partition(),
            offset=-1 if offset is None else offset,
        )

    extra = {} if command.get("partition") is None else {"partition": command["partition"]}
    producer.produce(
        command.get("topic") or OPTIONS["topic"],
        key=command.get("key"),
        value=command.get("value"),
        on_delivery=delivered,
        **extra,
    )


def run(producer, command):
    op = command["op"]
    if op == "send":
        send(producer, command)
        return
    actions = {
        "begin": producer.begin_transaction,
        "commit": producer.commit_transaction,
        "abort": producer.abort_transaction,
        "flush": producer.flush,
    }
    actions[op]()
    emit("reply", id=command["id"])


def produce():
    producer = make_producer()
    commands = start_reader()
    if OPTIONS.get("transactionalId"):
        producer.init_transactions(60)
    emit("ready")
    while True:
        try:
            # Delivery reports come from poll(): look there often while nothing is asked of us.
            command = commands.get(timeout=0.01)
        except queue.Empty:
            producer.poll(0)
            continue
        if command is None:
            break
        try:
            run(producer, command)
            producer.poll(0)
        except KafkaException as error:
            emit("reply", id=command["id"], error=str(error), code=error.args[0].name())
        except BufferError as error:
            emit("reply", id=command["id"], error=str(error), code="BufferError")
    producer.flush(30)
    emit("closed")


consume() if OPTIONS["role"] == "consume" else produce()

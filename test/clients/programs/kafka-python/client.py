"""kafka-python consumer and producer with the line protocol of ../README.md."""

import json
import sys
import threading

from kafka import KafkaConsumer, KafkaProducer
from kafka.consumer.subscription_state import ConsumerRebalanceListener

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


class PrintRebalance(ConsumerRebalanceListener):
    def on_partitions_assigned(self, assigned):
        emit("assigned", partitions=names(assigned))

    def on_partitions_revoked(self, revoked):
        emit("revoked", partitions=names(revoked))


def common_settings():
    return {
        "bootstrap_servers": OPTIONS["bootstrap"].split(","),
        "client_id": OPTIONS.get("clientId") or "kafka-python",
        **(OPTIONS.get("properties") or {}),
    }


def wait_for_end(ended):
    """Consumers are given no commands: their stdin only says when to end."""
    for _ in sys.stdin:
        pass
    ended.set()


def consume():
    ended = threading.Event()
    threading.Thread(target=wait_for_end, args=(ended,), daemon=True).start()
    consumer = KafkaConsumer(
        group_id=OPTIONS["group"],
        auto_offset_reset=OPTIONS.get("reset") or "earliest",
        enable_auto_commit=OPTIONS.get("autoCommitMs") is not None,
        auto_commit_interval_ms=OPTIONS.get("autoCommitMs") or 5000,
        **common_settings(),
    )
    consumer.subscribe([OPTIONS["topic"]], listener=PrintRebalance())
    while not ended.is_set():
        for messages in consumer.poll(timeout_ms=100).values():
            for message in messages:
                emit(
                    "record",
                    topic=message.topic,
                    partition=message.partition,
                    offset=message.offset,
                    timestamp=message.timestamp,
                    key=text(message.key),
                    value=text(message.value),
                )
    consumer.close()
    emit("closed")


def send(producer, command):
    def delivered(metadata):
        emit(
            "reply",
            id=command["id"],
            topic=metadata.topic,
            partition=metadata.partition,
            offset=metadata.offset,
        )

    def failed(error):
        emit("reply", id=command["id"], error=str(error), code=type(error).__name__)

    value = command.get("value")
    key = command.get("key")
    future = producer.send(
        command.get("topic") or OPTIONS["topic"],
        value=None if value is None else value.encode("utf-8"),
        key=None if key is None else key.encode("utf-8"),
        partition=command.get("partition"),
    )
    future.add_callback(delivered)
    future.add_errback(failed)


def produce():
    producer = KafkaProducer(
        acks="all",
        enable_idempotence=bool(OPTIONS.get("isIdempotent")),
        **common_settings(),
    )
    emit("ready")
    for line in sys.stdin:
        command = json.loads(line)
        try:
            send(producer, command)
        except Exception as error:
            emit("reply", id=command["id"], error=str(error), code=type(error).__name__)
    producer.close(timeout=10)
    emit("closed")


consume() if OPTIONS["role"] == "consume" else produce()

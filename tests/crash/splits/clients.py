"""Producers and members of groups of all kinds, each in a thread of its own."""

import threading
import time
from collections import defaultdict
from typing import Any, Final

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    AcknowledgeType,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    ShareConsumer,
)

from tests.crash.splits.history import History, Seen, Sent, sent_in

KEYS: Final = 20
PAUSE_S: Final = 0.02
FLUSH_S: Final = 60.0
_POLL_S: Final = 0.1

_CLIENT: Final[dict[str, Any]] = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "log_level": 0,
}
# As members ask for them; the last is a share group.
KINDS: Final[dict[str, dict[str, Any]]] = {
    "consumer": {"group.protocol": "consumer"},
    "range": {"partition.assignment.strategy": "range", "heartbeat.interval.ms": 500},
    "cooperative-sticky": {
        "partition.assignment.strategy": "cooperative-sticky",
        "heartbeat.interval.ms": 500,
    },
    "roundrobin": {"partition.assignment.strategy": "roundrobin", "heartbeat.interval.ms": 500},
}
SHARE: Final = "share"


class Worker(threading.Thread):
    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.stopping = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:
            self.failure = error

    def work(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        self.stopping.set()
        self.join(FLUSH_S)
        assert not self.is_alive(), f"{self.name} did not end"
        if self.failure is not None:
            raise self.failure


class Sender(Worker):
    def __init__(self, bootstrap: str, topic: str, number: int, partitioner: str) -> None:
        super().__init__(f"sender-{number}")
        self._topic = topic
        self._number = number
        self.counts: dict[tuple[int, int], int] = defaultdict(int)
        # Where its messages were stored.
        self.partitions: set[int] = set()
        self._refused: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "partitioner": partitioner,
                "linger.ms": 2,
                **_CLIENT,
            }
        )

    def _delivered(self, error: KafkaError | None, stored: Message) -> None:
        partition = stored.partition()
        if error is not None or partition is None:
            self._refused.append(str(error))
        else:
            self.partitions.add(partition)

    def work(self) -> None:
        while not self.stopping.is_set():
            for key in range(KEYS):
                message = Sent(self._number, key, self.counts[self._number, key])
                self.counts[message.of] += 1
                self._producer.produce(
                    self._topic,
                    message.encoded(),
                    key=b"key-%d-%d" % message.of,
                    on_delivery=self._delivered,
                )
            self._producer.poll(PAUSE_S)
            time.sleep(PAUSE_S)
        left = self._producer.flush(FLUSH_S)
        assert not left, f"{left} messages were not answered"
        assert not self._refused, self._refused[:3]


class Member(Worker):
    """Of a group that reads by offset. New partitions begin at their end, if nobody says else."""

    def __init__(self, bootstrap: str, topic: str, group: History, kind: str, number: int) -> None:
        super().__init__(f"{group.name}-{number}")
        self._topic = topic
        self._group = group
        self.assigned: set[int] = set()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group.name,
                "client.id": self.name,
                "auto.offset.reset": "latest",
                "enable.auto.offset.store": False,
                "auto.commit.interval.ms": 500,
                "fetch.wait.max.ms": 50,
                **KINDS[kind],
                **_CLIENT,
            }
        )

    def work(self) -> None:
        consumer = self._consumer
        consumer.subscribe([self._topic])
        try:
            while not self.stopping.is_set():
                message = consumer.poll(_POLL_S)
                if message is None or message.error() is not None:
                    self.assigned = {each.partition for each in consumer.assignment()}
                    continue
                self._group.note(_seen(message, time.time(), self.name))
                self._store(message)
        finally:
            consumer.close()

    def _store(self, message: Message) -> None:
        """Of what may be committed from now on; not of a partition that was just taken away."""
        try:
            self._consumer.store_offsets(message)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._STATE:
                raise


class ShareMember(Worker):
    def __init__(self, bootstrap: str, topic: str, group: History, number: int) -> None:
        super().__init__(f"{group.name}-{number}")
        self._topic = topic
        self._group = group
        self._consumer = ShareConsumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group.name,
                "share.acknowledgement.mode": "explicit",
                **_CLIENT,
            }
        )

    def work(self) -> None:
        consumer = self._consumer
        consumer.subscribe([self._topic])
        try:
            while not self.stopping.is_set():
                found = [each for each in consumer.poll(_POLL_S) if each.error() is None]
                now = time.time()
                seen = [_seen(message, now, self.name) for message in found]
                self._group.note(*seen)
                for message in found:
                    consumer.acknowledge(message, AcknowledgeType.ACCEPT)
                # Before it is sent: the broker may be quicker than the answer.
                self._group.note(*(each._replace(is_acknowledged=True) for each in seen))
                if found:
                    consumer.commit_sync(FLUSH_S)
        finally:
            consumer.close()


def _seen(message: Message, now_s: float, member: str) -> Seen:
    value, partition = message.value(), message.partition()
    kind, stamp_ms = message.timestamp()
    assert value is not None
    assert partition is not None
    assert kind != TIMESTAMP_NOT_AVAILABLE
    return Seen(sent_in(value), partition, now_s - stamp_ms / 1_000, now_s, member)

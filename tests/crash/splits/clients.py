"""Producers and members of share groups, each in a thread of its own."""

import threading
import time
from collections import defaultdict
from itertools import cycle
from typing import Any, Final

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    AcknowledgeType,
    KafkaError,
    Message,
    Producer,
    ShareConsumer,
)

from tests.crash.splits.history import History, Seen, Sent, sent_in

KEYS: Final = 20
FLUSH_S: Final = 60.0
POLL_S: Final = 0.1

CLIENT: Final[dict[str, Any]] = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "log_level": 0,
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
    """One message after another, of one key after another."""

    def __init__(
        self, bootstrap: str, topic: str, number: int, partitioner: str, pause_s: float
    ) -> None:
        super().__init__(f"sender-{number}")
        self._pause_s = pause_s
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
                **CLIENT,
            }
        )

    def _delivered(self, error: KafkaError | None, stored: Message) -> None:
        partition = stored.partition()
        if error is not None or partition is None:
            self._refused.append(str(error))
        else:
            self.partitions.add(partition)

    def work(self) -> None:
        next_s = time.monotonic()
        for key in cycle(range(KEYS)):
            if self.stopping.is_set():
                break
            message = Sent(self._number, key, self.counts[self._number, key])
            self.counts[message.of] += 1
            self._producer.produce(
                self._topic,
                message.encoded(),
                key=b"key-%d-%d" % message.of,
                on_delivery=self._delivered,
            )
            self._producer.poll(0)
            next_s += self._pause_s
            time.sleep(max(0.0, next_s - time.monotonic()))
        left = self._producer.flush(FLUSH_S)
        assert not left, f"{left} messages were not answered"
        assert not self._refused, self._refused[:3]


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
                **CLIENT,
            }
        )

    def work(self) -> None:
        consumer = self._consumer
        consumer.subscribe([self._topic])
        try:
            while not self.stopping.is_set():
                found = [each for each in consumer.poll(POLL_S) if each.error() is None]
                now = time.time()
                seen = [seen_in(message, now, self.name) for message in found]
                self._group.note(*seen)
                for message in found:
                    consumer.acknowledge(message, AcknowledgeType.ACCEPT)
                # Before it is sent: the broker may be quicker than the answer.
                self._group.note(*(each._replace(is_acknowledged=True) for each in seen))
                if found:
                    consumer.commit_sync(FLUSH_S)
        finally:
            consumer.close()


def seen_in(message: Message, now_s: float, member: str) -> Seen:
    value, partition = message.value(), message.partition()
    kind, stamp_ms = message.timestamp()
    assert value is not None
    assert partition is not None
    assert kind != TIMESTAMP_NOT_AVAILABLE
    return Seen(sent_in(value), partition, now_s - stamp_ms / 1_000, now_s, member)

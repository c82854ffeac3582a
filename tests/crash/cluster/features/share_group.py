"""A share group (KIP-932) of librdkafka's consumers, which acknowledge each record by itself."""

import threading
import time
from itertools import count
from typing import ClassVar, Final

from confluent_kafka import (
    AcknowledgeType,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    ShareConsumer,
)

from tests.crash.cluster.features.calls import PATIENCE_S
from tests.crash.cluster.features.loads import Load, Surroundings, Worker
from tests.crash.cluster.features.queue_history import QueueHistory, not_older
from tests.crash.cluster.load import CLIENT
from tests.interop.test_share_groups import configure

TOPIC: Final = "work"
GROUP: Final = "workers"
CONSUMERS: Final = 2
COMMIT_S: Final = 10.0
LOCK_MS: Final = 5_000
PAUSE_S: Final = 0.1
# A consumer takes threads and connections: not one after the other while nobody answers.
NEW_CONSUMER_S: Final = 0.5


class ShareGroup(Load):
    name: ClassVar[str] = "share"

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        self.history = QueueHistory("share", returns=not_older)
        self.is_settling = threading.Event()
        self._numbers = count()

    def prepare(self) -> None:
        self.make_topic(TOPIC)
        configure(
            self.around.bootstrap_servers,
            GROUP,
            share_delivery_count_limit="1000",
            share_record_lock_duration_ms=str(LOCK_MS),
            # A consumer that could not say good-bye keeps its partitions for this long.
            share_session_timeout_ms="6000",
            share_heartbeat_interval_ms="500",
        )
        self._producer = _Producer(self)
        self.workers.append(self._producer)
        for number in range(CONSUMERS):
            self.workers.append(_Consumer(self, number))

    def next_value(self) -> str:
        value = f"work-{next(self._numbers)}"
        self.history.sent.add(value)
        return value

    def settle(self) -> None:
        self.end(self._producer)
        self.is_settling.set()
        self.until(lambda: not self.history.open_values())
        # Whatever should not come would come when the last locks are over.
        time.sleep(LOCK_MS / 1000 + 1.0)
        self.end()

    def violations(self) -> list[str]:
        return self.history.violations()

    def figures(self) -> dict[str, object]:
        return self.history.figures()


class _Producer(Worker):
    def __init__(self, load: ShareGroup) -> None:
        super().__init__("share: producer", self.work)
        self._load = load

    def work(self) -> None:
        producer = Producer(
            {
                **CLIENT,
                "bootstrap.servers": self._load.around.bootstrap_servers,
                "enable.idempotence": True,
                "message.timeout.ms": 0,
            }
        )
        while not self.ended.is_set():
            for _ in range(3):
                producer.produce(TOPIC, self._load.next_value().encode(), on_delivery=self._stored)
            producer.poll(PAUSE_S)
            self.ended.wait(PAUSE_S)
        assert producer.flush(PATIENCE_S) == 0

    def _stored(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise KafkaException(error)
        self._load.history.was_stored((message.value() or b"").decode())


class _Consumer(Worker):
    def __init__(self, load: ShareGroup, number: int) -> None:
        super().__init__(f"share: consumer {number}", self.work)
        self._load = load
        self._chance = load.chance()

    def work(self) -> None:
        while not self.ended.is_set():
            began = time.monotonic()
            try:
                self._consume()
            except KafkaException as failure:
                error: KafkaError = failure.args[0]
                self._load.calls.failed("consumer", error.name(), began, error.str())
                self.ended.wait(NEW_CONSUMER_S)

    def _consume(self) -> None:
        consumer = ShareConsumer(
            {
                **CLIENT,
                "bootstrap.servers": self._load.around.bootstrap_servers,
                "group.id": GROUP,
                "share.acknowledgement.mode": "explicit",
                "max.poll.records": 20,
            }
        )
        consumer.subscribe([TOPIC])
        try:
            while not self.ended.is_set():
                asked_at = time.monotonic()
                messages = [each for each in consumer.poll(0.2) if not self._is_trouble(each)]
                if messages:
                    self._handle(consumer, messages, asked_at)
        finally:
            consumer.close()

    def _is_trouble(self, message: Message) -> bool:
        error = message.error()
        if error is not None:
            self._load.calls.failed("poll", error.name(), time.monotonic(), error.str())
        return error is not None

    def _handle(self, consumer: ShareConsumer, messages: list[Message], asked_at: float) -> None:
        history = self._load.history
        came_at = time.monotonic()
        accepted = []
        for message in messages:
            value = (message.value() or b"").decode()
            times = message.delivery_count() or 1
            place = (message.partition(), message.offset())
            history.was_delivered(value, times, asked_at, came_at, place)
            accepts = self._load.is_settling.is_set() or self._chance.random() < 0.85
            how = AcknowledgeType.ACCEPT if accepts else AcknowledgeType.RELEASE
            consumer.acknowledge(message, how)
            if accepts:
                accepted.append(
                    (message.partition() or 0, history.acknowledges(value, times, came_at))
                )
        began = time.monotonic()
        answers = {each.partition: e for each, e in consumer.commit_sync(COMMIT_S).items()}
        for failure in answers.values():
            if failure is not None:
                # It may have counted, also if a repetition by the client was refused.
                error: KafkaError = failure.args[0]
                self._load.calls.failed("acknowledge", error.name(), began, error.str())
        now = time.monotonic()
        for partition, acknowledgement in accepted:
            if answers.get(partition, KafkaException()) is None:
                acknowledgement.answered_at = now
                self._load.calls.answered()

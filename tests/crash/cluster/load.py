"""Clients that work while the cluster fails, and note what they are told: all librdkafka.

Each is a thread. What it cannot know, it notes as unknown; what must not happen ends it with
`failure`, which the rounds look at.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from tests.crash.cluster.history import History, Outcome, Place

LOG: Final = "log"
LEDGER: Final = "ledger"
GROUP: Final = "readers"
PARTITIONS: Final = 3

# A client that waits a minute for a paused broker says nothing about the cluster: short patience.
CLIENT: Final[dict[str, Any]] = {
    "socket.timeout.ms": 3_000,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 250,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 200,
    "topic.metadata.refresh.interval.ms": 1_000,
    "topic.metadata.refresh.fast.interval.ms": 50,
    # While every broker is away at once, it keeps what it knows of them.
    "metadata.recovery.strategy": "none",
    "log_level": 0,
}
# Enough to notice a gap of a hundredth of a second, and little to read back.
_PAUSE_S: Final = 0.01
_WAITING_MAX: Final = 3_000
_CALL_S: Final = 5.0
# A client takes threads and connections: not one after the other while nobody answers.
_NEW_CLIENT_S: Final = 0.5


class Client(threading.Thread):
    def __init__(self, bootstrap: str, history: History) -> None:
        super().__init__(daemon=True)
        self.failure: BaseException | None = None
        # What went wrong and was borne, by its name.
        self.troubles: Counter[str] = Counter()
        self.bootstrap_servers = bootstrap
        self._history = history
        self._ended = threading.Event()

    def end(self) -> None:
        self._ended.set()

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:
            self.failure = error

    def work(self) -> None:
        raise NotImplementedError


class Writer(Client):
    """One idempotent producer that writes to every partition all the time, with acks=all."""

    def __init__(self, bootstrap: str, history: History) -> None:
        super().__init__(bootstrap, history)
        # When the last answer of each partition came, and how long one was waited for.
        self.last_answers = [time.monotonic()] * PARTITIONS
        self.gaps: list[tuple[float, float]] = []
        self._waiting = 0

    def work(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "request.timeout.ms": 2_000,
                "message.timeout.ms": 0,
                **CLIENT,
            }
        )
        number = 0
        while not self._ended.is_set():
            if self._waiting < _WAITING_MAX:
                for partition in range(PARTITIONS):
                    value = b"%d-%d" % (partition, number)
                    self._history.sent((LOG, partition), value)
                    self._waiting += 1
                    producer.produce(LOG, value, partition=partition, on_delivery=self._answered)
                number += 1
            producer.poll(_PAUSE_S)
            self._ended.wait(_PAUSE_S)
        while self._waiting:
            producer.poll(0.1)

    def _answered(self, error: KafkaError | None, message: Message) -> None:
        self._waiting -= 1
        if error is not None:
            # Nothing limits how often it tries again: an error here is one for good.
            raise KafkaException(error)
        now, partition = time.monotonic(), message.partition() or 0
        self.gaps.append((now, now - self.last_answers[partition]))
        self.last_answers[partition] = now
        place = (LOG, partition)
        offset = message.offset()
        told = offset if offset is not None and offset >= 0 else None
        self._history.was_acknowledged(place, told, message.value() or b"")

    def longest_gap_s(self, since: float) -> float:
        """The longest time without an answer for a partition that reached beyond `since`."""
        open_gaps = [time.monotonic() - last for last in self.last_answers]
        recent = reversed(self.gaps)
        closed = []
        for end, gap in recent:
            if end < since:
                break
            closed.append(gap)
        return max([*closed, *open_gaps])


class Booker(Client):
    """Transactions over all partitions, some of which are aborted."""

    def __init__(self, bootstrap: str, history: History, seed: int) -> None:
        super().__init__(bootstrap, history)
        self._random = random.Random(seed)
        self._number = 0

    def work(self) -> None:
        while not self._ended.is_set():
            try:
                self._book_with_one_producer()
            except KafkaException as failure:
                # The producer is of no use any more. What it left open, the next one ends.
                self.troubles[f"new producer after {failure.args[0].name()}"] += 1
                self._ended.wait(_NEW_CLIENT_S)

    def _book_with_one_producer(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "transactional.id": "booker",
                "transaction.timeout.ms": 20_000,
                "request.timeout.ms": 2_000,
                **CLIENT,
            }
        )
        _patiently(lambda: producer.init_transactions(_CALL_S), self._ended)
        while not self._ended.is_set():
            self._book(producer)

    def _book(self, producer: Producer) -> None:
        producer.begin_transaction()
        transaction = self._history.began()
        for _ in range(self._random.randint(1, 6)):
            partition = self._random.randrange(PARTITIONS)
            value = b"t%d" % self._number
            self._number += 1
            transaction.values.append(((LEDGER, partition), value))
            producer.produce(LEDGER, value, partition=partition)
        try:
            if self._random.random() < 0.2:
                _patiently(lambda: producer.abort_transaction(_CALL_S))
                transaction.outcome = Outcome.ABORTED
            else:
                _patiently(lambda: producer.commit_transaction(_CALL_S))
                transaction.outcome = Outcome.COMMITTED
        except KafkaException as failure:
            error: KafkaError = failure.args[0]
            if not error.txn_requires_abort():
                raise
            self.troubles[f"abort after {error.name()}"] += 1
            _patiently(lambda: producer.abort_transaction(_CALL_S))
            transaction.outcome = Outcome.ABORTED
        self._ended.wait(_PAUSE_S)


# Of a member that is missed soon.
CLASSIC: Final[dict[str, Any]] = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 500}


class Reader(Client):
    """A member of a group that reads committed values and commits where it is."""

    def __init__(
        self,
        bootstrap: str,
        history: History,
        topics: Sequence[str] = (LOG, LEDGER),
        group: str = GROUP,
        protocol: dict[str, Any] = CLASSIC,
    ) -> None:
        super().__init__(bootstrap, history)
        self._topics = list(topics)
        self._group = group
        self._protocol = protocol

    def work(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": self._group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                **self._protocol,
                **CLIENT,
            }
        )
        consumer.subscribe(self._topics, on_assign=self._assigned)
        try:
            while not self._ended.is_set():
                messages = consumer.consume(500, 0.2)
                good = [message for message in messages if message.error() is None]
                for message in good:
                    place = (message.topic() or "", message.partition() or 0)
                    value = message.value() or b""
                    self._history.was_read(place, message.offset() or 0, value)
                if good:
                    self._commit(consumer)
        finally:
            consumer.close()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        at_least = self._history.group_offsets()
        found: list[TopicPartition] = []

        def ask() -> None:
            found[:] = consumer.committed(partitions, _CALL_S)

        _patiently(ask, self._ended)
        for partition in found:
            place: Place = (partition.topic, partition.partition)
            if partition.error is None:
                self._history.group_found(place, max(partition.offset, 0), at_least.get(place, 0))

    def _commit(self, consumer: Consumer) -> None:
        try:
            done = consumer.commit(asynchronous=False)
        except KafkaException as failure:
            self.troubles[f"no commit by {failure.args[0].name()}"] += 1
            # Whoever has the partitions next reads from the last commit that was answered.
            return
        for partition in done or ():
            if partition.error is None and partition.offset >= 0:
                self._history.group_committed(
                    (partition.topic, partition.partition), partition.offset
                )


def _patiently(call: Callable[[], None], ended: threading.Event | None = None) -> None:
    """Again while the client says that it is worth a try."""
    while True:
        try:
            return call()
        except KafkaException as failure:
            error: KafkaError = failure.args[0]
            is_worth_it = error.retriable() or error.code() == KafkaError._TIMED_OUT
            if not is_worth_it or (ended is not None and ended.is_set()):
                raise
            time.sleep(_PAUSE_S)

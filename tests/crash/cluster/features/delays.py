"""Delayed messages, over HTTP and by a header of Kafka's producer; some are cancelled.

Beside them the topic can hold as many as one likes that are due hours later.
"""

import random
import time
from collections.abc import Callable
from itertools import count
from typing import Any, ClassVar, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from goqueue.client.http_api import HttpApi, HttpRefused
from tests.busy_machine import stretched
from tests.crash.cluster.features.calls import PATIENCE_S, RETRY_S, AnyBroker, NotAnswered, any_http
from tests.crash.cluster.features.delay_history import Arrival, Cancelling, Delayed, DelayHistory
from tests.crash.cluster.features.loads import PARTITIONS, Load, Surroundings, Worker
from tests.crash.cluster.load import CLIENT

TOPIC: Final = "later"
DELAYS_MS: Final = (500, 20_000)
CANCEL_TRIES: Final = 6
# Those that wait beside the others: beyond any test, some in memory and some on disk.
HOUR_MS: Final = 3_600_000
PENDING_HOURS: Final = (3, 8)
# Scheduling is work: what is accepted in this time without an end is too slow to be waited for.
PENDING_S: Final = 1_800.0
_PENDING_AHEAD: Final = 50_000
VALUE_BYTES: Final = 100
PAGE: Final = 1_000


class Delays(Load):
    name: ClassVar[str] = "delays"

    def __init__(self, around: Surroundings, pending: int) -> None:
        super().__init__(around)
        self.history = DelayHistory()
        self.pending_count = pending
        self.pending_at_end: int | None = None
        self._missing: set[int] = set()
        self._numbers = count()

    def prepare(self) -> None:
        self.make_topic(TOPIC)
        self._schedule_pending()
        broker = any_http(self.around.http_urls, self.calls, self.chance())
        chance = self.chance()
        self._senders = [
            self.worker("sender", lambda: self._send(broker, chance), 0.1),
            self.worker("canceller", self._canceller(), 0.1),
            _HeaderProducer(self),
        ]
        self._reader = _Reader(self)
        self.workers += [self._senders[2], self._reader]

    def _schedule_pending(self) -> None:
        if not self.pending_count:
            return
        producer = Producer(
            {
                **CLIENT,
                "bootstrap.servers": self.around.bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 50,
                "message.timeout.ms": 0,
            }
        )
        chance, now_ms = self.chance(), _now_ms()
        deadline = time.monotonic() + stretched(PENDING_S)
        begin_ms, end_ms = (hours * HOUR_MS for hours in PENDING_HOURS)
        for number in range(self.pending_count):
            due_ms = now_ms + chance.randrange(begin_ms, end_ms)
            value = (b"pending-%d " % number).ljust(VALUE_BYTES, b".")
            producer.produce(
                TOPIC,
                value,
                partition=number % PARTITIONS,
                headers={"goqueue-deliver-at": b"%d" % due_ms},
                on_delivery=_must_be_taken,
            )
            while len(producer) > _PENDING_AHEAD:
                assert time.monotonic() < deadline, f"only {number} are scheduled"
                producer.poll(0.05)
        assert producer.flush(max(1.0, deadline - time.monotonic())) == 0

    def next_value(self) -> str:
        return f"later-{next(self._numbers)}"

    # --- work -----------------------------------------------------------------------------

    def _send(self, broker: AnyBroker[HttpApi], chance: random.Random) -> None:
        """Sent once: a request that fails is not repeated."""
        value, delay_ms = self.next_value(), chance.randint(*DELAYS_MS)
        sent = self.history.sends(value, _now_ms() + delay_ms)
        body = {"value": value, "delay": delay_ms, "partition": chance.randrange(PARTITIONS)}
        answer = broker.ask("publish", lambda api: api.post("topics", TOPIC, "messages", body=body))
        sent.due_ms, sent.taken_at_ms = answer["timestamp"], _now_ms()
        if delay_ms > 2_000 and chance.random() < 0.1:
            self._to_cancel.append((answer["id"], sent))

    def _canceller(self) -> Callable[[], None]:
        broker, chance = any_http(self.around.http_urls, self.calls, self.chance()), self.chance()
        self._to_cancel: list[tuple[str, Delayed]] = []

        def step() -> None:
            if self._to_cancel and chance.random() < 0.5:
                message_id, sent = self._to_cancel.pop(chance.randrange(len(self._to_cancel)))
                self._cancel(broker, message_id, sent)

        return step

    def _cancel(self, broker: AnyBroker[HttpApi], message_id: str, sent: Delayed) -> None:
        for _ in range(CANCEL_TRIES):
            try:
                broker.ask("cancel", lambda api: api.delete("topics", TOPIC, "delayed", message_id))
            except NotAnswered:
                sent.cancelling = Cancelling.UNKNOWN
                time.sleep(2 * RETRY_S)
            except HttpRefused as refusal:
                if refusal.reason == "too_late_to_cancel":
                    sent.cancelling = Cancelling.NOT
                elif refusal.reason != "unknown_delayed_message":
                    raise
                # It does not wait: by a try without an answer, or because it was delivered.
                return
            else:
                sent.cancelling = Cancelling.DONE
                return

    def was_paused(self, begin_ms: int, end_ms: int) -> None:
        self.history.pauses_ms.append((begin_ms, end_ms))

    # --- the end --------------------------------------------------------------------------

    def settle(self) -> None:
        self.end(*self._senders)
        # All are due by then; whatever comes twice comes soon.
        self.until(lambda: not self.history.open_values())
        time.sleep(2.0)
        self.end()
        if self.pending_count:
            api = HttpApi(self.around.http_urls[0])
            self.pending_at_end = _counted(api)
            if self.pending_at_end != self.pending_count:
                self._missing = set(range(self.pending_count)) - _listed(api)

    def violations(self) -> list[str]:
        found = self.history.violations()
        if self.pending_at_end not in (None, self.pending_count):
            found.append(
                f"delays: {self.pending_at_end} of {self.pending_count} are pending by count; "
                f"{len(self._missing)} are not listed: {sorted(self._missing)[:10]}"
            )
        return found

    def figures(self) -> dict[str, object]:
        return {**self.history.figures(), "pending beside them": self.pending_count}


def _must_be_taken(error: KafkaError | None, _: Message) -> None:
    if error is not None:
        raise KafkaException(error)


def _counted(api: HttpApi) -> int:
    stats: dict[str, Any] = api.get("delay", "stats")
    return sum(each["pending"] for each in stats["topics"] if each["topic"] == TOPIC)


def _listed(api: HttpApi) -> set[int]:
    """Numbers of those that wait for hours."""
    found: set[int] = set()
    after: str | None = None
    while True:
        page = api.get("topics", TOPIC, "delayed", limit=PAGE, after=after)
        found |= {int(each["value"].split()[0].rpartition("-")[2]) for each in page["messages"]}
        after = page["nextAfter"]
        if after is None:
            return found


class _HeaderProducer(Worker):
    """Delays by a header; idempotent, so that what it must send again is scheduled once."""

    def __init__(self, load: Delays) -> None:
        super().__init__("delays: by header", self.work)
        self._load = load
        self._chance = load.chance()
        self._waiting: dict[str, tuple[Delayed, int]] = {}

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
            value = self._load.next_value()
            due_ms = _now_ms() + self._chance.randint(*DELAYS_MS)
            self._waiting[value] = (self._load.history.sends(value, due_ms), due_ms)
            producer.produce(
                TOPIC,
                value.encode(),
                partition=self._chance.randrange(PARTITIONS),
                headers={"goqueue-deliver-at": b"%d" % due_ms},
                on_delivery=self._taken,
            )
            producer.poll(0.1)
            self.ended.wait(0.1)
        assert producer.flush(PATIENCE_S) == 0

    def _taken(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise KafkaException(error)
        sent, due_ms = self._waiting.pop((message.value() or b"").decode())
        sent.due_ms, sent.taken_at_ms = due_ms, _now_ms()
        self._load.calls.answered()


class _Reader(Worker):
    """Sees what arrives, as soon as it does."""

    def __init__(self, load: Delays) -> None:
        super().__init__("delays: reader", self.work)
        self._load = load

    def work(self) -> None:
        consumer = Consumer(
            {
                **CLIENT,
                "bootstrap.servers": self._load.around.bootstrap_servers,
                "group.id": "nobody",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        consumer.assign([TopicPartition(TOPIC, each, 0) for each in range(PARTITIONS)])
        try:
            while not self.ended.is_set():
                for message in consumer.consume(100, 0.1):
                    if message.error() is None:
                        value = (message.value() or b"").decode()
                        place = (message.partition() or 0, message.offset() or 0)
                        arrival = Arrival(place, message.timestamp()[1], _now_ms())
                        self._load.history.has_arrived(value, arrival)
        finally:
            consumer.close()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000

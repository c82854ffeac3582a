"""The longest time that a producer with acks=all waits for an answer when its leader goes."""

import threading
import time
from typing import Any, Final

from confluent_kafka import KafkaError, Message, Producer

# The same for both: a client with the defaults' patience (a minute) would measure itself.
CLIENT: Final[dict[str, Any]] = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 1,
    "request.timeout.ms": 2_000,
    "socket.timeout.ms": 3_000,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 200,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 250,
    "topic.metadata.refresh.fast.interval.ms": 50,
    "message.timeout.ms": 60_000,
    "log_level": 0,
}
_PAUSE_S: Final = 0.005


class SteadyProducer(threading.Thread):
    """Writes to one partition all the time, and notes when answers come."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": bootstrap, **CLIENT})
        self._topic = topic
        self._ended = threading.Event()
        self.failed = 0
        self.answered = time.monotonic()
        self._gaps: list[tuple[float, float]] = []

    def run(self) -> None:
        while not self._ended.is_set():
            self._producer.produce(self._topic, b"x" * 100, partition=0, on_delivery=self._note)
            self._producer.poll(_PAUSE_S)
        self._producer.flush(30)

    def end(self) -> None:
        self._ended.set()
        self.join()

    def _note(self, error: KafkaError | None, _: Message) -> None:
        self.failed += error is not None
        now = time.monotonic()
        self._gaps.append((now, now - self.answered))
        self.answered = now

    def longest_s(self, since: float) -> float:
        """The longest gap that ended after `since`."""
        return max(gap for end, gap in list(self._gaps) if end >= since)

"""SIGKILL while a queue is worked off: what was acknowledged never comes back, the rest does.

Readers keep a record of every acknowledgement that was answered. `QUEUE_CRASH_ROUNDS` in the
environment makes it a longer run.
"""

import os
import random
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from goqueue.client.http_api import HttpApi, HttpRefused, HttpUnreachable
from goqueue.testing import ServerProcess

ROUNDS = int(os.environ.get("QUEUE_CRASH_ROUNDS", "6"))
MESSAGES_PER_ROUND = 300
READERS = 3
WAIT_SECONDS = 60.0


@dataclass
class ClientRecord:
    published: set[str] = field(default_factory=set)
    delivered: set[str] = field(default_factory=set)
    # An acknowledgement whose answer was lost may have counted.
    attempted: set[str] = field(default_factory=set)
    acknowledged: set[str] = field(default_factory=set)
    came_back: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)
    progress: threading.Event = field(default_factory=threading.Event)
    wanted: int = 0


class Reader(threading.Thread):
    """Polls and acknowledges until told to stop; goes on over a broker's death."""

    def __init__(self, url: str, record: ClientRecord, seed: int) -> None:
        super().__init__(daemon=True)
        self.stopping = threading.Event()
        self._api = HttpApi(url)
        self._record = record
        self._dice = random.Random(seed)

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                self._take_some()
            except (HttpUnreachable, HttpRefused):
                self.stopping.wait(0.05)

    def _take_some(self) -> None:
        answer = self._api.get("groups", "g", "poll", topic="work", max=20, timeout=200)
        messages: list[dict[str, Any]] = answer["messages"]
        with self._record.lock:
            for message in messages:
                self._record.delivered.add(message["value"])
                if message["value"] in self._record.acknowledged:
                    self._record.came_back.add(message["value"])
        # Some are left to run out or to be delivered after the crash.
        done = [message for message in messages if self._dice.random() < 0.9]
        left = [message for message in messages if message not in done]
        if left:
            receipts = [message["receipt"] for message in left]
            self._api.post("messages", "nack", body={"group": "g", "receipts": receipts})
        if not done:
            return
        receipts = [message["receipt"] for message in done]
        with self._record.lock:
            self._record.attempted.update(message["value"] for message in done)
        answer = self._api.post("messages", "ack", body={"group": "g", "receipts": receipts})
        with self._record.lock:
            for message, result in zip(done, answer["results"], strict=True):
                if result["error"] is None:
                    self._record.acknowledged.add(message["value"])
            if len(self._record.acknowledged) >= self._record.wanted:
                self._record.progress.set()


def publish(url: str, record: ClientRecord, first: int) -> None:
    values = [f"job-{number}" for number in range(first, first + MESSAGES_PER_ROUND)]
    body = {"messages": [{"value": value} for value in values]}
    HttpApi(url).post("topics", "work", "messages", body=body)
    record.published.update(values)


def wait_until_empty(url: str) -> None:
    give_up_at = time.monotonic() + WAIT_SECONDS
    while True:
        queues = HttpApi(url).get("reliability", "stats")["queues"]
        open_messages = sum(q["ready"] + q["inFlight"] + q["waiting"] for q in queues)
        if queues and not open_messages:
            return
        assert time.monotonic() < give_up_at, f"{open_messages} messages are left: {queues}"
        time.sleep(0.05)


def test_acknowledged_messages_never_come_back(tmp_path: Path) -> None:
    dice = random.Random(7)
    record = ClientRecord()
    # Leases of readers whose answer was lost run out soon.
    settings = {"retry.backoff.ms": 10, "max.deliveries": 0, "visibility.timeout.ms": 3_000}
    options = [f"--set=topic.queue.{name}={value}" for name, value in settings.items()]
    with ServerProcess(tmp_path / "data", *options) as broker:
        readers = [Reader(broker.http_url, record, seed) for seed in range(READERS)]
        for reader in readers:
            reader.start()
        try:
            for round_number in range(ROUNDS):
                publish(broker.http_url, record, round_number * MESSAGES_PER_ROUND)
                with record.lock:
                    record.progress.clear()
                    record.wanted = len(record.acknowledged) + dice.randrange(1, 250)
                assert record.progress.wait(WAIT_SECONDS), "readers make no progress"
                broker.sigkill()
                broker.restart()
            wait_until_empty(broker.http_url)
        finally:
            for reader in readers:
                reader.stopping.set()
            for reader in readers:
                reader.join(10)
    assert record.came_back == set()
    assert record.delivered >= record.published
    assert record.attempted >= record.published

"""SIGKILL while messages are delayed, fall due and are cancelled: each arrives exactly once.

An idempotent producer sends on over all kills, some messages with a delay by header, some without.
In the end everything that it sent is in the topic once, none before its time, and none that a
client was told is cancelled.
"""

import http.client
import json
import random
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from goqueue.testing import ServerProcess

TOPIC = "later"
PARTITIONS = 2
DELAYS_MS = (0, 20, 200, 1_500)
WAIT_SECONDS = 240.0
TOO_LATE = 409


class Sender(threading.Thread):
    """Sends numbered messages until told to stop; remembers their due times and what was acked."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.stopping = threading.Event()
        self.due_ms: dict[bytes, int] = {}
        self.acknowledged: set[bytes] = set()
        self.errors: list[KafkaError] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                # None: kills on a busy machine hold messages up for minutes.
                "message.timeout.ms": 0,
                # What is sent last is waited for, too.
                "queue.buffering.max.messages": 2_000,
                "linger.ms": 5,
                "batch.num.messages": 100,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        chance = random.Random(5)
        number = 0
        while not self.stopping.is_set():
            value = b"%d" % number
            delay_ms = chance.choice(DELAYS_MS)
            headers: list[tuple[str, str | bytes | None]] = []
            if chance.random() < 0.7:
                headers.append(("goqueue-delay-ms", b"%d" % delay_ms))
            sent_ms = int(time.time() * 1000)
            try:
                self._producer.produce(
                    TOPIC,
                    value,
                    partition=number % PARTITIONS,
                    headers=headers,
                    on_delivery=self._done,
                )
            except BufferError:
                self._producer.poll(0.05)
                continue
            self.due_ms[value] = sent_ms + (delay_ms if headers else 0)
            number += 1
            self._producer.poll(0.0005)
        assert self._producer.flush(WAIT_SECONDS) == 0

    def _done(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error)
            return
        value = message.value()
        assert value is not None
        self.acknowledged.add(value)


class Canceller(threading.Thread):
    """Schedules messages over HTTP and cancels some of them, whatever becomes of the answers."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.stopping = threading.Event()
        self.cancelled: set[bytes] = set()
        self.must_arrive: set[bytes] = set()
        self.refusals: Counter[int] = Counter()
        self._url = url

    def run(self) -> None:
        chance = random.Random(6)
        number = 0
        while not self.stopping.is_set():
            number += 1
            value = f"http-{number}"
            body = {"value": value, "delay": chance.choice((50, 300, 3_000)), "partition": 0}
            try:
                stored = self._send("POST", f"/topics/{TOPIC}/messages", body)
                assert isinstance(stored, dict)
                if chance.random() < 0.5:
                    self.must_arrive.add(value.encode())
                    continue
                # Should the broker die before it answers, nobody knows whether it was cancelled.
                self._send("DELETE", f"/topics/{TOPIC}/delayed/{stored['id']}")
                self.cancelled.add(value.encode())
            except urllib.error.HTTPError as refusal:
                self.refusals[refusal.code] += 1
                if refusal.code == TOO_LATE:
                    self.must_arrive.add(value.encode())
            except (OSError, http.client.HTTPException):
                self.stopping.wait(0.05)  # the broker is down

    def _send(self, method: str, path: str, body: object = None) -> object:
        data = None if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"} if data else {}
        request = urllib.request.Request(
            self._url + path, data=data, method=method, headers=headers
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            content = answer.read()
        return json.loads(content) if content else None


def pending(server: ServerProcess) -> int:
    with urllib.request.urlopen(f"{server.http_url}/delay/stats", timeout=60) as answer:
        found: int = json.loads(answer.read())["pending"]
    return found


def read_back(bootstrap: str) -> dict[int, list[tuple[bytes, int]]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "check.crcs": True,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    found: dict[int, list[tuple[bytes, int]]] = {partition: [] for partition in range(PARTITIONS)}
    ended: set[int | None] = set()
    try:
        while len(ended) < PARTITIONS:
            message = consumer.poll(WAIT_SECONDS)
            assert message is not None
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(message.partition())
                continue
            partition, value = message.partition(), message.value()
            assert partition is not None
            assert value is not None
            found[partition].append((value, message.timestamp()[1]))
    finally:
        consumer.close()
    return found


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("fsync_policy", ["always", "interval"])
def test_delayed_messages_arrive_exactly_once_over_kills(
    tmp_path: Path, fsync_policy: str, kills: int
) -> None:
    chance = random.Random(fsync_policy)
    options = ("--set", "log.level=warning", "--set", f"topic.fsync.policy={fsync_policy}")
    with ServerProcess(tmp_path, *options) as server:
        admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
        # Small segments, so that kills also fall on rolls.
        new = NewTopic(TOPIC, num_partitions=PARTITIONS, config={"segment.bytes": "100000"})
        admin.create_topics([new])[TOPIC].result(WAIT_SECONDS)
        sender, canceller = Sender(server.bootstrap_servers), Canceller(server.http_url)
        sender.start()
        canceller.start()
        for _ in range(kills):
            enough = len(sender.acknowledged) + chance.randint(50, 600)
            deadline = time.monotonic() + WAIT_SECONDS
            while len(sender.acknowledged) < enough:
                assert time.monotonic() < deadline, "the broker acknowledges too slowly"
                time.sleep(0.002)
            server.sigkill()
            server.restart()
        deadline = time.monotonic() + WAIT_SECONDS
        while not canceller.cancelled:
            assert time.monotonic() < deadline, "nothing could be cancelled"
            time.sleep(0.01)
        for thread in (sender, canceller):
            thread.stopping.set()
            thread.join(2 * WAIT_SECONDS)
            assert not thread.is_alive()
        deadline = time.monotonic() + WAIT_SECONDS
        while pending(server):
            assert time.monotonic() < deadline, "messages are still pending"
            time.sleep(0.05)
        found = read_back(server.bootstrap_servers)
        log_text = server.log_text

    assert not sender.errors
    assert sender.acknowledged == sender.due_ms.keys()
    counts = Counter(value for messages in found.values() for value, _ in messages)
    assert not [value for value, count in counts.items() if count > 1]
    assert not sender.acknowledged - counts.keys()
    assert not canceller.cancelled & counts.keys()
    assert not canceller.must_arrive - counts.keys()
    early = [
        value
        for messages in found.values()
        for value, timestamp_ms in messages
        if timestamp_ms < sender.due_ms.get(value, 0)
    ]
    assert not early
    assert "Traceback" not in log_text
    # The test itself: much was delayed, and some was cancelled.
    assert len(counts) > kills * 50
    assert canceller.cancelled
    # Too late, or the broker was just starting.
    assert canceller.refusals.keys() <= {TOO_LATE, 503}

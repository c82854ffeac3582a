"""Work of every kind beside a backup, and what must be true of a broker that was restored from it.

Each worker keeps a record of what it was told: what was stored, committed, acknowledged, scheduled.
`note_start` is called when the backup begins: all that was told before then must be in it.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import requests
from confluent_kafka import Consumer, KafkaException, Producer

from tests.busy_machine import stretched
from tests.interop.backups import committed_offsets, delayed, make_topic, produce, read

WAIT_SECONDS = 120.0
LOAD, PAIRS, JOBS, ALARMS = "load", "pairs", "jobs", "alarms"
PARTITIONS = 4
READERS, WORKERS = "readers", "workers"
JOB_COUNT = 2_000
VALUE_BYTES = 4_000
SOON_MS = 20_000


class Post:
    """One connection; what a broker says it will know soon is asked again."""

    def __init__(self, http_url: str) -> None:
        self._url = http_url
        self._session = requests.Session()

    def __call__(self, path: str, body: Any) -> Any:
        deadline = time.monotonic() + stretched(WAIT_SECONDS)
        while True:
            answer = self._session.post(self._url + path, json=body, timeout=WAIT_SECONDS)
            if answer.status_code != 503:
                assert answer.status_code < 300, answer.text
                return answer.json()
            assert time.monotonic() < deadline, answer.text
            time.sleep(0.05)


class Load:
    def __init__(
        self, bootstrap: str, http_url: str, *, seed: int, megabytes_a_second: float
    ) -> None:
        self._bootstrap = bootstrap
        self._http_url = http_url
        self._random = random.Random(seed)
        self._bytes_a_second = megabytes_a_second * 1_000_000
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self._failures: list[BaseException] = []
        # What was told, and how much of it before the backup began.
        self.latencies: list[float] = []
        self.stored = Counter[int]()
        self.pairs: list[int] = []
        self.acknowledged: list[str] = []
        self.scheduled: list[str] = []
        self._at_start: tuple[Counter[int], int, int, int] = (Counter(), 0, 0, 0)

    def make_topics(self, replicas: int) -> None:
        make_topic(self._bootstrap, LOAD, PARTITIONS, replicas=replicas, segment_bytes=str(2**26))
        make_topic(self._bootstrap, PAIRS, 2, replicas=replicas)
        make_topic(self._bootstrap, JOBS, 2, replicas=replicas)
        make_topic(self._bootstrap, ALARMS, 2, replicas=replicas)
        for partition in range(2):
            jobs = [b"job-%d-%d" % (partition, each) for each in range(JOB_COUNT // 2)]
            produce(self._bootstrap, JOBS, jobs, partition)

    def start(self) -> None:
        for work in (self._write, self._transact, self._consume, self._acknowledge, self._schedule):
            thread = threading.Thread(target=self._run, args=(work,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def note_start(self) -> None:
        """Wait until every worker has something to tell, and remember how much."""
        deadline = time.monotonic() + stretched(WAIT_SECONDS)
        while not (self.stored and self.pairs and self.acknowledged and self.scheduled):
            assert not self._failures, self._failures
            assert time.monotonic() < deadline, "a worker does not work"
            time.sleep(0.05)
        told = len(self.pairs), len(self.acknowledged), len(self.scheduled)
        self._at_start = (Counter(self.stored), *told)
        self.latencies.clear()

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        assert not self._failures, self._failures

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self._failures.append(error)

    # --- workers --------------------------------------------------------------------------

    def _write(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 5, "acks": "all"})
        filling = self._random.randbytes(VALUE_BYTES)
        began, sent = time.monotonic(), 0

        def told(at: float) -> Callable[[Any, Any], None]:
            def delivered(error: Any, message: Any) -> None:
                assert error is None, error
                self.latencies.append(time.monotonic() - at)
                self.stored[message.partition()] = message.offset() + 1

            return delivered

        while not self._over.is_set():
            value = b"%020d" % sent + filling
            partition = sent % PARTITIONS
            producer.produce(LOAD, value, partition=partition, on_delivery=told(time.monotonic()))
            sent += 1
            producer.poll(0)
            ahead = sent * VALUE_BYTES / self._bytes_a_second - (time.monotonic() - began)
            if ahead > 0:
                producer.poll(ahead)
        assert producer.flush(stretched(WAIT_SECONDS)) == 0

    def _transact(self) -> None:
        producer = Producer(
            {"bootstrap.servers": self._bootstrap, "transactional.id": "pairs", "acks": "all"}
        )
        producer.init_transactions(stretched(WAIT_SECONDS))
        number = 0
        while not self._over.is_set():
            producer.begin_transaction()
            for partition in range(2):
                producer.produce(PAIRS, b"%d" % number, partition=partition)
            assert producer.flush(stretched(WAIT_SECONDS)) == 0
            if number % 5 == 4:
                producer.abort_transaction(stretched(WAIT_SECONDS))
            else:
                producer.commit_transaction(stretched(WAIT_SECONDS))
                self.pairs.append(number)
            number += 1

    def _consume(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": READERS,
                "auto.offset.reset": "latest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([LOAD])
        try:
            while not self._over.is_set():
                if consumer.consume(500, 0.2):
                    try:
                        consumer.commit(asynchronous=False)
                    except KafkaException:
                        # A rebalance, or nothing to commit.
                        continue
        finally:
            consumer.close()

    def _acknowledge(self) -> None:
        post = Post(self._http_url)
        while not self._over.is_set():
            body = {"topic": JOBS, "timeout": 200, "max": 5}
            messages = post(f"/groups/{WORKERS}/receive", body)["messages"]
            if messages:
                receipts = [each["receipt"] for each in messages]
                results = post("/messages/ack", {"group": WORKERS, "receipts": receipts})["results"]
                self.acknowledged += [
                    each["value"]
                    for each, result in zip(messages, results, strict=True)
                    if result["error"] is None
                ]
            time.sleep(0.02)

    def _schedule(self) -> None:
        post = Post(self._http_url)
        number = 0
        while not self._over.is_set():
            name = f"alarm-{number}"
            delay = 3_600_000 if number % 3 == 0 else self._random.randrange(1, SOON_MS)
            body = {"value": name, "partition": number % 2, "delay": delay}
            post(f"/topics/{ALARMS}/messages", body)
            self.scheduled.append(name)
            number += 1
            time.sleep(0.01)

    # --- afterwards -----------------------------------------------------------------------

    def check(self, bootstrap: str, http_url: str, ends: dict[tuple[str, int], int]) -> None:
        """`ends` are those of the backup, by topic and partition."""
        stored, pairs, acknowledged, scheduled = self._at_start
        for partition, end in stored.items():
            assert ends[LOAD, partition] >= end, f"{LOAD}-{partition} lacks what was acknowledged"
        for partition, offset in enumerate(committed_offsets(bootstrap, READERS, LOAD, PARTITIONS)):
            assert offset <= ends[LOAD, partition], "an offset beyond the data"
        self._check_pairs(bootstrap, pairs)
        self._check_jobs(http_url, acknowledged)
        self._check_alarms(bootstrap, http_url, scheduled)

    def _check_pairs(self, bootstrap: str, known: int) -> None:
        """What was open is aborted by the producer's next life."""
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "pairs"})
        producer.init_transactions(stretched(WAIT_SECONDS))
        found: dict[int, list[int]] = {0: [], 1: []}
        for partition, _, _, value, _ in read(bootstrap, PAIRS, committed=True):
            assert value is not None
            found[partition].append(int(value))
        assert found[0] == found[1], "a transaction was torn"
        assert set(self.pairs[:known]) <= set(found[0]), "a committed transaction is missing"
        assert not [each for each in found[0] if each % 5 == 4], "an aborted one is there"

    def _check_jobs(self, http_url: str, known: int) -> None:
        post = Post(http_url)
        returned: list[str] = []
        # What was in somebody's hands comes back when its time is over.
        deadline = time.monotonic() + stretched(WAIT_SECONDS)
        expected = {f"job-{at % 2}-{at // 2}" for at in range(JOB_COUNT)} - set(self.acknowledged)
        while expected - set(returned):
            assert time.monotonic() < deadline, "a job is missing"
            body = {"topic": JOBS, "timeout": 1_000, "max": 100}
            messages = post(f"/groups/{WORKERS}/receive", body)["messages"]
            returned += [each["value"] for each in messages]
            if messages:
                receipts = [each["receipt"] for each in messages]
                post("/messages/ack", {"group": WORKERS, "receipts": receipts})
        again = set(returned) & set(self.acknowledged[:known])
        assert not again, "a job that was acknowledged came back"

    def _check_alarms(self, bootstrap: str, http_url: str, known: int) -> None:
        """Those of the next seconds are delivered; the others wait."""
        deadline = time.monotonic() + stretched(WAIT_SECONDS)
        soon_over_ms = time.time() * 1000 + 2 * SOON_MS
        while any(due < soon_over_ms for _, due, _ in self._pending(http_url)):
            assert time.monotonic() < deadline, "alarms are not delivered"
            time.sleep(0.2)
        rung = [bytes(value or b"").decode() for _, _, _, value, _ in read(bootstrap, ALARMS)]
        waiting = [value for _, _, value in self._pending(http_url)]
        seen = Counter(rung + waiting)
        assert not [each for each, count in seen.items() if count > 1], "one was delivered twice"
        missing = set(self.scheduled[:known]) - set(seen)
        assert not missing, "a delayed message is missing"

    def _pending(self, http_url: str) -> list[tuple[str, int, str]]:
        return delayed(http_url, ALARMS)

"""Kafka Streams itself, with `group.protocol=streams` (KIP-1071): it counts words.

Its jars come from where the benchmarks have their peers from.
"""

import asyncio
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.artifacts import KAFKA_VERSION, MavenArtifact, find_java, maven_class_path
from goqueue.client.admin import KafkaAdmin
from goqueue.client.group_facts import GroupFacts
from goqueue.client.groups import GroupAdmin
from goqueue.testing.ports import free_port
from tests.interop.servers import NewServer

PROGRAM = Path(__file__).parent / "streams_app" / "WordCount.java"
STREAMS = MavenArtifact(group="org.apache.kafka", artifact="kafka-streams", version=KAFKA_VERSION)
# A Java process that compiles the program first, on a busy machine.
WAIT_SECONDS = 120.0
GROUP = "word-count"

pytestmark = pytest.mark.slow


class Application:
    """One process; what it prints is kept."""

    def __init__(self, bootstrap: str, folder: Path, *settings: str) -> None:
        self.port = free_port()
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [
                *(find_java(), "-Xmx256m", "-cp", maven_class_path(STREAMS), str(PROGRAM)),
                *(bootstrap, GROUP, str(folder), str(self.port), *settings),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines += (line.rstrip() for line in self.process.stdout)

    def ask(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def answers(self) -> dict[str, int]:
        """The port of the process that has each word, as it was last told."""
        told = (line.split() for line in list(self.lines) if line.startswith("asked "))
        return {word: int(port) for _, word, port in told}

    def states(self) -> list[str]:
        return [line.split()[1] for line in list(self.lines) if line.startswith("state ")]

    def is_running(self) -> bool:
        assert self.process.poll() is None, "\n".join(self.lines[-40:])
        return self.states()[-1:] == ["RUNNING"]

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(WAIT_SECONDS)
        self._reading.join(WAIT_SECONDS)
        assert "stopped true" in self.lines, "\n".join(self.lines[-40:])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(WAIT_SECONDS)


@contextmanager
def application(bootstrap: str, folder: Path, *settings: str) -> Iterator[Application]:
    running = Application(bootstrap, folder, *settings)
    try:
        yield running
    finally:
        running.kill()


def wait_until(condition: Callable[[], bool], what: str) -> None:
    limit = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < limit, what
        time.sleep(0.1)


class Counts:
    """The last count of every word, read from the topic of results as committed."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.found: dict[str, int] = {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "reader",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        self._consumer.subscribe(["counts"])

    def are(self, expected: Counter[str]) -> bool:
        for message in self._consumer.consume(500, timeout=0.5):
            assert message.error() is None, message.error()
            key, value = message.key(), message.value()
            assert key is not None
            assert value is not None
            self.found[key.decode()] = int(value)
        return self.found == dict(expected)

    def close(self) -> None:
        self._consumer.close()


def make_topics(bootstrap: str, **partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = [NewTopic(name, count) for name, count in partitions.items()]
    for made in admin.create_topics(new).values():
        made.result(WAIT_SECONDS)


def send(bootstrap: str, lines: list[str]) -> Counter[str]:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number, line in enumerate(lines):
        producer.produce("lines", key=str(number), value=line)
    assert producer.flush(WAIT_SECONDS) == 0
    return Counter(word for line in lines for word in line.split(" "))


def know_both(one: Application, two: Application) -> bool:
    """Whether both know which of them has the counts of which words."""
    words = [f"word{number}" for number in range(11)]
    for each in (one, two):
        for word in words:
            each.ask(word)
    known = one.answers()
    return (
        known.keys() == set(words)
        and known == two.answers()
        and set(known.values()) == {one.port, two.port}
    )


async def described(bootstrap: str) -> GroupFacts:
    async with KafkaAdmin(bootstrap) as admin:
        facts = await GroupAdmin(admin).describe(GROUP)
    assert facts is not None
    return facts


LINES = [f"word{number % 7} word{number % 11} all" for number in range(300)]


def test_words_are_counted_by_threads_that_come_and_go(
    new_server: NewServer, tmp_path: Path
) -> None:
    with new_server(tmp_path / "data") as server:
        bootstrap = server.bootstrap_servers
        make_topics(bootstrap, lines=4, counts=1)
        counts = Counts(bootstrap)
        with application(bootstrap, tmp_path / "one", "num.stream.threads=2") as one:
            expected = send(bootstrap, LINES)
            wait_until(lambda: counts.are(expected), f"counts: {counts.found}")
            wait_until(one.is_running, f"states: {one.states()}")
            with application(bootstrap, tmp_path / "two") as two:
                wait_until(two.is_running, f"states: {two.states()}")
                expected += send(bootstrap, LINES)
                wait_until(lambda: counts.are(expected), f"counts: {counts.found}")

                wait_until(lambda: know_both(one, two), f"{one.lines[-11:]} {two.lines[-11:]}")
                facts = asyncio.run(described(bootstrap))
                assert (facts.type, facts.state) == ("streams", "Stable")
                held = [place for member in facts.members for place in member.partitions]
                # Three threads have four partitions of two topics.
                assert (len(facts.members), len(held), len(set(held))) == (3, 8, 8)
                two.stop()
            expected += send(bootstrap, LINES)
            wait_until(lambda: counts.are(expected), f"counts: {counts.found}")
            one.stop()
        counts.close()


def test_words_are_counted_exactly_once_through_kills_of_both_sides(
    new_server: NewServer, tmp_path: Path
) -> None:
    settings = ("processing.guarantee=exactly_once_v2",)
    # Kafka Streams waits for the end of a killed thread's session, and of its transaction.
    options = ("--set", "group.streams.session.timeout.ms=6000")
    with new_server(tmp_path / "data", *options) as server:
        bootstrap = server.bootstrap_servers
        make_topics(bootstrap, lines=2, counts=1)
        counts = Counts(bootstrap)
        with application(bootstrap, tmp_path / "one", *settings) as killed:
            expected = send(bootstrap, LINES)
            wait_until(lambda: counts.are(expected), f"counts: {counts.found}")
            expected += send(bootstrap, LINES)
            killed.kill()
        with application(bootstrap, tmp_path / "two", *settings) as last:
            wait_until(lambda: counts.are(expected), f"counts: {counts.found}")
            expected += send(bootstrap, LINES)
            server.sigkill()
            server.start()
            expected += send(bootstrap, LINES)
            wait_until(lambda: counts.are(expected), f"counts: {counts.found}")
            wait_until(last.is_running, f"states: {last.states()}")
            last.stop()
        counts.close()

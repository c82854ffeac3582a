"""Members and a producer with the client of Apache Kafka, in processes of their own."""

import subprocess
import time
from pathlib import Path
from typing import Final

from bench.artifacts import KAFKA, find_java, maven_class_path
from tests.crash.splits.clients import FLUSH_S, KEYS, Worker
from tests.crash.splits.history import History, Seen, sent_in

_PROGRAM: Final = Path(__file__).with_name("Clients.java")
_ASSIGNORS: Final = "org.apache.kafka.clients.consumer"
JAVA_KINDS: Final = {
    "java-consumer": "consumer",
    "java-range": f"{_ASSIGNORS}.RangeAssignor",
    "java-sticky": f"{_ASSIGNORS}.StickyAssignor",
    "java-cooperative": f"{_ASSIGNORS}.CooperativeStickyAssignor",
}


class _JavaWorker(Worker):
    """What it says is read until it ends; it ends when its input does."""

    def __init__(self, name: str, *arguments: str) -> None:
        super().__init__(name)
        command = [find_java(), "-Xmx256m", "-cp", maven_class_path(KAFKA), str(_PROGRAM)]
        self._process = subprocess.Popen(
            [*command, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def work(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said(*line.split())

    def said(self, word: str, *rest: str) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        assert self._process.stdin is not None
        if not self._process.stdin.closed:
            self._process.stdin.close()
        super().stop()
        assert self._process.wait(FLUSH_S) == 0, f"{self.name} ended with an error"


class JavaMembers(_JavaWorker):
    """All members of a group."""

    def __init__(self, bootstrap: str, topic: str, group: History, kind: str, count: int) -> None:
        super().__init__(
            group.name, "read", bootstrap, topic, group.name, JAVA_KINDS[kind], str(count)
        )
        self._group = group
        self.assigned: set[int] = set()

    def said(self, word: str, *rest: str) -> None:
        if word == "assigned":
            self.assigned.add(int(rest[0]))
        elif word == "seen":
            partition, value, delay_ms, member = rest
            delay_s = int(delay_ms) / 1_000
            sent = sent_in(value.encode())
            self._group.note(Seen(sent, int(partition), delay_s, time.time(), member))


class JavaSender(_JavaWorker):
    def __init__(self, bootstrap: str, topic: str, number: int) -> None:
        super().__init__(f"sender-{number}", "write", bootstrap, topic, str(number), str(KEYS))
        self._number = number
        self.counts: dict[tuple[int, int], int] = {}

    def said(self, word: str, *rest: str) -> None:
        assert word == "sent", (word, rest)
        self.counts = {(self._number, key): int(rest[0]) for key in range(KEYS)}

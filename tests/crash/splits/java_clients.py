"""Members and a producer with the client of Apache Kafka, in processes of their own."""

from pathlib import Path
from typing import Final

from bench.artifacts import KAFKA, find_java, maven_class_path
from tests.crash.splits.clients import KEYS
from tests.crash.splits.history import History
from tests.crash.splits.processes import Members, ProcessWorker

_PROGRAM: Final = Path(__file__).with_name("Clients.java")
_ASSIGNORS: Final = "org.apache.kafka.clients.consumer"
JAVA_KINDS: Final = {
    "java-consumer": "consumer",
    "java-range": f"{_ASSIGNORS}.RangeAssignor",
    "java-sticky": f"{_ASSIGNORS}.StickyAssignor",
    "java-cooperative": f"{_ASSIGNORS}.CooperativeStickyAssignor",
}


def _command(*arguments: str) -> list[str]:
    java = [find_java(), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    return [*java, "-cp", maven_class_path(KAFKA), str(_PROGRAM), *arguments]


def java_members(bootstrap: str, topic: str, group: History, kind: str, count: int) -> Members:
    return Members(
        group, _command("read", bootstrap, topic, group.name, JAVA_KINDS[kind], str(count))
    )


class JavaSender(ProcessWorker):
    def __init__(self, bootstrap: str, topic: str, number: int, pause_s: float) -> None:
        pause_ms = str(max(1, round(pause_s * 1_000)))
        command = _command("write", bootstrap, topic, str(number), str(KEYS), pause_ms)
        super().__init__(f"sender-{number}", command)
        self._number = number
        self.counts: dict[tuple[int, int], int] = {}

    def said(self, word: str, *rest: str) -> None:
        assert word == "sent", (word, rest)
        self.counts = {(self._number, key): int(rest[0]) for key in range(KEYS)}

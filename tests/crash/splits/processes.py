"""Groups and producers in processes of their own, which say what they see."""

import subprocess
import sys
from collections.abc import Sequence

from tests.crash.splits.clients import FLUSH_S, Worker
from tests.crash.splits.history import History, Seen, sent_in


class ProcessWorker(Worker):
    """What it says is read until it ends; it ends when its input does."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        super().__init__(name)
        self._process = subprocess.Popen(
            command,
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


class Members(ProcessWorker):
    """All members of a group."""

    def __init__(self, group: History, command: Sequence[str]) -> None:
        super().__init__(group.name, command)
        self._group = group
        self.assigned: set[int] = set()

    def said(self, word: str, *rest: str) -> None:
        if word == "assigned":
            self.assigned.add(int(rest[0]))
        elif word == "seen":
            partition, value, delay_ms, at_ms, member = rest
            delay_s, at_s = float(delay_ms) / 1_000, float(at_ms) / 1_000
            sent = sent_in(value.encode())
            self._group.note(Seen(sent, int(partition), delay_s, at_s, member))


def librdkafka_members(
    bootstrap: str, topic: str, group: History, kind: str, count: int
) -> Members:
    program = (sys.executable, "-m", "tests.crash.splits.members")
    return Members(group, [*program, bootstrap, topic, group.name, kind, str(count)])

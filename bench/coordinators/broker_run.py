"""A broker for one measurement, and what it used of the processor."""

import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from goqueue.testing import ServerProcess

WAIT_S: Final = 30.0
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


@contextmanager
def running_broker(settings: Mapping[str, str] | None = None) -> Iterator[ServerProcess]:
    options = [text for item in (settings or {}).items() for text in ("--set", "=".join(item))]
    with (
        tempfile.TemporaryDirectory(prefix="goqueue-bench-") as folder,
        ServerProcess(Path(folder) / "data", *options) as server,
    ):
        yield server


def create_topic(server: ServerProcess, name: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    new = NewTopic(name, num_partitions=partitions)
    admin.create_topics([new])[name].result(WAIT_S)


def delete_topic(server: ServerProcess, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers})
    admin.delete_topics([name])[name].result(WAIT_S)


class CpuMeter:
    """Processor time of a process between two looks."""

    def __init__(self, pid: int) -> None:
        self._stat = Path(f"/proc/{pid}/stat")
        self._at_s = time.perf_counter()
        self._used_s = self._read()

    def seconds(self) -> float:
        return self._read() - self._used_s

    def cores(self) -> float:
        return self.seconds() / (time.perf_counter() - self._at_s)

    def _read(self) -> float:
        # The name before the last bracket may hold spaces; utime and stime are fields 14 and 15.
        fields = self._stat.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S

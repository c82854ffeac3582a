"""Hostile clients at every door of a broker with default settings, and a canary that is served.

    python -m tests.hostile.soak --frames 1000000 --connections 10000
    python -m tests.hostile.soak --frames 100000 --workers 2
    python -m tests.hostile.soak --frames 100000 --security

Says how it went, and ends with an error where a bar does not hold.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from tests.hostile.admission import VARIABLE, Admission, WebClient
from tests.hostile.sqs_frames import FIFO_QUEUE, QUEUE
from tests.hostile.watched_server import WatchedServer

CANARY: Final = "canary"
SQS_JSON: Final = "application/x-amz-json-1.0"
DOORS: Final = ("kafka", "http", "sqs", "registry")
TOPICS: Final = 300
WIDE_PARTITIONS: Final = 1_000
# The bars.
MEMORY_ABOVE_BASE_MB: Final = 600
STEP_MS: Final = 100
CANARY_P99_MS: Final = 100
# Connections of one process: loopback has many addresses, but a process has few descriptors.
HOLDER_CONNECTIONS: Final = 2_500
SETTLE_SECONDS: Final = 3.0


@dataclass
class Outcome:
    frames: dict[str, dict[str, int]] = field(default_factory=dict)
    connections: dict[str, int] = field(default_factory=dict)
    base_mb: float = 0.0
    peak_mb: float = 0.0
    end_mb: float = 0.0
    open_files_peak: int = 0
    seconds: float = 0.0
    load_peak: float = 0.0
    is_alive: bool = True
    loop: dict[str, Any] = field(default_factory=dict)
    canary: dict[str, Any] = field(default_factory=dict)
    tracebacks: int = 0
    workers: int = 1
    # Processes that died and were started again.
    deaths: int = 0

    @property
    def longest_step_ms(self) -> float:
        """Of processor time: what other processes took of the machine is not the broker's."""
        longest = self.loop["longest"]["cpu"]
        return float(longest[0]["cpu_ms"]) if longest else 0.0

    @property
    def longest_wall_ms(self) -> float:
        longest = self.loop["longest"]["wall"]
        return float(longest[0]["wall_ms"]) if longest else 0.0

    def misses(self) -> list[str]:
        """The bars that do not hold."""
        above_mb = self.peak_mb - self.base_mb
        p99_ms = self.canary["all"]["p99_ms"]
        return [
            told
            for holds, told in (
                (self.is_alive, "the broker died"),
                (not self.deaths, f"{self.deaths} workers died"),
                (
                    above_mb <= self.workers * MEMORY_ABOVE_BASE_MB,
                    f"memory: {above_mb:.0f} MB above the base",
                ),
                (self.longest_step_ms <= STEP_MS, f"a step took {self.longest_step_ms} ms"),
                (p99_ms <= CANARY_P99_MS, f"the canary's p99 is {p99_ms} ms"),
                (not self.canary["fault_count"], f"the canary: {self.canary['faults']}"),
                (not self.tracebacks, f"{self.tracebacks} tracebacks in the log"),
            )
            if not holds
        ]


def put_first(pid: int) -> None:
    """Broker and canary before other programs of the machine, where that is allowed: it is not
    those that are measured."""
    with contextlib.suppress(PermissionError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            os.setpriority(os.PRIO_PROCESS, int(task.name), -10)


def set_up(http_url: str) -> None:
    """What is there for hostile requests to name."""
    client = WebClient(http_url)

    def ask(path: str, body: object, **headers: str) -> None:
        headers = {"Content-Type": "application/json", **headers}
        status, told = client.ask("POST", path, body, headers)
        assert status < 300, told

    def create(name: str, partitions: int = 1) -> None:
        ask("/topics", {"name": name, "partitions": partitions})

    for number in range(TOPICS):
        create(f"hostile-{number}")
    create("wide-0", WIDE_PARTITIONS)
    create("bombs-0")
    for name, attributes in ((QUEUE, {}), (FIFO_QUEUE, {"FifoQueue": "true"})):
        fields = {"QueueName": name, "Attributes": attributes}
        ask("/", fields, **{"X-Amz-Target": "AmazonSQS.CreateQueue", "Content-Type": SQS_JSON})


class Children:
    """Processes of the soak, each with a report of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, module: str, *arguments: str) -> None:
        command = [sys.executable, "-m", f"tests.hostile.{module}", *arguments, self._path(name)]
        self._started[name] = process = subprocess.Popen(command)
        if name == CANARY:
            put_first(process.pid)

    def _path(self, name: str) -> str:
        return str(self._folder / f"{name}.json")

    def report(self, name: str) -> Any:
        path = Path(self._path(name))
        return json.loads(path.read_text()) if path.exists() else {}

    def are_running(self, *names: str) -> bool:
        return any(self._started[name].poll() is None for name in names)

    def end(self, name: str) -> None:
        self._started[name].terminate()
        self._started[name].wait(600)

    def close(self) -> None:
        for process in self._started.values():
            process.kill()
            process.wait()


def run(
    folder: Path,
    *,
    frames: int,
    connections: int,
    costly_every_seconds: float,
    seed: str,
    doors: tuple[str, ...] = DOORS,
    limit_seconds: float = 7_200,
    workers: int = 1,
    security: bool = False,
) -> Outcome:
    outcome = Outcome(workers=workers)
    children = Children(folder)
    with WatchedServer(
        folder / "data", folder / "loop.json", workers=workers, security=security
    ) as server:
        for pid in server.pids:
            put_first(pid)
        os.environ.pop(VARIABLE, None)
        if security:
            Admission.make(server, folder)
        set_up(server.http_url)
        children.start(CANARY, "canary", server.bootstrap_servers, server.http_url)
        time.sleep(SETTLE_SECONDS)
        outcome.base_mb = server.usage().memory_mb
        began = time.monotonic()
        try:
            senders = _start_senders(children, server, doors, frames, costly_every_seconds, seed)
            holders = _start_holders(children, server, connections, seed)
            told = began
            while children.are_running(*senders) and time.monotonic() - began < limit_seconds:
                time.sleep(0.25)
                if not server.is_running:
                    break
                _sample(server, outcome)
                if time.monotonic() - told > 20:
                    told = time.monotonic()
                    _tell(children, senders, outcome, told - began)
            outcome.seconds = time.monotonic() - began
            outcome.frames = {name: children.report(name) for name in senders}
            for name in holders:
                for what, count in children.report(name).items():
                    outcome.connections[what] = outcome.connections.get(what, 0) + count
                children.end(name)
            outcome.is_alive = server.is_running
            children.end(CANARY)
            (folder / "server.log").write_text(server.log_text)
            outcome.canary = children.report(CANARY)
            outcome.loop = server.loop_report()
            if server.is_running:
                outcome.end_mb = server.usage().memory_mb
            outcome.tracebacks = server.log_text.count("Traceback")
            outcome.deaths = server.log_text.count("; it is started again")
        finally:
            children.close()
    return outcome


def _start_senders(
    children: Children,
    server: WatchedServer,
    doors: tuple[str, ...],
    frames: int,
    costly_every_seconds: float,
    seed: str,
) -> list[str]:
    places = {door: urlsplit(server.http_url).netloc for door in doors if door != "kafka"}
    if "kafka" in doors:
        # Each worker has a port of its own.
        first, *others = server.bootstrap_servers.split(",")
        places["kafka"] = first
        places |= {f"kafka-{number}": other for number, other in enumerate(others, 1)}
    for name, address in places.items():
        door = name.partition("-")[0]
        children.start(
            *(name, "sender", door, *address.split(":")),
            *(str(frames), str(costly_every_seconds), f"{seed} {name}"),
        )
    return list(places)


def _start_holders(
    children: Children, server: WatchedServer, connections: int, seed: str
) -> list[str]:
    kafka_ports = [each.split(":")[1] for each in server.bootstrap_servers.split(",")]
    http_port = urlsplit(server.http_url).netloc.split(":")[1]
    names = []
    for number, first in enumerate(range(0, connections, HOLDER_CONNECTIONS), 1):
        count = min(HOLDER_CONNECTIONS, connections - first)
        names.append(f"holder-{number}")
        ports = kafka_ports[number % len(kafka_ports)], http_port
        children.start(names[-1], "holder", *ports, str(count), str(number), f"{seed} {number}")
    return names


def _sample(server: WatchedServer, outcome: Outcome) -> None:
    usage = server.usage()
    outcome.peak_mb = max(outcome.peak_mb, usage.memory_mb)
    outcome.open_files_peak = max(outcome.open_files_peak, usage.open_files)
    outcome.load_peak = max(outcome.load_peak, os.getloadavg()[0])


def _tell(children: Children, senders: list[str], outcome: Outcome, seconds: float) -> None:
    sent = {name: children.report(name) for name in senders}
    canary = children.report(CANARY).get("all")
    print(f"{seconds:.0f} s: {sent}; peak {outcome.peak_mb:.0f} MB; {canary}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=1_000_000, help="for each door")
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--costly-every", type=float, default=1.0, help="seconds, for each door")
    parser.add_argument("--seed", default="soak")
    parser.add_argument("--doors", default=",".join(DOORS))
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--security", action="store_true", help="with TLS and log-ins")
    parser.add_argument("--limit", type=float, default=7_200, help="seconds for all of it")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="goqueue-hostile-"))
    folder.mkdir(parents=True, exist_ok=True)
    outcome = run(
        folder,
        frames=options.frames,
        connections=options.connections,
        costly_every_seconds=options.costly_every,
        seed=options.seed,
        doors=tuple(options.doors.split(",")),
        limit_seconds=options.limit,
        workers=options.workers,
        security=options.security,
    )
    (folder / "outcome.json").write_text(json.dumps(vars(outcome), indent=1))
    misses = outcome.misses()
    print(f"longest step: {outcome.longest_step_ms} ms, on the wall {outcome.longest_wall_ms} ms")
    if outcome.longest_step_ms > STEP_MS:
        print(json.dumps(outcome.loop["longest"]["cpu"][:3], indent=2))
    print("\n".join(misses) or "all bars hold")
    sys.exit(bool(misses))


if __name__ == "__main__":
    main()

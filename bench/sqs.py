"""`python -m bench.sqs`: the SQS API of GoQueue beside other servers that speak it.

One client program, one set of requests: batches of ten sent, received and deleted. GoQueue stores
every message and every deletion in its log (fsync every second); moto keeps all in memory, and so
does ElasticMQ at its defaults.
"""

import argparse
import socket
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final, Protocol

from bench.artifacts import CACHE, MavenArtifact, Missing, find_java, maven_class_path, run_tool
from bench.brokers.goqueue import source_environment
from bench.child_process import BrokerFailed, ChildProcess, free_port
from bench.machine import describe_machine, keep_to_two_cores
from bench.rounds import say
from bench.sqs_client import BATCH, Load, SqsFailed, run_load

MOTO_VERSION: Final = "5.2.5"
ELASTICMQ: Final = MavenArtifact(
    group="org.elasticmq", artifact="elasticmq-server_2.13", version="1.6.14"
)
CONNECTIONS: Final = 8
SIZE_BYTES: Final = 100
BAR_PER_CORE: Final = 5_000


class SqsServer(Protocol):
    name: str
    process: ChildProcess
    port: int
    # How much work one round is: slower servers get less, the rates stay comparable.
    share: float

    def start(self, folder: Path) -> None: ...


class GoQueueSqs:
    name = "GoQueue"
    share = 1.0

    def start(self, folder: Path) -> None:
        self.port = free_port()
        self.process = ChildProcess(
            [
                *(sys.executable, "-m", "goqueue", "serve"),
                *("--data-dir", str(folder / "data")),
                *("--kafka-port", "0", "--http-port", str(self.port)),
            ],
            log_path=folder / "goqueue.log",
            env=source_environment(),
        )
        self.process.wait_ready(lambda: _answers_http(self.port, "/readyz"))


class Moto:
    name = "moto server"
    share = 0.05

    def start(self, folder: Path) -> None:
        packages = CACHE / f"moto-{MOTO_VERSION}"
        if not packages.is_dir():
            arriving = packages.with_suffix(".arriving")
            run_tool(
                [
                    *(sys.executable, "-m", "pip", "install", "--quiet"),
                    *("--target", str(arriving), f"moto[server]=={MOTO_VERSION}"),
                ]
            )
            arriving.rename(packages)
        self.port = free_port()
        self.process = ChildProcess(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)],
            log_path=folder / "moto.log",
            env={"PYTHONPATH": str(packages)},
        )
        self.process.wait_ready(lambda: _listens(self.port))


class ElasticMq:
    name = "ElasticMQ"
    share = 1.0

    def start(self, folder: Path) -> None:
        java = find_java()
        class_path = maven_class_path(ELASTICMQ)
        self.port = free_port()
        config = folder / "elasticmq.conf"
        config.write_text(
            'include classpath("application.conf")\n'
            f'node-address {{ host = "127.0.0.1", port = {self.port} }}\n'
            f'rest-sqs {{ enabled = true, bind-port = {self.port}, bind-hostname = "127.0.0.1" }}\n'
            "rest-stats { enabled = false }\n"
        )
        self.process = ChildProcess(
            [java, f"-Dconfig.file={config}", "-cp", class_path, "org.elasticmq.server.Main"],
            log_path=folder / "elasticmq.log",
        )
        self.process.wait_ready(lambda: _listens(self.port))


SERVERS: Final[dict[str, Callable[[], SqsServer]]] = {
    "goqueue": GoQueueSqs,
    "moto": Moto,
    "elasticmq": ElasticMq,
}


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _answers_http(port: int, path: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=1) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


class Figures:
    def __init__(self) -> None:
        self.per_second: list[float] = []
        self.per_core: list[float] = []

    def add(self, load: Load, cpu_seconds: float) -> None:
        self.per_second.append(load.messages / load.seconds)
        self.per_core.append(load.messages / max(cpu_seconds, 0.01))


def measure(server: SqsServer, rounds: int, repetitions: int, folder: Path) -> Figures:
    server.start(folder)
    figures = Figures()
    try:
        for repetition in range(repetitions + 1):
            before = server.process.cpu_seconds()
            load = run_load(
                server.port,
                f"bench-{repetition}",
                rounds=max(5, int(rounds * server.share)),
                connections=CONNECTIONS,
                size_bytes=SIZE_BYTES,
            )
            # The first round warms up the server, which matters to the one on a JVM.
            if repetition:
                figures.add(load, server.process.cpu_seconds() - before)
    finally:
        server.process.stop()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.sqs", description=__doc__)
    parser.add_argument("--servers", default=",".join(SERVERS), help="default: %(default)s")
    parser.add_argument("--rounds", type=int, default=200, help="per connection (%(default)s)")
    parser.add_argument("--repetitions", type=int, default=3)
    arguments = parser.parse_args()
    keep_to_two_cores()
    machine = describe_machine()
    say(f"{machine.processor}, {machine.cores_used} cores, load {machine.load_average_before}")
    results: dict[str, Figures] = {}
    CACHE.mkdir(parents=True, exist_ok=True)
    for choice in arguments.servers.split(","):
        server = SERVERS[choice]()
        say(server.name)
        with tempfile.TemporaryDirectory(prefix="sqs-", dir=CACHE) as folder:
            try:
                results[server.name] = measure(
                    server, arguments.rounds, arguments.repetitions, Path(folder)
                )
            except (Missing, BrokerFailed, SqsFailed) as error:
                say(f"  {server.name}: {error}")
    _print(results)


def _print(results: dict[str, Figures]) -> None:
    ours = results.get(GoQueueSqs.name)
    print(f"batches of {BATCH}, {SIZE_BYTES} B, {CONNECTIONS} connections; send, receive, delete")
    print(f"{'server':<14}{'msg/s':>10}{'msg/s per core of the server':>32}{'GoQueue is':>14}")
    for name, figures in results.items():
        rate, per_core = median(figures.per_second), median(figures.per_core)
        ratio = f"{median(ours.per_second) / rate:.1f} x" if ours else ""
        print(f"{name:<14}{rate:>10,.0f}{per_core:>32,.0f}{ratio:>14}")
    if ours:
        reached = median(ours.per_core)
        verdict = "reached" if reached >= BAR_PER_CORE else "MISSED"
        print(f"bar: {BAR_PER_CORE:,} msg/s per core: {verdict} ({reached:,.0f})")


if __name__ == "__main__":
    main()

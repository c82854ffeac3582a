"""What TLS costs: `python -m bench.tls`.

Two brokers with their defaults, one of them with a certificate, driven by the C client in turns, in
an order that changes. Two ratios to the one without are given: of throughput, and of messages per
second of the broker's processor time. The first has the client's own encryption in it, which shares
the machine; the second is steadier on a busy one.
"""

import argparse
import statistics
import sys
import tempfile
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.brokers.goqueue import GoQueue, source_environment
from bench.brokers.kafka_speaker import run_throughput
from bench.child_process import ChildProcess, free_port
from bench.figures import Sample
from bench.machine import describe_machine, keep_to_two_cores
from bench.rounds import measured, say, settle
from goqueue.client.blocking_connection import BlockingConnection
from goqueue.client.errors import BrokerUnreachable
from goqueue.client.writing_cluster import WritingCluster
from goqueue.model.client_security import NO_SECURITY, ClientSecurity
from goqueue.server.tls.making import make_certificates

# Of throughput, in one run; the aim is 0.85.
BAR: Final = 0.75
SIZES: Final = (100, 1_000)


class CertifiedGoQueue(GoQueue):
    """With a certificate, unless `files` is None. It makes topics on first use."""

    def __init__(self, name: str, files: "Files | None") -> None:
        super().__init__()
        self.name = name
        self._files = files
        self.security = NO_SECURITY if files is None else files.security

    def start(self, folder: Path) -> None:
        self.port = free_port()
        folder.mkdir()
        self.process = ChildProcess(
            [
                *(sys.executable, "-m", "goqueue", "serve"),
                *("--data-dir", str(folder / "data"), "--set", "num.partitions=1"),
                *("--kafka-port", str(self.port), "--http-port", "0"),
                *(() if self._files is None else self._files.server_options),
            ],
            log_path=folder / "goqueue.log",
            env=source_environment(),
        )
        self.process.wait_ready(self._answers)

    def _answers(self) -> bool:
        try:
            BlockingConnection("127.0.0.1", self.port, self.security).close()
        except BrokerUnreachable:
            return False
        return True

    def make_topic(self, name: str) -> None:
        with WritingCluster(f"127.0.0.1:{self.port}", self.security) as cluster:
            cluster.topic(name)

    @property
    def client_options(self) -> Sequence[str]:
        return () if self._files is None else self._files.client_options


class Files:
    def __init__(self, folder: Path) -> None:
        made = make_certificates(folder, ["127.0.0.1"])
        self.security = ClientSecurity(tls=True, ca_file=str(made.ca))
        self.server_options = (
            *("--set", f"tls.certificate.file={made.broker}"),
            *("--set", f"tls.key.file={made.broker_key}"),
        )
        self.client_options = (
            *("--set", "security.protocol=ssl"),
            *("--set", f"ssl.ca.location={made.ca}"),
        )


@dataclass(slots=True)
class Figures:
    produced: list[Sample] = field(default_factory=list)
    consumed: list[Sample] = field(default_factory=list)


def one_round(broker: CertifiedGoQueue, size: int, messages: int, figures: Figures | None) -> None:
    topic = f"bench-{uuid.uuid4().hex[:8]}"
    volume = [*("--count", str(messages), "--size", str(size), "--partitions", "1")]
    volume += broker.client_options
    broker.make_topic(topic)
    settle()
    produced = measured(
        broker, lambda: run_throughput(broker, "produce", topic, *volume, "--set", "acks=1")
    )
    consumed = measured(broker, lambda: run_throughput(broker, "consume", topic, *volume))
    if figures is not None:
        figures.produced.append(produced)
        figures.consumed.append(consumed)


def ratios(mine: list[Sample], base: list[Sample]) -> str:
    """Round by round, so that what disturbs one round disturbs both of it."""
    pairs = list(zip(mine, base, strict=True))
    speed = statistics.median(a.value / b.value for a, b in pairs)
    cost = statistics.median(
        (b.broker_cpu_s_per_million or 0) / (a.broker_cpu_s_per_million or 1) for a, b in pairs
    )
    now, before = (statistics.median(each.value for each in side) for side in (mine, base))
    return f"{before:,.0f} | {now:,.0f} | {speed:.2f} | {cost:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.tls", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=1_000, help="of messages in a round")
    given = parser.parse_args()
    keep_to_two_cores()
    machine = describe_machine()
    print(f"{machine.processor}, load average before {machine.load_average_before}; bar {BAR}\n")
    print("| size | what | plain msg/s | TLS msg/s | ratio | by processor time |")
    print("|---:|---|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory(prefix="bench-tls-") as name:
        folder = Path(name)
        files = Files(folder / "certificates")
        brokers = CertifiedGoQueue("plain", None), CertifiedGoQueue("TLS", files)
        try:
            for broker in brokers:
                broker.start(folder / broker.name)
            for size in SIZES:
                found = {broker.name: Figures() for broker in brokers}
                for turn in range(given.rounds + 1):
                    # The first round warms up.
                    for broker in brokers if turn % 2 else brokers[::-1]:
                        figures = found[broker.name] if turn else None
                        one_round(broker, size, given.megabytes * 1_000_000 // size, figures)
                    say(f"  {size} B: round {turn} of {given.rounds}")
                plain, tls = found["plain"], found["TLS"]
                print(f"| {size} | produce | {ratios(tls.produced, plain.produced)} |", flush=True)
                print(f"| {size} | consume | {ratios(tls.consumed, plain.consumed)} |", flush=True)
        finally:
            for broker in brokers:
                if broker.port:
                    broker.stop()


if __name__ == "__main__":
    main()

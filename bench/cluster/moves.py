"""`python -m bench.cluster.moves`: publishing while the partitions that are written to are moved.

Four brokers, replication factor 3, min.insync.replicas 2. A topic of three partitions with some
hundred megabytes is written to at a steady pace. In turn it rests for a while, and goes from three
brokers to others: all of its partitions, with all their bytes. What does a message wait for its
acknowledgement (acks=all), with and without?
"""

import argparse
import itertools
import sys
import tempfile
import threading
import time
from datetime import datetime
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final, NamedTuple

import httpx
import msgspec
from confluent_kafka import KafkaError, Message, Producer

from bench.artifacts import ROOT
from bench.cluster.gaps import CLIENT
from bench.load_run import LoadFailed
from bench.machine import describe_machine, keep_to_two_cores, load_average
from bench.rounds import MEGABYTE, say
from goqueue.model.replication_config import DEFAULT_MOVE_RATE
from goqueue.testing import GoQueueCluster

TOPIC: Final = "moved"
PARTITIONS: Final = 3
# Each turn, one broker of three is replaced by the one that has nothing.
TARGETS: Final = ((4, 2, 3), (4, 1, 3), (4, 1, 2), (1, 2, 3))
RATE: Final = 1_000
LIMIT_S: Final = 600.0


class Phase(NamedTuple):
    seconds: float
    messages: int
    p50_ms: float
    p99_ms: float
    longest_ms: float


class Figures(msgspec.Struct):
    megabytes: int
    rate: int
    # Of moves, in bytes per second; 0: none.
    limit: int
    at_rest: list[Phase] = []
    moving: list[Phase] = []

    @property
    def ratio(self) -> float:
        return median(p.p99_ms for p in self.moving) / median(p.p99_ms for p in self.at_rest)


class Publisher(threading.Thread):
    """A message every so often, to one partition after the other."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": bootstrap, **CLIENT})
        self._is_over = threading.Event()
        self._latencies: list[float] = []
        self.failed = 0

    def run(self) -> None:
        due = time.monotonic()
        for number in itertools.count():
            if self._is_over.is_set():
                break
            due += 1 / RATE
            while (left := due - time.monotonic()) > 0:
                self._producer.poll(min(left, 0.001))
            begun = time.monotonic()

            def answered(error: KafkaError | None, _: Message, begun: float = begun) -> None:
                self.failed += error is not None
                self._latencies.append(time.monotonic() - begun)

            self._producer.produce(
                TOPIC, b"x" * 100, partition=number % PARTITIONS, on_delivery=answered
            )
        self._producer.flush(60)

    def phase(self, seconds: float) -> Phase:
        """What was answered since the last one."""
        found, self._latencies = self._latencies, []
        if len(found) < 100 or self.failed:
            raise LoadFailed(f"{len(found)} messages were answered, {self.failed} failed")
        percents = quantiles(found, n=100)
        return Phase(seconds, len(found), percents[49] * 1e3, percents[98] * 1e3, max(found) * 1e3)

    def end(self) -> None:
        self._is_over.set()
        self.join()


class Moved:
    def __init__(self, cluster: GoQueueCluster) -> None:
        self._http = httpx.Client(base_url=cluster.http_urls[0], timeout=60)
        self._bootstrap = cluster.bootstrap_servers

    def make(self, megabytes: int) -> None:
        config = {"fsync.policy": "interval", "flush.ms": "1000", "min.insync.replicas": "2"}
        body = {"name": TOPIC, "partitions": PARTITIONS, "replicationFactor": 3, "config": config}
        self._ask("POST", "/topics", body)
        self.move((1, 2, 3))
        producer = Producer({"bootstrap.servers": self._bootstrap, "acks": "all", "linger.ms": 5})
        block = bytes(100_000)
        for number in range(megabytes * MEGABYTE // len(block)):
            while True:
                try:
                    producer.produce(TOPIC, block, partition=number % PARTITIONS)
                    break
                except BufferError:
                    producer.poll(0.05)
            producer.poll(0)
        producer.flush(LIMIT_S)

    def hold_to(self, limit: int) -> None:
        self._ask("PATCH", "/cluster/moves", {"rateBytes": limit})

    def move(self, target: tuple[int, ...]) -> None:
        """Returns when it is there."""
        moves = [
            {"topic": TOPIC, "partition": index, "replicas": list(target)}
            for index in range(PARTITIONS)
        ]
        results = self._ask("POST", "/cluster/moves", {"moves": moves})["results"]
        if any(each["error"] for each in results):
            raise LoadFailed(str(results))
        deadline = time.monotonic() + LIMIT_S
        while self._ask("GET", "/cluster/moves")["moves"]:
            if time.monotonic() > deadline:
                raise LoadFailed("the move does not end")
            time.sleep(0.2)

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = self._http.request(method, path, json=body)
        answer.raise_for_status()
        return answer.json() if answer.content else None


def measure(folder: Path, megabytes: int, turns: int, rest_s: float, limit: int) -> Figures:
    figures = Figures(megabytes, RATE, limit)
    with GoQueueCluster(brokers=4, folder=folder) as cluster:
        moved = Moved(cluster)
        say(f"writing {megabytes} MB")
        moved.make(megabytes)
        moved.hold_to(limit)
        publisher = Publisher(cluster.bootstrap_servers)
        publisher.start()
        time.sleep(rest_s / 2)
        publisher.phase(0)
        for turn in range(turns):
            time.sleep(rest_s)
            figures.at_rest.append(publisher.phase(rest_s))
            begun = time.monotonic()
            moved.move(TARGETS[turn % len(TARGETS)])
            figures.moving.append(publisher.phase(time.monotonic() - begun))
            rest, moving = figures.at_rest[-1], figures.moving[-1]
            say(
                f"p99 {rest.p99_ms:.1f} ms at rest, {moving.p99_ms:.1f} ms in a move of "
                f"{moving.seconds:.1f} s, longest {moving.longest_ms:.0f} ms"
            )
        publisher.end()
    return figures


def report(figures: Figures) -> str:
    machine = describe_machine()
    lines = [
        "# Publishing while partitions are moved",
        "",
        f"{machine.processor}, {machine.cores_used} cores, for four brokers, etcd and the client; "
        f"{PARTITIONS} partitions with {figures.megabytes} MB, {figures.rate:,} messages of 100 B "
        "per second, acks=all, min.insync.replicas 2. Moves are held to "
        + (f"{figures.limit / MEGABYTE:.0f} MB/s of each broker." if figures.limit else "no rate."),
        "",
        "| | seconds | messages | p50 ms | p99 ms | longest ms |",
        "|---|---|---|---|---|---|",
    ]
    for name, phases in (("at rest", figures.at_rest), ("moving", figures.moving)):
        lines += [
            f"| {name} | {p.seconds:.1f} | {p.messages:,} | {p.p50_ms:.1f} | {p.p99_ms:.1f} | "
            f"{p.longest_ms:.0f} |"
            for p in phases
        ]
    lines += ["", f"p99 in a move: {figures.ratio:.2f} times that at rest (medians).", ""]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=600)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--rest", type=float, default=10.0, help="seconds between moves")
    parser.add_argument(
        "--rate",
        type=int,
        default=DEFAULT_MOVE_RATE,
        help="bytes per second of each broker for moves; 0: any",
    )
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results")
    chosen = parser.parse_args()
    keep_to_two_cores()
    say(f"load before: {load_average():.1f}")
    with tempfile.TemporaryDirectory(prefix="goqueue-moves-") as folder:
        figures = measure(Path(folder), chosen.megabytes, chosen.turns, chosen.rest, chosen.rate)
    text = report(figures)
    print(text)
    name = f"{datetime.now():%Y-%m-%d-%H%M}-moves.md"
    (chosen.results / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`python -m bench.workers`: one message per request from eight connections; one process, and two.

The case where one event loop is the limit. The client is two load generators with four connections
each, one for each of two topics, so that it is the same whoever leads them; with two workers each
leads one. Where the machine has four cores or more, broker and client have two each. Else they
share them, and what a second worker gains is what the client leaves over: the report says so.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import msgspec
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.artifacts import ROOT, kafka_load
from bench.brokers.goqueue import source_environment
from bench.child_process import ChildProcess
from bench.load_run import Throughput, run_generator
from bench.machine import describe_machine, load_average
from bench.rounds import say, settle
from goqueue.testing.ports import free_port, free_ports

WORKER_COUNTS: Final = (1, 2)
CONNECTIONS: Final = 8
GENERATORS: Final = 2
BAR: Final = 1.6
LIMIT_S: Final = 60.0
CORES_EACH: Final = 2
RESULTS: Final = ROOT / "bench" / "results"


class Cores(NamedTuple):
    broker: list[int]
    client: list[int]

    @property
    def are_shared(self) -> bool:
        return self.broker == self.client


class Round(NamedTuple):
    rate: float
    # Of all its processes.
    broker_cpu_us: float


def cores() -> Cores:
    present = sorted(os.sched_getaffinity(0))
    if len(present) < 2 * CORES_EACH:
        return Cores(present[:CORES_EACH], present[:CORES_EACH])
    return Cores(present[:CORES_EACH], present[CORES_EACH : 2 * CORES_EACH])


@contextmanager
def broker(workers: int, folder: Path, its_cores: list[int]) -> Iterator[tuple[ChildProcess, int]]:
    """And its first Kafka port."""
    port, ready = free_ports(workers), folder / "ready.json"
    before = os.sched_getaffinity(0)
    # Children inherit it.
    os.sched_setaffinity(0, its_cores)
    try:
        process = ChildProcess(
            [
                *(sys.executable, "-m", "goqueue", "serve", "--workers", str(workers)),
                *("--data-dir", str(folder / "data"), "--ready-file", str(ready)),
                *("--kafka-port", str(port), "--http-port", str(free_port())),
            ],
            log_path=folder / f"goqueue-{workers}.log",
            env=source_environment(),
        )
    finally:
        os.sched_setaffinity(0, before)
    process.wait_ready(ready.exists)
    try:
        yield process, port
    finally:
        process.stop()


def make_topics(port: int, workers: int, number: int) -> dict[str, int]:
    """Topics of one partition, each with the port of the worker that leads it."""
    places = {f"round-{number}-{i}": i % workers for i in range(GENERATORS)}
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})
    made = admin.create_topics(
        [
            NewTopic(name, num_partitions=1, replica_assignment=[[worker]])
            for name, worker in places.items()
        ]
    )
    for done in made.values():
        done.result(LIMIT_S)
    return {name: port + worker for name, worker in places.items()}


def measure(process: ChildProcess, topics: dict[str, int], requests: int) -> Round:
    each = ("--count", str(requests // GENERATORS), "--size", "100")
    commands = [
        [
            *(kafka_load(), "requests", "--brokers", f"127.0.0.1:{port}", "--topic", topic),
            *(*each, "--clients", str(CONNECTIONS // GENERATORS)),
        ]
        for topic, port in topics.items()
    ]
    settle()
    cpu_before = process.cpu_seconds()
    with ThreadPoolExecutor(GENERATORS) as threads:
        finished = list(threads.map(run_generator, commands))
    cpu_s = process.cpu_seconds() - cpu_before
    results = [msgspec.json.decode(one.output, type=Throughput) for one in finished]
    for result in results:
        result.check()
    sent = sum(result.messages for result in results)
    # They begin together, and the slower one counts.
    return Round(sent / max(result.seconds for result in results), cpu_s / sent * 1e6)


def run(rounds: int, requests: int) -> dict[int, list[Round]]:
    """In turns, each with processes and a folder of its own; the first turn only warms up."""
    found: dict[int, list[Round]] = {count: [] for count in WORKER_COUNTS}
    where = cores()
    os.sched_setaffinity(0, where.client)
    with tempfile.TemporaryDirectory(prefix="bench-workers-") as folder:
        for number in range(rounds + 1):
            for count in WORKER_COUNTS:
                place = Path(folder) / f"{count}-{number}"
                place.mkdir()
                with broker(count, place, where.broker) as (process, port):
                    # Unmeasured: the first requests load what all need.
                    measure(process, make_topics(port, count, 0), requests // 10)
                    if number == 0:
                        continue
                    one = measure(process, make_topics(port, count, 1), requests)
                    found[count].append(one)
                    say(f"  {count} workers: {one.rate:,.0f} requests/s")
    return found


def report(found: dict[int, list[Round]], where: Cores, load_before: float) -> str:
    machine = describe_machine()
    rates = {count: median(one.rate for one in rounds) for count, rounds in found.items()}
    ratio = rates[2] / rates[1]
    shares = (
        f"broker and client share {len(where.broker)} cores, so this is not the bar's case"
        if where.are_shared
        else f"{len(where.broker)} cores for the broker, {len(where.client)} for the client"
    )
    lines = [
        "# One message per request, eight connections: one process beside two workers",
        "",
        f"{machine.processor}, {machine.cores_present} cores, {machine.memory_gb} GB, Linux "
        f"{machine.kernel}, Python {machine.python}; load average before {load_before}, after "
        f"{load_average()}; {shares}. 100 B, acks=1, fsync every second; median of "
        f"{len(found[1])} rounds, each with new processes. CPU per request, of all processes of "
        "the broker.",
        "",
        "| workers | requests/s | rounds | broker CPU, µs |",
        "|---|---|---|---|",
    ]
    for count, rounds in found.items():
        each = ", ".join(f"{one.rate:,.0f}" for one in rounds)
        cpu_us = median(one.broker_cpu_us for one in rounds)
        lines.append(f"| {count} | {rates[count]:,.0f} | {each} | {cpu_us:.0f} |")
    lines += [
        "",
        f"Two workers: {ratio:.2f} times the rate of one process. The bar is {BAR:g} where broker "
        "and client do not share cores.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.workers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=60_000)
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    before = load_average()
    kafka_load()
    where = cores()
    text = report(run(arguments.rounds, arguments.requests), where, before)
    path = arguments.results / f"{datetime.now().astimezone():%Y-%m-%d-%H%M}-workers.md"
    path.write_text(text)
    print(text)
    say(f"written: {path}")


if __name__ == "__main__":
    main()

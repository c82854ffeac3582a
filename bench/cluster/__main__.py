"""`python -m bench.cluster`: replication factor 3, acks=all, min.insync.replicas 2.

Three brokers and the client share two cores. The clusters run one after the other, since the one
that rests would still take its share.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Final

import msgspec
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.artifacts import ROOT, kafka_load
from bench.cluster.contestants import NODES, Contestant, GoQueueContestant, KafkaContestant
from bench.cluster.gaps import SteadyProducer
from bench.load_run import Latency, LoadFailed, Throughput, run_generator
from bench.machine import describe_machine, keep_to_two_cores, load_average
from bench.rounds import say, settle

PARTITIONS: Final = 3
MESSAGES: Final = 1_000_000
SIZE: Final = ("--size", "100")
ALL: Final = ("--set", "acks=all")
LIMIT_S: Final = 60.0


class Figures(msgspec.Struct):
    throughput: list[float] = msgspec.field(default_factory=list)
    latency: list[Latency] = msgspec.field(default_factory=list)
    kill_gaps_s: list[float] = msgspec.field(default_factory=list)
    stop_gaps_s: list[float] = msgspec.field(default_factory=list)


def measure(cluster: Contestant, folder: Path, rounds: int, faults: int) -> Figures:
    figures = Figures()
    say(f"{cluster.name}: start")
    try:
        cluster.start(folder)
        _topic(cluster, "warm", PARTITIONS)
        _produce(cluster, "warm")
        for number in range(rounds):
            topic = f"many-{number}"
            _topic(cluster, topic, PARTITIONS)
            settle()
            figures.throughput.append(_produce(cluster, topic))
            say(f"  {figures.throughput[-1]:,.0f} msg/s")
            _topic(cluster, f"steady-{number}", 1)
            settle()
            figures.latency.append(_latency(cluster, f"steady-{number}"))
            say(f"  publish p99 {figures.latency[-1].latency_ms.p99:.2f} ms")
        _topic(cluster, "gaps", 1)
        for gaps, end in (
            (figures.kill_gaps_s, cluster.kill),
            (figures.stop_gaps_s, cluster.ask_to_stop),
        ):
            for _ in range(faults):
                gaps.append(_gap_s(cluster, end))
                say(f"  {gaps[-1]:.2f} s without an answer")
    finally:
        cluster.stop()
    return figures


def _gap_s(cluster: Contestant, end: Callable[[int], None]) -> float:
    """The leader of the partition ends; the longest time that its producer waits."""
    producer = SteadyProducer(cluster.bootstrap_servers, "gaps")
    producer.start()
    begun = time.monotonic()
    _until(lambda: producer.answered > begun + 1)
    leader, _ = _state(cluster, "gaps")
    ended = time.monotonic()
    end(leader)
    _until(lambda: producer.answered > ended + 1)
    producer.end()
    cluster.restart(leader)
    _until(lambda: len(_state(cluster, "gaps")[1]) == len(NODES))
    if producer.failed:
        raise LoadFailed(f"{producer.failed} messages failed when the leader ended")
    return producer.longest_s(ended)


def _admin(cluster: Contestant) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})


def _topic(cluster: Contestant, name: str, partitions: int) -> None:
    config = {"min.insync.replicas": "2", **cluster.topic_config()}
    admin = _admin(cluster)
    admin.create_topics([NewTopic(name, partitions, len(NODES), config=config)])[name].result(
        LIMIT_S
    )
    time.sleep(0.5)
    _until(lambda: len(_state(cluster, name)[1]) == len(NODES))


def _state(cluster: Contestant, topic: str) -> tuple[int, list[int]]:
    """The leader and the in-sync set of partition 0."""
    found = _admin(cluster).list_topics(topic, timeout=LIMIT_S).topics[topic].partitions
    return (found[0].leader, found[0].isrs) if 0 in found else (-1, [])


def _until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError("the cluster does not come to itself")
        time.sleep(0.05)


def _produce(cluster: Contestant, topic: str) -> float:
    volume = ("--count", str(MESSAGES), *SIZE, "--partitions", str(PARTITIONS))
    result = msgspec.json.decode(_load(cluster, "produce", topic, *volume), type=Throughput)
    result.check()
    return result.messages / result.seconds


def _latency(cluster: Contestant, topic: str) -> Latency:
    pace = ("--rate", "10000", "--seconds", "10", "--set", "linger.ms=1")
    output = _load(cluster, "publish-latency", topic, *SIZE, *pace)
    return msgspec.json.decode(output, type=Latency)


def _load(cluster: Contestant, mode: str, topic: str, *arguments: str) -> str:
    target = ("--brokers", cluster.bootstrap_servers, "--topic", topic)
    return run_generator([kafka_load(), mode, *target, *arguments, *ALL]).output


def _report(found: dict[str, Figures], load_before: float) -> str:
    machine = describe_machine()
    lines = [
        "# Clusters of three: replication factor 3, acks=all, min.insync.replicas 2",
        "",
        f"{machine.processor}, {machine.cores_used} cores for three brokers and the client, "
        f"{machine.memory_gb} GB, Linux {machine.kernel}, Python {machine.python}; load average "
        f"before {load_before}, after {load_average()}. Both sync every second (GoQueue "
        "`fsync.policy=interval`, Kafka `flush.ms=1000`), else defaults. One after the other.",
        "",
        "| | " + " | ".join(found) + " |",
        "|---|" + "---|" * len(found),
    ]
    rows: dict[str, Callable[[Figures], str]] = {
        f"produce, 100 B, {PARTITIONS} partitions, msg/s": lambda f: _list(f.throughput, "{:,.0f}"),
        "publish latency at 10,000 msg/s, 1 partition, linger 1 ms: p50, ms": lambda f: _list(
            [one.latency_ms.p50 for one in f.latency], "{:.2f}"
        ),
        "the same, p99, ms": lambda f: _list([one.latency_ms.p99 for one in f.latency], "{:.2f}"),
        "client late by at most, ms": lambda f: _list(
            [one.generator_lag_max_ms for one in f.latency], "{:.1f}"
        ),
        "longest gap after kill -9 of the leader, s": lambda f: _list(f.kill_gaps_s, "{:.2f}"),
        "longest gap after SIGTERM of the leader, s": lambda f: _list(f.stop_gaps_s, "{:.2f}"),
    }
    for label, of in rows.items():
        lines.append(f"| {label} | " + " | ".join(of(figures) for figures in found.values()) + " |")
    return "\n".join([*lines, "", "Medians, with all runs behind them.", ""])


def _list(values: list[float], form: str) -> str:
    if not values:
        return "-"
    return f"**{form.format(median(values))}** ({', '.join(form.format(v) for v in values)})"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--faults", type=int, default=3)
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results")
    chosen = parser.parse_args()
    keep_to_two_cores()
    load_before = load_average()
    found: dict[str, Figures] = {}
    contestants: tuple[Contestant, ...] = (GoQueueContestant(), KafkaContestant())
    for cluster in contestants:
        with tempfile.TemporaryDirectory(prefix="bench-cluster-") as folder:
            found[cluster.name] = measure(cluster, Path(folder), chosen.rounds, chosen.faults)
    text = _report(found, load_before)
    path = chosen.results / f"{datetime.now():%Y-%m-%d-%H%M}-cluster.md"
    path.write_text(text)
    print(text)
    say(f"written: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

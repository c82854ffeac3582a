"""`python -m bench.cluster.many_partitions`: a broker ends that leads a third of 10,000 partitions.

Three brokers, replication factor 3, min.insync.replicas 2. One producer with acks=all writes to
some of the partitions all the time; how long one of them goes without an answer is its gap.
Everything shares two cores, so what the processes used of them stands beside the times.
"""

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.artifacts import ROOT
from bench.cluster.contestants import NODES
from bench.cluster.gaps import CLIENT
from bench.load_run import LoadFailed
from bench.machine import describe_machine, keep_to_two_cores, load_average
from bench.process_costs import cpu_s_of, resident_bytes_of
from bench.rounds import MEGABYTE, say
from goqueue.testing import GoQueueCluster

CONFIG: Final = {"min.insync.replicas": "2", "fsync.policy": "interval", "flush.ms": "1000"}
# So many partitions, of different topics, are written to. librdkafka makes a request of each: more
# of them, or more often, and the two cores would be busy with that alone.
SAMPLED: Final = 36
# Each of them gets a message this often: gaps are told no finer.
PAUSE_S: Final = 0.2
# Before a broker ends, and after all have answered again.
STEADY_S: Final = 3.0
LIMIT_S: Final = 180.0
# Looking at 10,000 partitions costs a broker and the client some 100 ms.
LOOK_S: Final = 1.0

Place = tuple[str, int]


class SampledProducer(threading.Thread):
    """Writes to some partitions, and notes when each is answered."""

    def __init__(self, bootstrap: str, places: Iterable[Place]) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": bootstrap, **CLIENT})
        now = time.monotonic()
        self.answered = dict.fromkeys(places, now)
        self._gaps: dict[Place, list[tuple[float, float]]] = {place: [] for place in self.answered}
        self._ended = threading.Event()
        self.failed = 0

    def run(self) -> None:
        due = time.monotonic()
        while not self._ended.is_set():
            for topic, partition in self._gaps:
                self._producer.produce(
                    topic, b"x" * 100, partition=partition, on_delivery=self._note
                )
            due = max(due + PAUSE_S, time.monotonic())
            while (left := due - time.monotonic()) > 0:
                self._producer.poll(left)
            self._producer.poll(0)
        self._producer.flush(30)

    def end(self) -> None:
        self._ended.set()
        self.join()

    def _note(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed += 1
            return
        place = (str(message.topic()), int(message.partition() or 0))
        now = time.monotonic()
        self._gaps[place].append((now, now - self.answered[place]))
        self.answered[place] = now

    def longest_s(self, since: float) -> dict[Place, float]:
        """Of each partition, the longest gap that ended after `since`."""
        return {
            place: max((gap for end, gap in list(gaps) if end >= since), default=float("inf"))
            for place, gaps in self._gaps.items()
        }


class Fault(msgspec.Struct):
    """What one end of a broker came to."""

    how: str
    load: float
    led_gaps_s: list[float]
    other_gaps_s: list[float]
    cpu_s: dict[str, float]
    restart_s: float = 0.0
    in_sync_s: float = 0.0
    return_gaps_s: list[float] = msgspec.field(default_factory=list)
    return_cpu_s: dict[str, float] = msgspec.field(default_factory=dict)


class Figures(msgspec.Struct):
    made_s: float = 0.0
    made_cpu_s: dict[str, float] = msgspec.field(default_factory=dict)
    memory_mb: dict[str, float] = msgspec.field(default_factory=dict)
    faults: list[Fault] = msgspec.field(default_factory=list)


class ManyPartitions:
    def __init__(self, cluster: GoQueueCluster, topics: int, partitions: int) -> None:
        self._cluster = cluster
        self._topics = [f"many-{number:03d}" for number in range(topics)]
        self._partitions = partitions
        self._admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        self.figures = Figures()

    def make(self) -> None:
        begun, before = time.monotonic(), self._cpu_s()
        for topic in self._topics:
            new = NewTopic(topic, self._partitions, len(NODES), config=CONFIG)
            self._admin.create_topics([new], operation_timeout=LIMIT_S)[topic].result(LIMIT_S)
        self._until(self._are_all_in_sync)
        self.figures.made_s = time.monotonic() - begun
        self.figures.made_cpu_s = _spent(before, self._cpu_s())
        self.figures.memory_mb = self._memory_mb()
        say(f"  made in {self.figures.made_s:.1f} s; {self.figures.memory_mb}")

    def fault(self, how: str, end: Callable[[int], object]) -> None:
        """The broker that leads most of what the producer writes to ends, and comes back."""
        places = [
            (self._topics[number % len(self._topics)], number * 7 % self._partitions)
            for number in range(SAMPLED)
        ]
        leaders = self._leaders()
        led = [leaders[place] for place in places]
        node = max(set(led), key=led.count)
        producer = SampledProducer(self._cluster.bootstrap_servers, places)
        producer.start()
        try:
            self._until_answered(producer, time.monotonic() + STEADY_S)
            load, before, ended = load_average(), self._cpu_s(), time.monotonic()
            ending = threading.Thread(target=end, args=(node,))
            ending.start()
            self._until_answered(producer, time.monotonic() + STEADY_S)
            gaps = producer.longest_s(ended)
            ending.join()
            fault = Fault(
                how,
                load,
                [gap for place, gap in gaps.items() if leaders[place] == node],
                [gap for place, gap in gaps.items() if leaders[place] != node],
                _spent(before, self._cpu_s()),
            )
            self.figures.faults.append(fault)
            say(f"  {how} of node {node}: {_gaps(fault.led_gaps_s)}; cpu {fault.cpu_s}")
            before, returned = self._cpu_s(), time.monotonic()
            self._cluster.restart(node)
            fault.restart_s = time.monotonic() - returned
            self._until(self._are_all_in_sync)
            fault.in_sync_s = time.monotonic() - returned
            self._until_answered(producer, time.monotonic() + STEADY_S)
            fault.return_gaps_s = list(producer.longest_s(returned).values())
            fault.return_cpu_s = _spent(before, self._cpu_s())
            say(
                f"  back after {fault.restart_s:.1f} s, in sync after {fault.in_sync_s:.1f} s; "
                f"{_gaps(fault.return_gaps_s)}; cpu {fault.return_cpu_s}"
            )
        finally:
            producer.end()
        if producer.failed:
            raise LoadFailed(f"{producer.failed} messages failed")

    def _leaders(self) -> dict[Place, int]:
        found = self._admin.list_topics(timeout=LIMIT_S).topics
        return {
            (topic, index): partition.leader
            for topic in self._topics
            for index, partition in found[topic].partitions.items()
        }

    def _are_all_in_sync(self) -> bool:
        found = self._admin.list_topics(timeout=LIMIT_S).topics
        return all(
            len(partition.isrs) == len(NODES)
            for topic in self._topics
            for partition in found[topic].partitions.values()
        )

    def _until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not is_so():
            if time.monotonic() > deadline:
                raise TimeoutError("the cluster does not come to itself")
            time.sleep(LOOK_S)

    def _until_answered(self, producer: SampledProducer, moment: float) -> None:
        deadline = moment + LIMIT_S
        while min(producer.answered.values()) <= moment:
            if time.monotonic() > deadline:
                raise TimeoutError("some partitions are not answered any more")
            time.sleep(0.05)

    def _processes(self) -> dict[str, int]:
        pids = {f"broker {node}": self._cluster.server(node).pid for node in self._cluster.running}
        return {**pids, "etcd": self._cluster.etcd.pid}

    def _cpu_s(self) -> dict[str, float]:
        return {name: cpu_s_of(pid) for name, pid in self._processes().items()}

    def _memory_mb(self) -> dict[str, float]:
        return {
            name: round(resident_bytes_of(p) / MEGABYTE) for name, p in self._processes().items()
        }


def _spent(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """A process that was started meanwhile counts whole; one that ended does not count."""
    return {name: round(cpu_s - before.get(name, 0.0), 2) for name, cpu_s in after.items()}


def _gaps(gaps_s: list[float]) -> str:
    ordered = sorted(gaps_s)
    p50, p95 = (ordered[int(len(ordered) * share)] for share in (0.5, 0.95))
    return f"p50 {p50:.2f}, p95 {p95:.2f}, longest {ordered[-1]:.2f} s"


def _report(figures: Figures, partitions: int, load_before: float) -> str:
    machine = describe_machine()
    rows = [
        ("making them, until all are in sync, s", f"{figures.made_s:.1f}"),
        ("processor time of that, s", _each(figures.made_cpu_s)),
        ("memory after that, MB", _each(figures.memory_mb)),
    ]
    for fault in figures.faults:
        rows += [
            (f"gap after {fault.how}, {len(fault.led_gaps_s)} led there", _gaps(fault.led_gaps_s)),
            (f"the same, {len(fault.other_gaps_s)} led elsewhere", _gaps(fault.other_gaps_s)),
            ("processor time until 3 s after the last gap, s", _each(fault.cpu_s)),
            ("load average before it", f"{fault.load}"),
            (
                "started again after, s; all in sync after, s",
                f"{fault.restart_s:.1f}; {fault.in_sync_s:.1f}",
            ),
            ("gap of all during that", _gaps(fault.return_gaps_s)),
            ("processor time of that, s", _each(fault.return_cpu_s)),
        ]
    lines = [
        f"# A broker ends that leads a third of {partitions:,} partitions",
        "",
        "`python -m bench.cluster.many_partitions`. Three brokers, etcd and the client on "
        f"{machine.cores_used} cores ({machine.processor}), {machine.memory_gb} GB, Python "
        f"{machine.python}; load average before {load_before}, after {load_average()}. "
        "Replication factor 3, acks=all, `min.insync.replicas=2`, `fsync.policy=interval` every "
        "second.",
        "",
        "| | |",
        "|---|---|",
        *(f"| {label} | {value} |" for label, value in rows),
        "",
    ]
    return "\n".join(lines)


def _each(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in values.items())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--topics", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=100, help="of each topic")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--results", type=Path, default=ROOT / "bench" / "results")
    chosen = parser.parse_args()
    keep_to_two_cores()
    load_before = load_average()
    with (
        tempfile.TemporaryDirectory(prefix="bench-many-") as folder,
        GoQueueCluster(brokers=len(NODES), folder=folder) as cluster,
    ):
        run = ManyPartitions(cluster, chosen.topics, chosen.partitions)
        run.make()
        for _ in range(chosen.rounds):
            run.fault("kill -9", cluster.kill)
            run.fault("SIGTERM", cluster.stop)
    text = _report(run.figures, chosen.topics * chosen.partitions, load_before)
    path = chosen.results / f"{datetime.now():%Y-%m-%d-%H%M}-many-partitions.md"
    path.write_text(text)
    print(text)
    say(f"written: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A third member joins a group of two under load: how long it takes, and who has to wait."""

import random
import statistics
import threading
import time
from collections import defaultdict
from itertools import count, pairwise
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.bars import MET, NOT_MET, Bar
from bench.coordinators.broker_run import WAIT_S, create_topic, running_broker
from bench.rounds import say
from goqueue.testing import ServerProcess

PARTITIONS: Final = 12
RATE_PER_S: Final = 3_000
# Members learn of a rebalance by their next heartbeat. With the clients' default of 3 s, and of 5 s
# in the new protocol, that wait is all there is to measure. librdkafka joins at most once a second,
# and a cooperative rebalance needs two joins of the new member; it also pauses all its fetchers for
# a moment, which at times costs it half a second. Apache Kafka shows the same.
HEARTBEAT_MS: Final = 250
SETTLE_S: Final = 2.0
ROUNDS: Final = 5
MAX_REBALANCE_S: Final = 1.0
MAX_GAP_MS: Final = 200.0

PROTOCOLS: Final[dict[str, dict[str, Any]]] = {
    "eager (range)": {"partition.assignment.strategy": "range"},
    "cooperative-sticky": {"partition.assignment.strategy": "cooperative-sticky"},
    "consumer (KIP-848)": {"group.protocol": "consumer"},
}


class Load(threading.Thread):
    """Sends to all partitions in turn, at an even rate."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1})
        self._topic = topic
        self.ending = threading.Event()

    def run(self) -> None:
        started = time.perf_counter()
        for number in count():
            ahead_s = number / RATE_PER_S - (time.perf_counter() - started)
            if ahead_s > 0:
                self._producer.poll(0)
                time.sleep(max(ahead_s, 0.002))
            if self.ending.is_set():
                break
            self._producer.produce(self._topic, b"x" * 100, partition=number % PARTITIONS)
        self._producer.flush(WAIT_S)


class Member(threading.Thread):
    def __init__(self, bootstrap: str, group: str, topic: str, settings: dict[str, Any]) -> None:
        super().__init__(daemon=True)
        beats = {} if "group.protocol" in settings else {"heartbeat.interval.ms": HEARTBEAT_MS}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "latest",
                "fetch.wait.max.ms": 50,
                **beats,
                **settings,
            }
        )
        self._topic = topic
        self.ending = threading.Event()
        self.arrivals: dict[int, list[float]] = defaultdict(list)
        self.owned: frozenset[int] = frozenset()

    def run(self) -> None:
        self._consumer.subscribe([self._topic], on_assign=self._take, on_revoke=self._give)
        while not self.ending.is_set():
            messages = self._consumer.consume(100, 0.01)
            now = time.perf_counter()
            for message in messages:
                if message.error() is None:
                    self.arrivals[message.partition() or 0].append(now)
        self._consumer.close()

    def _take(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.owned |= {part.partition for part in partitions}

    def _give(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.owned -= {part.partition for part in partitions}


def measure_rebalances() -> list[Bar]:
    bars: list[Bar] = []
    with running_broker({"group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS)}) as server:
        for number, (name, settings) in enumerate(PROTOCOLS.items()):
            found = [_join(server, f"topic-{number}-{n}", settings) for n in range(ROUNDS)]
            say(f"    {name}: " + ", ".join(f"{f.took_s:.2f} s/{f.gap_ms:.0f} ms" for f in found))
            bars += _bars(name, found)
    return bars


class Rebalance(NamedTuple):
    took_s: float
    # Between two deliveries of a partition that stays where it is.
    gap_ms: float


def _join(server: ServerProcess, topic: str, settings: dict[str, Any]) -> Rebalance:
    create_topic(server, topic, PARTITIONS)
    bootstrap = server.bootstrap_servers
    load = Load(bootstrap, topic)
    load.start()
    members = [Member(bootstrap, f"group-{topic}", topic, settings) for _ in range(3)]
    for member in members[:2]:
        member.start()
    _wait_for_shares(members[:2])
    # At any point of the others' heartbeats.
    time.sleep(SETTLE_S + random.uniform(0, HEARTBEAT_MS / 1000))
    before = [member.owned for member in members[:2]]
    joined_at = time.perf_counter()
    members[2].start()
    _wait_for_shares(members)
    # Assigned is not yet delivered.
    while not all(members[2].arrivals[partition] for partition in members[2].owned):
        time.sleep(0.001)
    took_s = time.perf_counter() - joined_at
    stayed = [held & member.owned for held, member in zip(before, members, strict=False)]
    time.sleep(SETTLE_S)
    for member in members:
        member.ending.set()
    load.ending.set()
    for thread in (*members, load):
        thread.join(WAIT_S)
    gap_ms = 0.0
    for member, kept in zip(members, stayed, strict=False):
        for partition in kept:
            around = [at for at in member.arrivals[partition] if at > joined_at - 1.0]
            gap_ms = max(gap_ms, *((b - a) * 1000 for a, b in pairwise(around)))
    return Rebalance(took_s, gap_ms)


def _bars(name: str, found: list[Rebalance]) -> list[Bar]:
    took_s = statistics.median(rebalance.took_s for rebalance in found)
    gap_ms = statistics.median(rebalance.gap_ms for rebalance in found)
    bars = [
        Bar(
            f"third member joins, {name}, median of {ROUNDS}",
            f"below {MAX_REBALANCE_S:.0f} s",
            f"{took_s:.2f} s (worst {max(r.took_s for r in found):.2f})",
            MET if took_s < MAX_REBALANCE_S else NOT_MET,
        )
    ]
    if not name.startswith("eager"):
        bars.append(
            Bar(
                f"partitions that stay meanwhile, {name}: longest gap, median of {ROUNDS}",
                f"at most {MAX_GAP_MS:.0f} ms",
                f"{gap_ms:.0f} ms (worst {max(r.gap_ms for r in found):.0f})",
                MET if gap_ms <= MAX_GAP_MS else NOT_MET,
            )
        )
    return bars


def _wait_for_shares(members: list[Member]) -> None:
    deadline = time.perf_counter() + WAIT_S
    share = PARTITIONS // len(members)
    while any(len(member.owned) != share for member in members):
        if time.perf_counter() > deadline:
            raise RuntimeError(f"shares are {[sorted(member.owned) for member in members]}")
        time.sleep(0.001)

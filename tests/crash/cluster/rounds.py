"""Faults in a cluster of real processes under load, and the history of what clients were told.

    python -m tests.crash.cluster.rounds --faults 300
    python -m tests.crash.cluster.rounds --minutes 60 --seed 7

Three brokers and an etcd; an idempotent producer with acks=all, transactions, and a group of two
readers. Each fault is undone after a while, and the next comes when answers flow again, or at once.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from goqueue.testing import GoQueueCluster
from tests.busy_machine import stretched
from tests.crash.cluster.faults import Fault, Faults
from tests.crash.cluster.full_disk_server import FullDiskServer
from tests.crash.cluster.history import History, Log, Outcome, Place
from tests.crash.cluster.load import (
    CLIENT,
    LEDGER,
    LOG,
    PARTITIONS,
    Booker,
    Client,
    Reader,
    Writer,
)
from tests.crash.cluster.replicas import differing

PLACES: Final = [(topic, partition) for topic in (LOG, LEDGER) for partition in range(PARTITIONS)]
# How long a cluster may take to come to itself when nothing disturbs it any more.
PEACE_S: Final = 60.0
# Small segments, so that faults also fall on rolls.
TOPIC_CONFIG: Final = {"segment.bytes": "200000"}
BROKER_OPTIONS: Final = ("--set", "log.level=info")


class Rounds:
    def __init__(self, folder: Path, seed: int, cluster: GoQueueCluster | None = None) -> None:
        """`cluster`: another one than three brokers whose connections can be cut."""
        self.history = History()
        self.gaps_s: dict[str, list[float]] = defaultdict(list)
        self.faults = 0
        # What the brokers wrote, if the rounds failed.
        self.logs: dict[int, str] = {}
        self._folder = folder
        self._chance = random.Random(seed)
        self._seed = seed
        self._clients: list[Client] = []
        self.cluster = cluster or GoQueueCluster(
            *BROKER_OPTIONS, folder=folder, cuts=True, server_type=FullDiskServer
        )

    def run(self, enough: Callable[[int], bool], say: Callable[[str], None]) -> None:
        """`enough` is asked after each fault, with how many there were."""
        with self.cluster as cluster:
            try:
                self._run(enough, say)
            except BaseException:
                # Read while the processes' folders are still there.
                self.logs = {node: cluster.server(node).log_text for node in cluster.node_ids}
                raise

    def _run(self, enough: Callable[[int], bool], say: Callable[[str], None]) -> None:
        cluster = self.cluster
        writer = self._begin()
        faults = Faults(cluster, self._folder, self._chance)
        while not enough(self.faults):
            self._round(writer, faults, say)
        self._make_peace(writer)
        self._end_clients()
        found = self.history.check(self._read("read_uncommitted"), self._read("read_committed"))
        for node in cluster.running:
            cluster.stop(node)
        found += differing([self._folder / f"node-{n}" for n in cluster.node_ids], PLACES)
        assert not found, "\n".join([f"{len(found)} violations, seed {self._seed}", *found[:20]])

    def _begin(self) -> Writer:
        bootstrap = self.cluster.bootstrap_servers
        self._make_topics()
        writer = Writer(bootstrap, self.history)
        readers = [Reader(bootstrap, self.history) for _ in range(2)]
        self._clients = [writer, Booker(bootstrap, self.history, self._seed), *readers]
        for client in self._clients:
            client.start()
        self._wait_for_answers(writer)
        return writer

    def _make_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap_servers, "log_level": 0})
        deadline = time.monotonic() + stretched(PEACE_S)
        for name in (LOG, LEDGER):
            new = NewTopic(name, PARTITIONS, 3, config=TOPIC_CONFIG)
            while True:
                try:
                    admin.create_topics([new])[name].result(stretched(PEACE_S))
                    break
                except KafkaException as failure:
                    error: KafkaError = failure.args[0]
                    if error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                        break
                    assert time.monotonic() < deadline, error

    def _round(self, writer: Writer, faults: Faults, say: Callable[[str], None]) -> None:
        began = time.monotonic()
        fault = faults.strike()
        self.faults += 1
        time.sleep(faults.lasting_s() if fault.lasts_s is None else fault.lasts_s)
        fault.undo()
        in_peace = self._chance.random() < 0.75
        if in_peace:
            self._wait_for_answers(writer)
        gap_s = writer.longest_gap_s(began)
        if in_peace:
            self.gaps_s[_kind(fault)].append(gap_s)
        say(f"{self.faults}: {fault.name}, {gap_s:.2f} s without an answer")
        self._check_clients()
        time.sleep(self._chance.uniform(0.0, 0.5))

    def _wait_for_answers(self, writer: Writer) -> None:
        """Every partition answers what was written from now on."""
        since = time.monotonic()
        self._until(lambda: min(writer.last_answers) > since + 0.05, "writing goes on")

    def _make_peace(self, writer: Writer) -> None:
        self.cluster.heal()
        self._wait_for_answers(writer)
        everyone = set(self.cluster.node_ids)
        self._until(
            lambda: all(self.cluster.in_sync(*place) == everyone for place in PLACES),
            "all replicas are in sync",
        )

    def _end_clients(self) -> None:
        for client in self._clients:
            client.end()
        deadline = time.monotonic() + stretched(PEACE_S)
        for client in self._clients:
            client.join(max(0.0, deadline - time.monotonic()))
            assert not client.is_alive(), f"{type(client).__name__} does not end"
        self._check_clients()

    def _check_clients(self) -> None:
        for client in self._clients:
            if client.failure is not None:
                raise AssertionError(f"seed {self._seed}: {client.failure!r}") from client.failure

    def _until(self, is_so: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + stretched(PEACE_S)
        while not is_so():
            self._check_clients()
            if time.monotonic() > deadline:
                state = {place: self.cluster.in_sync(*place) for place in PLACES}
                raise AssertionError(
                    f"seed {self._seed}: not within {PEACE_S:g} s: {what}; {state}"
                )
            time.sleep(0.02)

    def _read(self, isolation: str) -> dict[Place, Log]:
        consumer = Consumer(
            {
                "bootstrap.servers": self.cluster.bootstrap_servers,
                "group.id": "nobody",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": isolation,
                **CLIENT,
            }
        )
        consumer.assign([TopicPartition(*place, 0) for place in PLACES])
        found: dict[Place, Log] = {place: {} for place in PLACES}
        ended: set[Place] = set()
        deadline = time.monotonic() + stretched(PEACE_S)
        try:
            while len(ended) < len(PLACES):
                assert time.monotonic() < deadline, f"{isolation}: only {ended} were read"
                for message in consumer.consume(1_000, 0.5):
                    place = (message.topic() or "", message.partition() or 0)
                    error = message.error()
                    if error is None:
                        found[place][message.offset() or 0] = message.value() or b""
                    elif error.code() == KafkaError._PARTITION_EOF:
                        ended.add(place)
        finally:
            consumer.close()
        return found

    def summary(self) -> str:
        ends = [transaction.outcome for transaction in self.history.transactions]
        lines = [
            f"seed {self._seed}: {self.faults} faults; {self.history.count:,} values acknowledged; "
            f"{ends.count(Outcome.COMMITTED):,} transactions committed, "
            f"{ends.count(Outcome.ABORTED):,} aborted, {ends.count(Outcome.UNKNOWN):,} unknown",
            "longest time without an answer (acks=all), s:  p50  p95  most  faults",
        ]
        for kind, gaps in sorted(self.gaps_s.items()):
            gaps.sort()
            p50, p95 = gaps[len(gaps) // 2], gaps[min(len(gaps) - 1, len(gaps) * 95 // 100)]
            lines.append(f"  {kind:<44} {p50:5.2f} {p95:5.2f} {gaps[-1]:5.2f}  {len(gaps)}")
        troubles = sum((client.troubles for client in self._clients), Counter[str]())
        lines += [f"  {count} times {what}" for what, count in troubles.most_common()]
        return "\n".join(lines)


def _kind(fault: Fault) -> str:
    """The name without who it was."""
    return " ".join(word for word in fault.name.split() if not word.isdigit())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--faults", type=int, default=0, help="end after so many")
    parser.add_argument("--minutes", type=float, default=60.0, help="or after this time")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    chosen = parser.parse_args()
    end = time.monotonic() + chosen.minutes * 60
    print(f"seed {chosen.seed}", flush=True)

    def enough(done: int) -> bool:
        return bool(chosen.faults and done >= chosen.faults) or time.monotonic() > end

    with tempfile.TemporaryDirectory(prefix="goqueue-faults-") as folder:
        rounds = Rounds(Path(folder), chosen.seed)
        try:
            rounds.run(enough, lambda line: print(line, flush=True))
        except BaseException:
            print(rounds.summary())
            for node, text in rounds.logs.items():
                print(f"--- broker {node}\n{text[-4000:]}")
            raise
    print(rounds.summary())
    print("nothing lost, doubled, torn, skipped or out of order; all replicas are the same")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Exactly-once copies from topic to topic while brokers are killed.

    python -m tests.crash.cluster.copying --kills 50
    python -m tests.crash.cluster.copying --kills 50 --client java

A copier reads in a group, writes in transactions and commits its offsets in them, as Kafka's guides
have it; a new one takes over from one that must give up. Every number that was fed to the source is
in the target once, in the order of its partition.
"""

import argparse
import contextlib
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.artifacts import KAFKA, find_java, maven_class_path
from goqueue.testing import GoQueueCluster
from tests.busy_machine import stretched
from tests.crash.cluster.history import History
from tests.crash.cluster.load import Client

SOURCE: Final = "source"
TARGET: Final = "target"
PARTITIONS: Final = 3
JAVA_COPIER: Final = Path(__file__).with_name("Copier.java")
# Between two messages of a partition, so that each transaction has a few.
FEED_PAUSE_S: Final = 0.01
# How long a copy may stand still, whatever was killed.
STANDSTILL_S: Final = 60.0
TRANSACTION_S: Final = 20.0
# Everything else as users have it who set nothing: whatever a broker does not answer shows.
CLIENT: Final[dict[str, Any]] = {"log_level": 0}


class Feeder(Client):
    """Writes numbers to all partitions until it is told to end."""

    fed = 0

    def work(self) -> None:
        producer = Producer(
            {**CLIENT, "bootstrap.servers": self.bootstrap_servers, "enable.idempotence": True}
        )
        while not self._ended.is_set():
            for partition in range(PARTITIONS):
                producer.produce(SOURCE, b"%d" % self.fed, partition=partition)
            self.fed += 1
            producer.poll(FEED_PAUSE_S)
        assert producer.flush(stretched(STANDSTILL_S)) == 0


class Copier(Client):
    """One that reads and writes with librdkafka."""

    def work(self) -> None:
        while not self._ended.is_set():
            try:
                self._copy()
            except KafkaException as failure:
                error: KafkaError = failure.args[0]
                self.troubles[f"new copier after {error.name()}: {error.str()}"] += 1

    def _copy(self) -> None:
        common = {**CLIENT, "bootstrap.servers": self.bootstrap_servers}
        producer = Producer(
            {
                **common,
                "transactional.id": "copy",
                "transaction.timeout.ms": int(TRANSACTION_S * 1000),
            }
        )
        producer.init_transactions(STANDSTILL_S)
        consumer = Consumer(
            {
                **common,
                "group.id": "copy",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "session.timeout.ms": 10_000,
            }
        )
        consumer.subscribe([SOURCE])
        with contextlib.closing(consumer):
            while not self._ended.is_set():
                self._copy_some(consumer, producer)

    def _copy_some(self, consumer: Consumer, producer: Producer) -> None:
        found = [each for each in consumer.consume(100, 0.1) if each.error() is None]
        if not found:
            return
        producer.begin_transaction()
        try:
            for message in found:
                producer.produce(TARGET, message.value(), partition=message.partition() or 0)
            producer.send_offsets_to_transaction(
                consumer.position(consumer.assignment()),
                consumer.consumer_group_metadata(),
                TRANSACTION_S,
            )
            producer.commit_transaction(TRANSACTION_S)
        except KafkaException as failure:
            error: KafkaError = failure.args[0]
            if not error.txn_requires_abort():
                raise
            self.troubles[f"aborted after {error.name()}"] += 1
            producer.abort_transaction(TRANSACTION_S)
            for place in consumer.committed(consumer.assignment(), TRANSACTION_S):
                place.offset = max(place.offset, 0)
                consumer.seek(place)


class JavaCopier(Client):
    """The same with the client of Apache Kafka."""

    def work(self) -> None:
        command = [find_java(), "-Xmx256m", "-cp", maven_class_path(KAFKA), str(JAVA_COPIER)]
        with subprocess.Popen(
            [*command, self.bootstrap_servers, SOURCE, TARGET],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process:
            threading.Thread(target=self._note_troubles, args=(process,), daemon=True).start()
            while process.poll() is None and not self._ended.wait(0.1):
                pass
            assert process.returncode is None, f"the copier ended with {process.returncode}"
            process.kill()

    def _note_troubles(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.troubles[line.strip()] += 1


class Target:
    """What committed transactions have written, in the order of each partition."""

    def __init__(self, bootstrap: str) -> None:
        self.found: list[list[int]] = [[] for _ in range(PARTITIONS)]
        self.longest_s = 0.0
        self._last = time.monotonic()
        self._consumer = Consumer(
            {
                **CLIENT,
                "bootstrap.servers": bootstrap,
                "group.id": "nobody",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        self._consumer.assign([TopicPartition(TARGET, each, 0) for each in range(PARTITIONS)])

    def read(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            for message in self._consumer.consume(1_000, min(left, 0.1)):
                if message.error() is None:
                    now = time.monotonic()
                    self.longest_s = max(self.longest_s, now - self._last)
                    self._last = now
                    self.found[message.partition() or 0].append(int(message.value() or b""))
            still_s = time.monotonic() - self._last
            assert still_s < stretched(STANDSTILL_S), f"nothing was copied for {still_s:.0f} s"

    def read_all(self, count: int) -> None:
        while any(len(each) < count for each in self.found):
            self.read(0.5)
        # Whatever was copied twice would come now.
        self.read(2.0)
        self._consumer.close()


def copy(cluster: GoQueueCluster, java: bool, kills: int, chance: random.Random) -> Iterator[str]:
    """Says what happens; raises what must not."""
    bootstrap = cluster.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for made in admin.create_topics(
        [NewTopic(n, PARTITIONS, 3) for n in (SOURCE, TARGET)]
    ).values():
        made.result(stretched(STANDSTILL_S))
    history = History()
    feeder = Feeder(bootstrap, history)
    copier = JavaCopier(bootstrap, history) if java else Copier(bootstrap, history)
    target = Target(bootstrap)
    feeder.start()
    copier.start()
    target.read(5.0)
    for number in range(kills):
        node = chance.choice(cluster.running)
        cluster.kill(node)
        target.read(chance.uniform(0.5, 4.0))
        cluster.restart(node)
        target.longest_s, longest_s = 0.0, target.longest_s
        target.read(chance.uniform(0.5, 3.0))
        yield f"{number + 1}: killed {node}, {longest_s:.1f} s without a copy"
        for client in (feeder, copier):
            if client.failure is not None:
                raise client.failure
    feeder.end()
    feeder.join()
    target.read_all(feeder.fed)
    copier.end()
    for partition, found in enumerate(target.found):
        assert found == list(range(feeder.fed)), f"partition {partition}: {_first_wrong(found)}"
    yield f"{feeder.fed * PARTITIONS:,} messages over {kills} kills, each copied once and in order"
    for what, count in copier.troubles.most_common():
        yield f"  {count} times {what}"


def _first_wrong(found: list[int]) -> str:
    at = next((i for i, number in enumerate(found) if number != i), len(found))
    return f"{found[max(0, at - 3) : at + 3]} around {at} of {len(found)}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--client", choices=("librdkafka", "java"), default="librdkafka")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--logs", type=Path, help="where brokers' logs go if it fails")
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}, {chosen.client}", flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="goqueue-copying-") as folder,
        GoQueueCluster("--set", "log.level=info", folder=folder) as cluster,
    ):
        chance = random.Random(chosen.seed)
        try:
            for line in copy(cluster, chosen.client == "java", chosen.kills, chance):
                print(line, flush=True)
        except BaseException:
            if chosen.logs is not None:
                chosen.logs.mkdir(parents=True, exist_ok=True)
                for node in cluster.node_ids:
                    (chosen.logs / f"broker-{node}.log").write_text(cluster.server(node).log_text)
            raise
    return 0


if __name__ == "__main__":
    sys.exit(main())

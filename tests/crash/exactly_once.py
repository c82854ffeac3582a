"""Exactly-once under SIGKILL: two copying clients and the broker are killed at random steps.

Numbered messages go into one topic; two workers copy them to another in transactions. At the end
the copy, read committed, must hold every number once, in the order of its partition.

A client may also be stopped for longer than its session: the other one takes over, and what the
first one has read, or begun to commit, is refused when it goes on.

    python -m tests.crash.exactly_once --rounds 100
"""

import argparse
import itertools
import queue
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from goqueue.testing import ServerProcess

WORKER = Path(__file__).with_name("exactly_once_worker.py")
PARTITIONS = 2
WAIT_SECONDS = 60.0
MESSAGES_PER_ROUND = 200
# Steps of the workers between two kills: early ones hit recovery, later ones work in progress.
STEPS_BEFORE_KILL = (1, 25)
# Shorter and longer than the session of a worker, which is a second.
PAUSE_SECONDS = (0.5, 3.0)
# Small segments, so that kills also fall on rolls.
TOPIC_CONFIG = {"segment.bytes": "100000", "flush.ms": "50"}


class Worker:
    def __init__(self, bootstrap: str, name: str, *, static: bool) -> None:
        command = [sys.executable, str(WORKER), bootstrap, name, "input", "output", "copiers"]
        self._command = [*command, name] if static else command
        self.steps: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()

    def _listen(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                self.steps.put(line.strip())

    def pause(self, seconds: float) -> None:
        self._process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(WAIT_SECONDS)


@dataclass
class ClientRecord:
    """What was acknowledged to the one who filled the input."""

    numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    acknowledged: Counter[bytes] = field(default_factory=Counter)

    def on_delivery(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        self.acknowledged[message.value() or b""] += 1


def run(folder: Path, *, rounds: int, seed: str) -> tuple[int, Counter[str]]:
    """Returns how many messages were copied, and what was killed how often."""
    chance = random.Random(seed)
    record = ClientRecord()
    kills: Counter[str] = Counter()
    options = ("--set", "log.level=warning", "--set", "group.min.session.timeout.ms=100")
    with ServerProcess(folder, *options) as server:
        bootstrap = server.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        new = [NewTopic(name, PARTITIONS, config=TOPIC_CONFIG) for name in ("input", "output")]
        for created in admin.create_topics(new).values():
            created.result(WAIT_SECONDS)
        filler = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
        )
        workers = [Worker(bootstrap, f"worker-{n}", static=n == 0) for n in range(2)]
        try:
            for _ in range(rounds):
                for number in itertools.islice(record.numbers, MESSAGES_PER_ROUND):
                    filler.produce(
                        "input",
                        b"%d" % number,
                        partition=number % PARTITIONS,
                        on_delivery=record.on_delivery,
                    )
                _wait_for_steps(workers, chance.randint(*STEPS_BEFORE_KILL), filler)
                victim = chance.choice(("broker", "worker", "both", "pause"))
                kills[victim] += 1
                if victim == "pause":
                    chance.choice(workers).pause(chance.uniform(*PAUSE_SECONDS))
                    continue
                if victim != "worker":
                    server.sigkill()
                if victim != "broker":
                    worker = chance.choice(workers)
                    worker.kill()
                    worker.start()
                if victim != "worker":
                    server.restart()
            assert filler.flush(WAIT_SECONDS) == 0
            _check(_read_copy(bootstrap, len(record.acknowledged)), record)
        finally:
            for worker in workers:
                worker.kill()
        assert "Traceback" not in server.log_text, server.log_text
    return len(record.acknowledged), kills


def _wait_for_steps(workers: list[Worker], count: int, filler: Producer) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while count:
        filler.poll(0.005)
        for worker in workers:
            if count and not worker.steps.empty():
                worker.steps.get()
                count -= 1
        assert time.monotonic() < deadline, "the workers do not get on"


def _read_copy(bootstrap: str, count: int) -> list[list[bytes]]:
    """The copy by partition, once it has at least `count` messages, up to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused: partitions are assigned",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition("output", partition, 0) for partition in range(PARTITIONS)])
    found: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    ended: set[int | None] = set()
    deadline = time.monotonic() + WAIT_SECONDS
    try:
        while sum(map(len, found)) < count or len(ended) < PARTITIONS:
            got = sum(map(len, found))
            assert time.monotonic() < deadline, f"{got} of {count} messages were copied"
            message = consumer.poll(0.5)
            if message is None:
                continue
            if message.error() is None:
                found[message.partition() or 0].append(message.value() or b"")
                ended.discard(message.partition())
            else:
                ended.add(message.partition())
    finally:
        consumer.close()
    return found


def _check(copy: list[list[bytes]], record: ClientRecord) -> None:
    again = {value: n for value, n in record.acknowledged.items() if n > 1}
    assert not again, "the test itself: acknowledged twice"
    copied = Counter(value for values in copy for value in values)
    lost = record.acknowledged - copied
    assert not lost, f"{len(lost)} messages are lost, such as {min(lost)!r}"
    twice = copied - record.acknowledged
    assert not twice, f"{len(twice)} messages were copied again, such as {min(twice)!r}"
    for partition, values in enumerate(copy):
        assert values == sorted(values, key=int), f"partition {partition} is out of order"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", default="soak")
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="goqueue-soak-") as folder:
        copied, kills = run(Path(folder), rounds=options.rounds, seed=options.seed)
    killed = ", ".join(f"{victim} {count}" for victim, count in sorted(kills.items()))
    seconds = time.monotonic() - started
    print(f"{options.rounds} rounds in {seconds:.0f} s: {copied} messages copied once each")
    print(f"killed: {killed}")


if __name__ == "__main__":
    main()

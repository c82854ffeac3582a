"""Exactly-once through Spark under SIGKILL: of the driver, of Python workers, of the broker.

Numbered messages go into one topic, a streaming query copies them to another. At the end the copy,
read committed, must hold every number once.

    python -m tests.crash.spark_rounds --rounds 20 [--cluster]

With `--cluster`, brokers of a cluster of three are killed, and nothing else.
"""

import argparse
import datetime
import itertools
import os
import platform
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pyspark
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.crash.spark_brokers import SparkBrokers
from tests.crash.spark_job import WAIT_SECONDS, SparkJob
from tests.spark.committed_reading import values_of

SOURCE, SINK = "input", "output"
PARTITIONS = 2
MESSAGES_PER_ROUND = 1_000
VICTIMS = ("driver", "worker", "broker")
# Batches between two kills, and how long after the last of them: a batch takes about as long.
STEPS_BEFORE_KILL = (1, 3)
SECONDS_BEFORE_KILL = (0.0, 1.0)
_Outcome = TypeVar("_Outcome")
RESULTS = Path(__file__).parents[2] / "bench" / "results"


@dataclass
class Rounds:
    """What was sent, and what was killed."""

    chance: random.Random
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    sent: Counter[bytes] = field(default_factory=Counter)
    kills: Counter[str] = field(default_factory=Counter)

    def on_delivery(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        self.sent[message.value() or b""] += 1


def run_rounds(server: SparkBrokers, job: SparkJob, rounds: Rounds, victims: Iterable[str]) -> None:
    """Fill the source and kill, again and again. The job reads `SOURCE` and prints its steps."""
    filler = Producer(
        {"bootstrap.servers": server.bootstrap_servers, "enable.idempotence": True, "log_level": 0}
    )
    for victim in victims:
        # Before there is more to do: a fast job may be done with it before it is waited for.
        job.forget_steps()
        for number in itertools.islice(rounds.numbers, MESSAGES_PER_ROUND):
            filler.produce(
                SOURCE, b"%d" % number, b"key-%d" % number, on_delivery=rounds.on_delivery
            )
        assert filler.flush(WAIT_SECONDS) == 0
        job.wait_for_steps(rounds.chance.randint(*STEPS_BEFORE_KILL))
        time.sleep(rounds.chance.uniform(*SECONDS_BEFORE_KILL))
        if victim == "driver":
            job.kill()
        elif victim == "broker":
            server.kill_one(rounds.chance)
        elif not job.kill_worker(rounds.chance):
            job.ensure()
            continue
        rounds.kills[victim] += 1
        print(f"{sum(rounds.kills.values())}: {victim}", file=sys.stderr, flush=True)


def make_topics(bootstrap: str, *names: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for created in admin.create_topics([NewTopic(name, PARTITIONS) for name in names]).values():
        created.result(WAIT_SECONDS)


def copy_to_topic(
    folder: Path, victims: Iterable[str], seed: str, *, of_a_cluster: bool
) -> tuple[Rounds, SparkJob]:
    rounds = Rounds(random.Random(seed))
    with SparkBrokers(folder, of_a_cluster=of_a_cluster) as server:
        bootstrap = server.bootstrap_servers
        make_topics(bootstrap, SOURCE, SINK)
        checkpoint = str(folder / "checkpoint")
        job = SparkJob(
            "tests.crash.spark_copy_job",
            bootstrap,
            SOURCE,
            SINK,
            checkpoint,
            log=folder / "job.log",
        )
        try:
            run_rounds(server, job, rounds, victims)
        finally:
            job.kill()
        job.run_to_end("--available-now")
        check_each_once(rounds, values_of(bootstrap, SINK))
        assert "Traceback" not in server.log_text, server.log_text
    return rounds, job


def check_each_once(rounds: Rounds, values: Iterable[bytes]) -> None:
    found = Counter(values)
    lost, foreign = rounds.sent - found, found - rounds.sent
    assert not lost, f"{len(lost)} messages are lost, such as {next(iter(lost))!r}"
    assert not foreign, f"{len(foreign)} are there twice, such as {next(iter(foreign))!r}"


def write_report(
    name: str, what: list[str], rounds: Rounds, job: SparkJob, played: "Played"
) -> str:
    """`what` is the title, how it was done, and what was found."""
    when = datetime.datetime.now(datetime.UTC)
    kills = ", ".join(f"{victim} {rounds.kills[victim]}" for victim in rounds.kills)
    title, how, *found = what
    lines = [
        f"# {title}",
        "",
        how,
        "",
        f"- Kills: {kills}; the query was started {job.starts} times.",
        *(f"- {each}" for each in found),
        f"- {played.seconds:.0f} s, seed {played.seed}; Spark {pyspark.__version__}, Python "
        f"{platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}.",
    ]
    text = "\n".join(lines) + "\n"
    (RESULTS / f"{when:%Y-%m-%d}-{name}.md").write_text(text)
    return text


@dataclass(frozen=True)
class Played:
    seed: str
    seconds: float
    of_a_cluster: bool

    def results(self, name: str) -> str:
        return f"{name}-cluster" if self.of_a_cluster else name


def play(description: str | None, run: Callable[..., _Outcome]) -> tuple[_Outcome, Played]:
    """Read the command line, and run the rounds in a folder of their own."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=20, help="kills of each kind")
    parser.add_argument("--minutes", type=float, default=120, help="after which no more is killed")
    parser.add_argument("--seed", default=str(random.randrange(10**6)))
    parser.add_argument("--cluster", action="store_true", help="kill only brokers, one of three")
    given = parser.parse_args()
    kinds = ("broker",) if given.cluster else VICTIMS
    # In turn, so that a run that is cut short has killed about as many of each.
    victims = itertools.chain.from_iterable(itertools.repeat(kinds, given.rounds))
    started = time.monotonic()
    in_time = itertools.takewhile(
        lambda _: time.monotonic() < started + 60 * given.minutes, victims
    )
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        outcome = run(Path(folder), in_time, given.seed, of_a_cluster=given.cluster)
    return outcome, Played(given.seed, time.monotonic() - started, given.cluster)


def main() -> None:
    (rounds, job), played = play(__doc__, copy_to_topic)
    what = [
        "Exactly-once through Spark under SIGKILL",
        "Topic to topic by a streaming query with checkpoint, read committed, checked by content.\n"
        "`python -m tests.crash.spark_rounds`",
        f"Messages: {len(rounds.sent)}; every one is in the copy exactly once.",
    ]
    print(write_report(played.results("spark-faults"), what, rounds, job, played))


if __name__ == "__main__":
    main()

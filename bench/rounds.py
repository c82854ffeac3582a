"""What every measurement shares: taking turns, fresh topics, and costs read from /proc."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Protocol, TypeVar

from bench.brokers.kafka_speaker import Fsync, KafkaSpeaker, create_topic, delete_topic
from bench.child_process import BrokerFailed, ChildProcess
from bench.figures import Row, Sample
from bench.kafka_wire import WireError
from bench.load_run import Finished, LoadFailed, Throughput

MEGABYTE = 1_000_000
_numbers = count(1)


class Running(Protocol):
    @property
    def process(self) -> ChildProcess: ...


class Named(Protocol):
    name: str
    process: ChildProcess


AnyBroker = TypeVar("AnyBroker", bound=Named)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def take_turns(
    brokers: tuple[AnyBroker, ...], repetitions: int, measure: Callable[[AnyBroker], None], row: Row
) -> None:
    """Each round runs every broker once; the order turns around, so that none is always second.

    A broker that fails is noted in the row and sits out its remaining rounds.
    """
    for repetition in range(repetitions):
        for broker in brokers if repetition % 2 == 0 else brokers[::-1]:
            if broker.name in row.failures:
                continue
            try:
                measure(broker)
            except (LoadFailed, BrokerFailed, WireError, OSError) as error:
                row.failures[broker.name] = str(error)
                say(f"    {broker.name} failed: {error}")


@contextmanager
def fresh_topic(broker: KafkaSpeaker, partitions: int, fsync: Fsync) -> Iterator[str]:
    topic = f"bench-{next(_numbers)}"
    create_topic(broker, topic, partitions, fsync)
    try:
        yield topic
    finally:
        delete_topic(broker, topic)


def settle() -> None:
    """Writes out what earlier rounds left dirty, so that no round pays for another's disk work."""
    os.sync()


def measured(broker: Running, run: Callable[[], tuple[Throughput, Finished]]) -> Sample:
    """Messages per second of one run, with what it cost the broker and the client."""
    before = broker.process.cpu_seconds()
    result, finished = run()
    cpu_seconds = broker.process.cpu_seconds() - before
    millions = result.messages / 1e6
    return Sample(
        value=result.messages / result.seconds,
        broker_cpu_s_per_million=cpu_seconds / millions,
        client_cpu_s_per_million=finished.client_cpu_seconds / millions,
        broker_resident_mb=broker.process.resident_bytes() / MEGABYTE,
        cores_used=(cpu_seconds + finished.client_cpu_seconds) / result.seconds,
    )

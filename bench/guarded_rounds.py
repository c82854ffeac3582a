"""Rounds of the C client at two brokers of which one has something on that costs.

Two ratios to the other are given: of throughput, and of messages per second of the broker's
processor time. The first has what the client does in it, which shares the machine; the second is
steadier on a busy one.
"""

import statistics
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar

from bench.brokers.kafka_speaker import Reachable, run_throughput
from bench.figures import Sample
from bench.rounds import measured, settle


class Broker(Reachable, Protocol):
    @property
    def client_options(self) -> Sequence[str]: ...
    def make_topic(self, name: str) -> None: ...
    def delete_topic(self, name: str) -> None: ...


AnyBroker = TypeVar("AnyBroker", bound=Broker)


@dataclass(slots=True)
class Figures:
    produced: list[Sample] = field(default_factory=list)
    consumed: list[Sample] = field(default_factory=list)


class Ratios(NamedTuple):
    """Medians. Ratios are those of rounds, so that what disturbs one disturbs both of it."""

    before: float
    now: float
    speed: float
    by_processor: float


@contextmanager
def topic_at(broker: Broker) -> Iterator[str]:
    topic = f"bench-{uuid.uuid4().hex[:8]}"
    broker.make_topic(topic)
    try:
        yield topic
    finally:
        broker.delete_topic(topic)


def one_round(broker: Broker, size: int, messages: int, figures: Figures | None) -> None:
    volume = [*("--count", str(messages), "--size", str(size), "--partitions", "1")]
    volume += broker.client_options
    with topic_at(broker) as topic:
        settle()
        produced = measured(
            broker, lambda: run_throughput(broker, "produce", topic, *volume, "--set", "acks=1")
        )
        consumed = measured(broker, lambda: run_throughput(broker, "consume", topic, *volume))
    if figures is not None:
        figures.produced.append(produced)
        figures.consumed.append(consumed)


def in_turn(brokers: Sequence[AnyBroker], turn: int) -> Sequence[AnyBroker]:
    """None of them is always second."""
    return brokers if turn % 2 else brokers[::-1]


def ratios(mine: list[Sample], base: list[Sample]) -> Ratios:
    pairs = list(zip(mine, base, strict=True))
    return Ratios(
        statistics.median(each.value for each in base),
        statistics.median(each.value for each in mine),
        statistics.median(a.value / b.value for a, b in pairs),
        statistics.median(
            (b.broker_cpu_s_per_million or 0) / (a.broker_cpu_s_per_million or 1) for a, b in pairs
        ),
    )

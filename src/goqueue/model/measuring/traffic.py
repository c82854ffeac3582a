"""What goes through the doors; those without a scrape endpoint of their own leave it here."""

from collections import Counter
from dataclasses import dataclass, field

from goqueue.model.measuring.histograms import Histogram, Histograms


@dataclass(slots=True)
class ConnectionCounts:
    open: int = 0
    accepted: int = 0
    # Turned away because of `max.connections`.
    refused: int = 0


@dataclass(slots=True)
class KafkaTraffic:
    """By name of the API. A time runs from the last byte of the request to its answer."""

    connections: ConnectionCounts = field(default_factory=ConnectionCounts)
    latencies: Histograms = field(default_factory=Histograms)
    # Requests that could not be answered and cost their connection.
    failures: Counter[str] = field(default_factory=Counter)
    # By mechanism and outcome.
    authentications: Counter[tuple[str, str]] = field(default_factory=Counter)


@dataclass(slots=True)
class SqsTraffic:
    """By action; errors also by code."""

    latencies: Histograms = field(default_factory=Histograms)
    errors: Counter[tuple[str, str]] = field(default_factory=Counter)


@dataclass(slots=True)
class DoorTraffic:
    kafka: KafkaTraffic = field(default_factory=KafkaTraffic)
    sqs: SqsTraffic = field(default_factory=SqsTraffic)
    loop_lag: Histogram = field(default_factory=Histogram)

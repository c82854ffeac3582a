"""What goes through the doors; those without a scrape endpoint of their own leave it here."""

from collections import Counter
from dataclasses import dataclass, field

from goqueue.model.measuring.histograms import Histogram, Histograms
from goqueue.model.measuring.tls import TlsFigures
from goqueue.model.security.config import SASL_MECHANISMS


@dataclass(slots=True)
class ConnectionCounts:
    open: int = 0
    accepted: int = 0
    # Turned away because of `max.connections`.
    refused: int = 0


def _no_log_ins() -> Counter[tuple[str, str]]:
    """All are there from the start: a rate needs a zero before the first."""
    return Counter(
        {(by, outcome): 0 for by in SASL_MECHANISMS for outcome in ("success", "failure")}
    )


@dataclass(slots=True)
class KafkaTraffic:
    """By name of the API. A time runs from the last byte of the request to its answer."""

    connections: ConnectionCounts = field(default_factory=ConnectionCounts)
    latencies: Histograms = field(default_factory=Histograms)
    # Requests that could not be answered and cost their connection.
    failures: Counter[str] = field(default_factory=Counter)
    # By mechanism and outcome.
    authentications: Counter[tuple[str, str]] = field(default_factory=_no_log_ins)


@dataclass(slots=True)
class SqsTraffic:
    """By action; errors also by code."""

    latencies: Histograms = field(default_factory=Histograms)
    errors: Counter[tuple[str, str]] = field(default_factory=Counter)


@dataclass(slots=True)
class DoorTraffic:
    kafka: KafkaTraffic = field(default_factory=KafkaTraffic)
    sqs: SqsTraffic = field(default_factory=SqsTraffic)
    tls: TlsFigures = field(default_factory=TlsFigures)
    loop_lag: Histogram = field(default_factory=Histogram)
